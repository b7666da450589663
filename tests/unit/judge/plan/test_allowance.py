"""What a check may take is counted, never measured: every trial has an end, the same each time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.checks.base import Run
from cuassay.checks.numeric.relations import Meta001
from cuassay.checks.numeric.shapes import Shp001
from cuassay.checks.numeric.values import Num001
from cuassay.judge.assemble import plan_conditions
from cuassay.judge.decide.examine import Examination
from cuassay.judge.plan.allowance import Allowance, AllowanceSpentError
from cuassay.judge.plan.smoke import smallest_case
from cuassay.model.outcome import Failed, Passed, Skipped
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.memory import live_bytes, watched_run
from cuassay.sandbox.host.waits import run_now
from tests.support.fake_trial import FakeTrial, axis, problem, tensor
from tests.support.judging import Bench, bench


def scaled(x: Tensor) -> Tensor:
    """Return a row's values over its largest."""
    return x / x.abs().amax(-1, keepdim=True)


def wrong_rows(x: Tensor) -> Tensor:
    """Return the same, wrong where there are seven rows and more."""
    return scaled(x) * (1.01 if x.shape[0] >= 7 else 1.0)


def _bench(call: Callable[..., object], *, operation_s: float) -> Bench:
    """Return the trial of a reference of which an operation takes so long, by count."""
    made = problem(
        "scaled",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 64, "cols": 32}],
    )
    judged = bench(FakeTrial(made, scaled), call, profile=Profile.QUICK)
    room = judged.trial.memory.room
    pace = dataclasses.replace(room._limit.pace, operation_s=operation_s)
    room._limit = dataclasses.replace(room._limit, pace=pace, case_s=math.inf, workload_s=math.inf)
    judged.trial.planned.learn_costs(smallest_case(judged.trial))
    return judged


def test_a_check_has_its_first_scenario_and_then_what_its_allowance_holds() -> None:
    one = Allowance(10.0)
    assert [one.allows(seconds) for seconds in (25.0, 1.0)] == [True, False]
    one = Allowance(10.0)
    assert [one.allows(4.0) for _ in range(3)] == [True, True, False]


def test_what_is_tried_to_plan_is_counted_once_and_only_while_planning() -> None:
    one = Allowance(10.0)
    one.spend("judging", 1e9)
    one.planning = True
    for _ in range(2):
        one.spend("a", 9.0)
    one.spend("b", 9.0)
    with pytest.raises(AllowanceSpentError):
        one.spend("c", 9.0)


@pytest.mark.parametrize("check", [Num001(), Shp001()])
def test_a_heavy_reference_ends_a_check_early_which_says_so(check: Num001 | Shp001) -> None:
    free, heavy = (_bench(scaled, operation_s=s) for s in (0.0, 4.0))
    (all_of_it,), (part,) = (one.examined(check) for one in (free, heavy))
    every, few = all_of_it.report, part.report
    assert isinstance(every.outcome, Passed)
    assert isinstance(few.outcome, Passed)
    assert 1 <= few.scenarios < every.scenarios
    assert "no time for the others" in few.outcome.summary
    assert not plan_conditions(free.trial)
    assert not all_of_it.cut_short
    assert part.cut_short
    (said,) = plan_conditions(heavy.trial, cut_short=[check.code])
    assert said.startswith(f"time: {check.code} did not run all scenarios")
    again = _bench(scaled, operation_s=4.0).examine(check)[0]
    assert (again.scenarios, again.clean) == (few.scenarios, few.clean)


def test_what_is_judged_of_a_heavy_reference_rejects_a_wrong_kernel() -> None:
    assert isinstance(_bench(wrong_rows, operation_s=4.0).examine(Num001())[0].outcome, Failed)


def test_no_time_to_plan_is_no_pass() -> None:
    outcome = _bench(scaled, operation_s=1e3).examine(Meta001())[0].outcome
    assert isinstance(outcome, Skipped)
    assert outcome.applicable


def test_a_case_costs_what_the_reference_does_at_its_size() -> None:
    judged = _bench(scaled, operation_s=0.5)
    small, room = smallest_case(judged.trial), judged.trial.memory.room
    long = dataclasses.replace(small, axes={**small.axes, "rows": 1 << 24})
    assert 1.0 < room.run_s(judged.trial.problem, small) < 3.0
    assert room.run_s(judged.trial.problem, long) > 2 * room.run_s(judged.trial.problem, small)


def test_a_reference_whose_end_is_not_in_sight_is_not_followed_to_it() -> None:
    def endless(x: Tensor) -> Tensor:
        while True:
            x = x + 1

    live = live_bytes(endless, [torch.empty(3)])
    assert live.endless
    assert not live.complete

    def follows_values(x: Tensor) -> Tensor:
        for _ in range(int(x.sum())):
            x = x + 1
        return x

    ones = torch.ones(5)
    assert not live_bytes(follows_values, [ones]).complete
    seen = watched_run(follows_values, [ones])
    assert seen.complete
    assert seen.operations >= 5


def test_a_run_with_sparse_tensors_is_followed_by_their_dense_parts() -> None:
    def summed(values: Tensor, indices: Tensor) -> Tensor:
        rows = torch.sparse_coo_tensor(indices, values, (4, 4), check_invariants=True)
        product: Tensor = torch.sparse.mm(rows, torch.ones(4, 2))
        return product

    seen = watched_run(summed, [torch.ones(3), torch.tensor([[0, 1, 1], [2, 0, 3]])])
    assert seen.complete
    assert seen.operations >= 3


def test_a_check_that_hurries_has_its_first_scenario_and_says_that_others_did_not_run() -> None:
    judged = _bench(scaled, operation_s=0.0)

    async def run(scenario: Scenario) -> Run:
        return judged.run(scenario)

    hurried = Examination(
        judged.trial,
        run=run,
        control=judged.control,
        emit=judged.events.append,
        hurries=lambda: True,
    )
    examined = run_now(hurried.examine(Num001()))
    assert (examined.report.scenarios, examined.report.clean) == (1, 1)
    assert isinstance(examined.report.outcome, Passed)
    assert "no time for the others" in examined.report.outcome.summary
    assert examined.cut_short
