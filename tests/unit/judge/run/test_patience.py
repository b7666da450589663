"""Steps that end late: asked once more with twice the time, and then believed."""

from __future__ import annotations

import types
from typing import Any

import pytest

from cuassay.errors import CannotJudgeError
from cuassay.judge.run import executor as judge_executor
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.patience import Patience
from cuassay.judge.timeline import Timeline
from cuassay.model.device import CPU
from cuassay.model.reached import Reached
from cuassay.model.trace import (
    Claim,
    Finished,
    ScenarioResult,
    StepRaised,
    StepRecord,
    Termination,
    TimedOut,
)
from tests.support.workers import candidate, problem, scenario

ASKED = scenario(timeout_s=60.0)


class _Ended:
    """A run that did nothing but end."""

    reached = Reached()

    def __init__(
        self, termination: Termination, *records: StepRecord, duration_s: float = 0.0
    ) -> None:
        self.result = ScenarioResult(
            records=records,
            termination=termination,
            output_text="",
            build_s=0.0,
            build_cached=False,
            duration_s=duration_s,
        )


LATE: Any = _Ended(TimedOut(index=1, limit_s=60.0))
DONE: Any = _Ended(Finished())


def test_what_ends_in_time_is_believed() -> None:
    assert Patience().longer(ASKED, DONE) is None


def test_the_first_that_is_late_gets_twice_the_time() -> None:
    patience = Patience()
    longer = patience.longer(ASKED, LATE)
    assert longer is not None
    assert longer.timeout_s == 120.0
    patience.saw(DONE, longer=True, limit_s=60.0)
    assert patience.of(ASKED) == longer  # from now on at once
    assert patience.longer(longer, LATE) is None


def test_what_never_ends_shows_it_once() -> None:
    patience = Patience()
    assert patience.longer(ASKED, LATE) is not None
    patience.saw(LATE, longer=True, limit_s=60.0)
    assert patience.longer(ASKED, LATE) is None
    assert patience.of(ASKED) is ASKED


def test_what_hangs_again_and_again_is_not_run_any_more() -> None:
    patience = Patience()
    for _ in range(4):
        patience.saw(DONE, longer=False, limit_s=60.0)
        patience.of(ASKED)
        patience.saw(LATE, longer=False, limit_s=60.0)
    with pytest.raises(CannotJudgeError, match="not run: 4 scenarios before it did not end"):
        patience.of(ASKED)


def test_launches_that_the_machine_stops_are_tried_twice() -> None:
    """A kernel whose work grows with the square of its row takes minutes a launch on a CPU."""
    patience = Patience()
    raised = StepRaised(index=1, exception="UncoveredError", message="", claim=Claim.UNCOVERED)
    at_once: Any = _Ended(Finished(), raised, duration_s=0.1)
    stopped: Any = _Ended(Finished(), raised, duration_s=50.0)
    for run in (at_once, at_once, stopped):
        patience.saw(run, longer=False, limit_s=60.0)
        assert patience.of(ASKED) is ASKED
    patience.saw(stopped, longer=False, limit_s=60.0)
    with pytest.raises(CannotJudgeError, match="machine stopped 2 scenarios before it"):
        patience.of(ASKED)


def test_long_limits_are_left_alone() -> None:
    assert Patience().longer(scenario(timeout_s=90.0), LATE) is None


class _Pool:
    """Ends runs as it is told, and keeps what was asked."""

    digest = "0"

    def __init__(self, *ends: Any) -> None:
        self.reached = Reached()
        self.ends, self.asked = list(ends), list[tuple[float, bool]]()
        self.builds = types.SimpleNamespace(done=False, seconds=0.0)

    async def wait_built(self) -> bool:
        return False

    async def execute(
        self, asked: Any, inputs: object, answers: object, *, fresh: bool, parts: object
    ) -> Any:
        self.asked.append((asked.timeout_s, fresh))
        return self.ends.pop(0)

    def close(self) -> None:
        pass


def _runner(pool: _Pool, monkeypatch: pytest.MonkeyPatch) -> Executor:
    monkeypatch.setattr(judge_executor, "WorkerPool", lambda *_, **__: pool)
    trial: Any = types.SimpleNamespace(
        problem=problem(),
        truths=types.SimpleNamespace(inputs=None, answers=None, seconds=0.0),
        timeline=Timeline(),
    )
    return Executor(trial, candidate("def run(x): return x"), device=CPU, nursery=None)


def test_a_call_that_compiles_for_long_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _Pool(LATE, DONE, DONE)
    with _runner(pool, monkeypatch) as run:
        assert run(ASKED) is DONE
        assert run(ASKED) is DONE
    assert pool.asked == [(60.0, False), (120.0, True), (120.0, False)]


def test_a_call_that_hangs_is_told_after_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    again: Any = _Ended(TimedOut(index=1, limit_s=120.0))
    pool = _Pool(LATE, again, LATE)
    with _runner(pool, monkeypatch) as run:
        assert run(ASKED) is again
        assert run(ASKED) is LATE
    assert pool.asked == [(60.0, False), (120.0, True), (60.0, False)]
