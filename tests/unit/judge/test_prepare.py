"""What a trial does before its checks: lanes by what a context takes, sizes at which it tunes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.inputs.geometry import elements
from cuassay.judge.prepare import _tune, executors_beside
from cuassay.model.scenario import Allocate, Scenario
from tests.support.fake_trial import scaled_add


async def _is_built() -> bool:
    return True


@pytest.mark.parametrize(
    ("context_s", "wished", "lanes"),
    [(0.5, None, 2), (4.0, None, 0), (4.0, 2, 2)],
)
def test_lanes_beside_the_first_begin_where_contexts_are_quick(
    context_s: float, wished: int | None, lanes: int
) -> None:
    builds = SimpleNamespace(done=True, context_s=context_s)
    executor: Any = SimpleNamespace(pool=SimpleNamespace(builds=builds, wait_built=_is_built))
    bench: Any = SimpleNamespace(
        on_gpu=True,
        quick=False,
        plan=SimpleNamespace(beside=wished),
        lanes_beside=2,
        candidate="kernel",
        optional=lambda what, make: make(),
        executor=lambda candidate, **given: (candidate, given["lazy"]),
    )
    opened: tuple[Any, ...] = executors_beside(bench, executor)
    assert opened == (("kernel", True),) * lanes


def test_autotuners_choose_at_the_largest_and_the_smallest_listed_size() -> None:
    """A kernel that launches one configuration at large sizes asks its tuner at small ones."""
    trial = scaled_add()
    pool = SimpleNamespace(wait_built=_is_built, builds=SimpleNamespace(tunes=True))
    executor: Any = SimpleNamespace(pool=pool)
    bench: Any = SimpleNamespace(trial=trial, machine=SimpleNamespace(tunes=False))
    ran = list[Scenario]()
    tuner: Any = ran.append
    _tune(bench, executor, tuner)
    (scenario,) = ran
    sizes = [elements(trial.problem, case.axes) for case in scenario.cases]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1]
    assert [step.case for step in scenario.steps if isinstance(step, Allocate)] == [0, 1]
    assert bench.machine.tunes
