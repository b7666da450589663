"""From the end of a trial to its line: what was said, cut, and how it ended."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuassay.audit.condense import condense, of_verdict
from cuassay.engine.executors import Task, TaskEnded
from cuassay.model.audit import Ending
from cuassay.model.events import EngineFinished, EngineStopped
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision
from tests.support import audits, samples


def _ended(event: EngineFinished | EngineStopped, *, lost: bool = False) -> TaskEnded:
    job = TrialJob(problem="p", candidate="k.py")
    task = Task(id="1", job=job, folder=Path("/audit/candidates/1-abc-2"), attempt=2)
    return TaskEnded(task=task, event=event, lane="cpu 0", duration_s=1.5, lost=lost)


def test_a_verdict_becomes_a_line_that_keeps_what_tables_need() -> None:
    verdict = samples.rejected()
    line = condense(audits.item(1), _ended(EngineFinished(verdict=verdict)))
    assert (line.ending, line.verdict, line.theirs) == (Ending.JUDGED, Decision.REJECTED, True)
    assert (line.mutants, line.killed, line.theirs_killed) == (18, 17, 9)
    assert (line.run, line.attempts, line.lane) == ("candidates/1-abc-2", 2, "cpu 0")
    assert line.device == "NVIDIA H200"
    assert [one.id for one in line.findings] == [one.id for one in verdict.findings]
    assert line.findings[0].share == verdict.findings[0].share


def test_what_was_not_measured_stays_empty() -> None:
    bare = dataclasses.replace(
        samples.accepted(), power=None, speed=None, benchmark_rule=None, environment={}
    )
    line = of_verdict(audits.item(1), bare, run="r", attempt=1)
    assert (line.mutants, line.candidate_us, line.theirs) == (None, None, None)
    assert line.device == bare.device


@pytest.mark.parametrize(
    ("exit_code", "lost", "ending", "verdict"),
    [
        (2, False, Ending.UNREADABLE, None),
        (3, False, Ending.STOPPED, Decision.INCONCLUSIVE),
        (3, True, Ending.LOST, Decision.INCONCLUSIVE),
    ],
)
def test_a_trial_without_a_verdict_says_how_it_ended(
    exit_code: int, lost: bool, ending: Ending, verdict: Decision | None
) -> None:
    stopped = EngineStopped(exit_code=exit_code, message="m" * 3000)
    line = condense(audits.item(1), _ended(stopped, lost=lost))
    assert (line.ending, line.verdict) == (ending, verdict)
    assert len(line.reason) == 2000
    assert line.reason.endswith("…")
