"""The time of a trial: what it counts, what it ends, and what the verdict says then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.judge.run.budget import BudgetSpentError, TimeBudget
from cuassay.model.jobs import QUICK_S
from cuassay.model.problem import Problem
from cuassay.model.verdict import Decision, Profile
from cuassay.sandbox.host.nursery import Nursery
from tests.hostile.problem import scaled
from tests.zoo.judging import Gate

_PROBLEM: Problem = vars(scaled)["__cuassay_problem__"]


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_quick_has_two_minutes_and_other_profiles_what_is_wished() -> None:
    assert TimeBudget.of(Profile.QUICK, None).limit_s == QUICK_S
    assert TimeBudget.of(Profile.QUICK, 7.0).limit_s == 7.0
    assert TimeBudget.of(Profile.STANDARD, None).limit_s is None
    assert TimeBudget.of(Profile.DEEP, 7.0).limit_s == 7.0


def test_what_passed_before_the_trial_counts() -> None:
    assert not TimeBudget.of(Profile.QUICK, 7.0, spent_s=5.0).is_spent
    assert TimeBudget.of(Profile.QUICK, 7.0, spent_s=8.0).is_spent
    assert not TimeBudget.of(Profile.DEEP, None, spent_s=1e6).is_spent


def test_time_that_is_held_does_not_count() -> None:
    clock = _Clock()
    budget = TimeBudget(10.0, clock=clock)
    with budget.held():
        clock.now += 1000
        with budget.held():
            clock.now += 1000
        assert not budget.is_spent
    clock.now += 9
    budget.check()
    clock.now += 1
    with pytest.raises(BudgetSpentError, match="10 s of this trial are over"):
        budget.check()
    with budget.held():
        assert budget.is_spent  # it stays so


def test_the_last_eighth_is_left_to_what_is_executed_already() -> None:
    clock = _Clock()
    budget = TimeBudget(80.0, clock=clock)
    clock.now += 69
    assert not budget.is_nearly_spent
    clock.now += 1
    assert budget.is_nearly_spent
    assert not budget.is_spent
    assert not TimeBudget(None, clock=clock).is_nearly_spent


def test_half_of_the_time_is_told_apart_from_all_of_it() -> None:
    clock = _Clock()
    budget = TimeBudget(10.0, clock=clock)
    clock.now += 4.9
    assert not budget.is_half_spent
    clock.now += 0.2
    assert budget.is_half_spent
    assert not budget.is_spent
    assert not TimeBudget(None, clock=clock).is_half_spent


def test_waiting_may_be_said_more_than_once() -> None:
    clock = _Clock()
    budget = TimeBudget(10.0, clock=clock)
    budget.wait(waits=True)
    budget.wait(waits=True)
    clock.now += 1000
    budget.wait(waits=False)
    budget.wait(waits=False)
    assert not budget.is_spent
    clock.now += 10
    assert budget.is_spent


def test_no_limit_is_never_over() -> None:
    clock = _Clock()
    budget = TimeBudget(clock=clock)
    clock.now += 1e9
    assert not budget.is_spent
    budget.check()


def test_a_block_ends_with_the_time() -> None:
    async def wait(budget: TimeBudget, seconds: float) -> str:
        async with budget.limited():
            await asyncio.sleep(seconds)
        return "ended"

    assert asyncio.run(wait(TimeBudget(60.0), 0.0)) == "ended"
    budget = TimeBudget(0.05)
    with pytest.raises(BudgetSpentError):
        asyncio.run(wait(budget, 60.0))
    with pytest.raises(BudgetSpentError):
        asyncio.run(wait(budget, 0.0))


def test_a_block_keeps_time_limits_of_its_own() -> None:
    async def wait() -> None:
        async with TimeBudget(60.0).limited(), asyncio.timeout(0.01):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_the_condition_names_what_did_not_run_and_what_was_ended() -> None:
    budget = TimeBudget(10.0)
    assert budget.condition == ""
    budget.missed["DET001"] = budget.missed["SHP001"] = None
    assert "did not run DET001, SHP001, for its 10 s" in budget.condition
    budget.cut["NUM001"] = None
    assert budget.condition.startswith(
        "time: the trial did not run DET001, SHP001 and ended NUM001"
    )


@pytest.fixture(scope="module")
def gate(nursery: Nursery) -> Iterator[Gate]:
    with Gate("cpu", without=("machine",), nursery=nursery) as opened:
        yield opened


_SLOW = {
    "import-that-sleeps": "import time\ntime.sleep(600)\ndef run(x): return x * 2 + 1\n",
    "import-that-spins": "while True: pass\ndef run(x): return x * 2 + 1\n",
    "import-that-forks": "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n"
    "        time.sleep(600)\n        os._exit(0)\ntime.sleep(600)\ndef run(x): return x\n",
    "call-that-sleeps": "import time\ndef run(x):\n    time.sleep(600)\n    return x\n",
}


@pytest.mark.parametrize("body", _SLOW.values(), ids=_SLOW)
def test_a_kernel_that_takes_all_the_time_is_not_decided(
    gate: Gate, body: str, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(body)
    found = gate.judge(_PROBLEM, tmp_path / "slow.py", budget_s=5.0)
    assert found.verdict.decision is Decision.INCONCLUSIVE, str(found)
    assert "s of this trial are over" in found.verdict.reason
    assert any(one.startswith("time: ") for one in found.verdict.conditions)


def test_a_kernel_that_slows_down_before_another_size_was_judged_is_not_accepted(
    gate: Gate, tmp_path: Path
) -> None:
    body = """
import time
CALLS = []
def run(x):
    CALLS.append(x.numel())
    if len(set(CALLS)) > 3: time.sleep(600)
    return x * 2 + 1
"""
    (tmp_path / "later.py").write_text(body)
    only = ("NUM001", "DET001", "API001", "SHP001", "STATE001")
    found = gate.judge(_PROBLEM, tmp_path / "later.py", budget_s=8.0, only=only)
    assert found.verdict.decision is Decision.INCONCLUSIVE, str(found)
    assert "s of this trial are over; --budget" in found.verdict.reason
    said = " ".join(one for one in found.verdict.conditions if one.startswith("time: "))
    missing = {report.code for report in found.verdict.checks if not report.clean}
    assert missing <= {code for code in only if code in said}


def test_an_honest_kernel_has_no_condition_of_time(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "honest.py").write_text("def run(x): return x * 2 + 1\n")
    found = gate.judge(_PROBLEM, tmp_path / "honest.py", only=("NUM001", "DET001"))
    assert found.accepted, str(found)
    assert not [one for one in found.verdict.conditions if one.startswith("time: ")]
