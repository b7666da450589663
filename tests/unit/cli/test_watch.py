"""`cuassay check --watch`: once now, once after each save, until interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.cli.watch import Check, watch
from cuassay.engine import pool
from cuassay.errors import CandidateError, UsageError
from cuassay.model.device import CPU
from cuassay.model.events import Event
from cuassay.model.jobs import TrialJob
from tests.support import samples


class _Pool:
    """Stands in for judges that wait: what it yields is a verdict."""

    jobs: list[TrialJob]

    def __init__(self, lanes: Sequence[object]) -> None:
        assert len(lanes) == 1
        self.jobs = []

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *failure: object) -> None:
        return None

    def check(self, job: TrialJob) -> Iterator[Event]:
        self.jobs.append(job)
        yield from samples.events(samples.rejected())


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is saved while the command waits, in order; then it is interrupted."""
    texts: list[str] = []
    file = tmp_path / "kernel.py"
    file.write_text("first")

    def waits(_seconds: float) -> None:
        if not texts:
            raise KeyboardInterrupt
        file.write_text(texts.pop(0))

    monkeypatch.setattr(pool, "WarmPool", _Pool)
    monkeypatch.setattr("cuassay.cli.watch.time.sleep", waits)
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return texts


def test_each_save_is_judged(saves: list[str], tmp_path: Path) -> None:
    saves += ["second text", "third, longer text"]
    judged: list[str] = []

    def once(_check: Check) -> int:
        judged.append((tmp_path / "kernel.py").read_text())
        return 1 if len(judged) < 3 else 0

    assert watch([tmp_path / "kernel.py"], once, device=CPU) == 0
    assert judged == ["first", "second text", "third, longer text"]


def test_a_file_in_the_middle_of_an_edit_ends_nothing(
    saves: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saves += ["whole again"]
    codes = iter((CandidateError("no function run"), 0))

    def once(_check: Check) -> int:
        code = next(codes)
        if isinstance(code, Exception):
            raise code
        return code

    assert watch([tmp_path], once, device=CPU) == 0
    assert "no function run" in capsys.readouterr().err


def test_the_command_ends_as_its_last_verdict(
    saves: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    saves += ["def run(x):\n    return x\n"]
    assert main(["check", "kernel.py", "--problem", "rmsnorm", "--watch", "--device", "cpu"]) == 1
    out, err = capsys.readouterr()
    assert "REJECTED" in out
    assert err.count("watching kernel.py; a save judges again, Ctrl+C ends") == 2


def test_an_interruption_is_no_acceptance(saves: list[str], tmp_path: Path) -> None:
    def interrupted(_check: Check) -> int:
        raise KeyboardInterrupt

    assert watch([tmp_path], interrupted, device=CPU) == 130
    assert watch([tmp_path], lambda _check: 130, device=CPU) == 130  # in the middle of a trial


def test_nothing_to_watch_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--watch needs a kernel that is a file"):
        watch([], lambda _check: 0, device=CPU)
