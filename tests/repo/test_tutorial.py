"""The tutorial, command by command in the order in which a reader meets them."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.repo.test_readme_sections import _ROOT, _run

from cuassay.cli.main import main

_TEXT = (_ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.thorough
@pytest.mark.usefixtures("judge_here")  # the README's commands have processes of their own
def test_the_tutorial_takes_a_wrong_kernel_to_an_accepted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    codes: list[int] = []
    said: list[str] = []
    errors: list[str] = []
    for kind, body in _BLOCK.findall(_TEXT):
        if kind == "python":
            (tmp_path / "kernel.py").write_text(body)
        elif not kind:
            for line in body.splitlines():
                program, *words = shlex.split(line)
                assert program == "cuassay"
                device = [] if words[0] == "problem" else ["--device", "cpu"]
                codes.append(main([*words, *device]))
                out, err = capfd.readouterr()
                assert "Traceback" not in err, err
                said.append(out)
                errors.append(err)
            if "--export" in body:
                assert "program: repro.py (calls the kernel in repro_kernel;" in errors[-1]
                failed = _run(tmp_path, sys.executable, "-I", "repro.py")
                assert failed.returncode == 1
                assert "AssertionError: y: relative error" in failed.stderr
    assert codes == [0, 1, 1, 0], said
    assert "line        kernel.py:7  total = torch.zeros" in said[1]
    assert "a sum is kept in a precision that is too low" in said[1]
    assert "\nACCEPTED  kernel" in said[3]


def test_the_readme_is_short_and_has_its_picture() -> None:
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert (_ROOT / picture).read_text(encoding="utf-8").startswith("<svg")
