"""What begins beside the checks ends with the time of the trial."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.checks.registry import all_checks
from cuassay.judge import checking
from cuassay.judge.run.budget import BudgetSpentError, TimeBudget

EXECUTED = next(check for check in all_checks() if check.code == "MEM101")


def bench(budget: TimeBudget) -> Any:
    proposes = SimpleNamespace(
        code=EXECUTED.code,
        needs=EXECUTED.needs,
        skip=lambda trial: "",
        missing=lambda: "",
        propose=lambda trial: ("a scenario",),
    )
    return SimpleNamespace(plan=SimpleNamespace(checks=(proposes,)), budget=budget, trial=None)


def test_a_recording_that_does_not_end_ends_with_the_time_of_the_trial() -> None:
    begun = []

    async def begin(scenario: str) -> None:
        begun.append(scenario)
        await asyncio.sleep(60.0)

    executor: Any = SimpleNamespace(recordings=SimpleNamespace(begin=begin))
    started = time.monotonic()
    with pytest.raises(BudgetSpentError):
        asyncio.run(checking._begin(bench(TimeBudget(0.3)), executor))
    assert begun == ["a scenario"]
    assert time.monotonic() - started < 10.0
    with pytest.raises(BudgetSpentError):  # nothing begins after it
        asyncio.run(checking._begin(bench(TimeBudget(0.0)), executor))
    assert begun == ["a scenario"]


def test_a_recording_begins_where_there_is_time() -> None:
    begun = []

    async def begin(scenario: str) -> None:
        begun.append(scenario)

    executor: Any = SimpleNamespace(recordings=SimpleNamespace(begin=begin))
    asyncio.run(checking._begin(bench(TimeBudget()), executor))
    assert begun == ["a scenario"]
