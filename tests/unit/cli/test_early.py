"""What is said before a trial starts: syntax errors, a kernel's problem, an unwritable home."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.cli.early import found_problem
from cuassay.cli.main import main
from cuassay.errors import UsageError
from tests.support import fake_engine, samples


def test_a_syntax_error_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x):\n    return x = = 3\n")
    assert main(["check", str(kernel), "--problem", "rmsnorm"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("REJECTED")
    assert "kernel.py:2  return x = = 3" in out
    assert fake.jobs == []


def test_a_kernel_called_like_an_operator_needs_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    kernel = tmp_path / "rmsnorm.py"
    kernel.write_text("def run(x, weight, eps):\n    return x\n")
    assert main(["check", str(kernel)]) == 0
    assert fake.jobs[0].problem == "rmsnorm"
    assert "judging against rmsnorm" in capsys.readouterr().err


def test_a_file_that_declares_its_problem_is_judged_against_it(tmp_path: Path) -> None:
    file = tmp_path / "scale.py"
    file.write_text("@problem(axes={})\ndef scale(x):\n    ...\n\ndef run(x):\n    ...\n")
    assert found_problem(str(file)) == (f"{file}:scale", "the file declares it as 'scale'")


def test_a_kernel_that_nothing_says_the_problem_of(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("def run(x):\n    return x\n")
    with pytest.raises(UsageError, match="--problem is missing"):
        found_problem(str(file))


def test_a_home_that_cannot_be_written_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUASSAY_HOME", str(blocked / "home"))
    assert main(["check", "kernel.py", "--problem", "rmsnorm"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "set CUASSAY_HOME to a folder that you can write" in err


def test_problem_list_names_every_operator(capsys: pytest.CaptureFixture[str]) -> None:
    from cuassay.catalog.registry import names

    assert main(["problem", "list"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}\n" in out for name in names())
