"""A trial's events on their way to an exit code: verdicts, stops, interruptions, no end at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.cli.drive import BUG_REPORT, drive, require_home
from cuassay.cli.options import Output
from cuassay.cli.sinks import Target
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.events import EngineFinished, EngineStarted, EngineStopped, Event, Progress
from cuassay.model.verdict import Verdict
from tests.support import samples

_STARTED = EngineStarted(
    run="20260101-000000-0000000",
    problem="rmsnorm",
    candidate="kernel.py",
    profile="quick",
    device="cpu",
    digest="d",
    checks=("NUM001",),
    seed=7,
)
_QUIET = Output(quiet=True, path="kernel.py")
_JSON = Output(targets=(Target(form="json"),), path="kernel.py")


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(samples.accepted(), 0), (samples.rejected(), 1), (samples.inconclusive(), 3)],
)
def test_a_verdict_decides_the_exit_code(
    verdict: Verdict, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[Event] = [_STARTED, Progress(text="judging"), EngineFinished(verdict=verdict)]
    assert drive(iter(events), _QUIET) == code
    assert verdict.decision.value in capsys.readouterr().out


@pytest.mark.parametrize("code", [2, 3])
def test_a_stop_is_one_message_with_its_own_code(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = EngineStopped(exit_code=code, message="no compiler is here")
    assert drive(iter([_STARTED, stopped]), _QUIET) == code
    told = capsys.readouterr().err
    assert "cuassay: no compiler is here" in told
    assert BUG_REPORT not in told


def test_a_fault_of_cuassay_asks_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = EngineStopped(exit_code=3, message="KeyError: 'x'", traceback="Traceback ...\n")
    assert drive(iter([stopped]), _QUIET) == 3
    told = capsys.readouterr().err
    assert told.index("Traceback ...") < told.index("KeyError: 'x'") < told.index(BUG_REPORT)


def test_json_is_one_document_also_where_there_is_no_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped = EngineStopped(exit_code=2, message="the file is not valid Python")
    assert drive(iter([_STARTED, stopped]), _JSON) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 2


def test_forms_without_a_verdict_are_written_but_no_page(tmp_path: Path) -> None:
    places = {form: tmp_path / f"r.{form}" for form in ("junit", "html")}
    targets = tuple(Target(form=form, path=path) for form, path in places.items())
    stopped = EngineStopped(exit_code=3, message="no compiler is here")
    drive(iter([_STARTED, stopped]), Output(quiet=True, targets=targets, path="kernel.py"))
    assert "no compiler is here" in places["junit"].read_text()
    assert not places["html"].exists()


def _interrupted() -> Iterator[Event]:
    yield _STARTED
    raise KeyboardInterrupt


def test_an_interruption_says_where_what_was_seen_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert drive(_interrupted(), _JSON) == 130
    shown = capsys.readouterr()
    assert json.loads(shown.out)["exit_code"] == 130
    assert f"what was seen so far is in run {_STARTED.run}" in shown.err


def test_events_that_just_end_are_no_verdict() -> None:
    for events in ([], [_STARTED]):
        with pytest.raises(CannotJudgeError, match="ended without a verdict"):
            drive(iter(events), _QUIET)


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    require_home()
    assert (tmp_path / "home").is_dir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(UsageError, match="set CUASSAY_HOME to a folder that you can write"):
        require_home()
