"""The tutorial, command by command in the order in which a reader meets them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.repo.test_readme_sections import _PLUGIN, _ROOT, _run

from cuassay.cli.main import main

_TEXT = (_ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w.]+)\n")
_JUDGES = ("check", "replay", "changed")


@pytest.mark.thorough
@pytest.mark.usefixtures("judge_here")  # the README's commands have processes of their own
def test_the_tutorial_takes_a_reader_from_a_wrong_kernel_to_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    ended: list[tuple[str, int]] = []
    said: list[str] = []
    for kind, body in _BLOCK.findall(_TEXT):
        if kind in ("python", "toml"):
            named = _NAME.match(body)
            assert named, body
            (tmp_path / named[1]).write_text(body)
        elif not kind:
            for line in body.splitlines():
                program, *words = shlex.split(line)
                if program == "pytest":
                    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_PLUGIN]
                    done = _run(tmp_path, *command, *words, "--cuassay-device", "cpu")
                    code, out = done.returncode, done.stdout
                else:
                    assert program == "cuassay"
                    device = ["--device", "cpu"] if words[0] in _JUDGES else []
                    code = main([*words, *device])
                    out, err = capfd.readouterr()
                    assert "Traceback" not in err, err
                ended.append((words[0] if program == "cuassay" else program, code))
                said.append(out)
                if "--export" in line:
                    assert "program: repro.py (calls the kernel in repro_kernel;" in err
                    failed = _run(tmp_path, sys.executable, "-I", "repro.py")
                    assert failed.returncode == 1
                    assert "AssertionError: y: relative error" in failed.stderr
    assert ended == [
        ("problem", 0),
        ("check", 1),
        ("explain", 0),
        ("replay", 1),
        ("check", 0),
        ("problem", 0),
        ("check", 0),
        ("pytest", 0),
        ("check", 0),
        ("changed", 0),
        ("check", 0),
    ], said
    (shown, accepted) = (body for kind, body in _BLOCK.findall(_TEXT) if kind == "text")
    _same_lines(shown, said[1])
    _same_lines(accepted, said[4])
    assert "one of 32, 64, 128" in said[5]
    assert "ACCEPTED  add_rows" in said[6]
    assert len(said[8].splitlines()) == 1
    assert json.loads(said[10])["verdict"] == "ACCEPTED"


def _same_lines(shown: str, said: str) -> None:
    """Check that a verdict has the labels that the page shows, and its cause and line."""
    label = re.compile(r"^  (\w[\w ]*?)  +(.*)$", re.MULTILINE)
    ours, theirs = dict(label.findall(shown)), dict(label.findall(said))
    assert set(ours) <= set(theirs)
    assert shown.splitlines()[0] in said
    for same in ("cause", "line", "do"):
        assert ours.get(same) == (theirs.get(same) if same in ours else None)


def test_the_readme_is_short_and_has_its_picture() -> None:
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert (_ROOT / picture).read_text(encoding="utf-8").startswith("<svg")
