"""RANK001: late ranks, changed payloads, results that a later call overwrites, two groups."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.distributed as dist

from cuassay.catalog import registry
from cuassay.checks.ranks.late import Rank001
from cuassay.model.device import CUDA
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import FindingClass
from cuassay.model.steps import CallRanks, Issued, Moments
from cuassay.model.trace import Finished, ScenarioResult
from tests.support.fake_trial import OracleTrial, judged, run_one, scaled_add
from tests.support.ranked import findings, ranked, trial_of

Group = dist.ProcessGroup


@pytest.fixture(scope="module")
def trial() -> OracleTrial:
    return trial_of("all_reduce")


def right(x: torch.Tensor, group: Group | None = None) -> torch.Tensor:
    y = x.clone()
    begun = dist.all_reduce(y, group=group, async_op=True)
    assert begun is not None
    begun.wait()
    return y


def test_nothing_is_said_of_a_right_kernel_nor_of_the_reference(trial: OracleTrial) -> None:
    with ranked(right, trial) as called:
        assert not list(findings(Rank001(), trial, called))
    assert not list(findings(Rank001(), trial, trial.reference))


def test_a_wait_that_comes_after_the_use_is_found(trial: OracleTrial) -> None:
    def early(x: torch.Tensor, group: Group | None = None) -> torch.Tensor:
        y = x.clone()
        begun = dist.all_reduce(y, group=group, async_op=True)
        out = y * 1
        assert begun is not None
        begun.wait()
        return out

    with ranked(early, trial) as called:
        found = next(findings(Rank001(), trial, called))
    assert found.finding_class is FindingClass.WRONG
    assert "wrong in call 1 of 4: 2 ranks, no rank late, collectives late" in found.message
    assert found.cause is None  # every call is wrong: the numbers may be


def test_a_result_that_a_later_call_overwrites_is_blamed_on_the_calls(trial: OracleTrial) -> None:
    kept: dict[object, torch.Tensor] = {}

    def keeps(x: torch.Tensor, group: Group | None = None) -> torch.Tensor:
        y = kept.setdefault((x.shape, dist.get_world_size(group)), torch.empty_like(x))
        y.copy_(x)
        dist.all_reduce(y, group=group)
        return y

    with ranked(keeps, trial) as called:
        found = next(findings(Rank001(), trial, called))
    assert found.cause is Cause.RANKS


def test_each_call_alone_tells_wrong_numbers_from_late_ranks(trial: OracleTrial) -> None:
    """A kernel that is wrong at some sizes was told to wait for its collectives."""
    kept: dict[object, torch.Tensor] = {}
    small = next(iter(Rank001().propose(trial))).cases[0].axes["columns"]

    def wrong_beyond(x: torch.Tensor, group: Group | None = None) -> torch.Tensor:
        y = x + (x.numel() > small)
        dist.all_reduce(y, group=group)
        return y

    def keeps(x: torch.Tensor, group: Group | None = None) -> torch.Tensor:
        y = kept.setdefault((x.shape, dist.get_world_size(group)), torch.empty_like(x))
        y.copy_(x)
        dist.all_reduce(y, group=group)
        return y

    scenario = next(iter(Rank001().propose(trial)))
    for function, blames in ((wrong_beyond, False), (keeps, True)):
        with ranked(function, trial) as called:
            found = next(findings(Rank001(), trial, called))
            assert found.cause is Cause.RANKS
            alone = Rank001().controls(trial, scenario, found)
            shown = [
                one.where.got
                for control in alone
                for one in judged(Rank001(), trial, control, run_one(trial, called, control))
            ]
        assert len(alone) == 4
        assert (found.where.got in shown) is not blames


def test_a_rank_of_the_world_in_a_group_shows_in_two_groups_alone(trial: OracleTrial) -> None:
    def by_world(x: torch.Tensor, group: Group | None = None) -> torch.Tensor:
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x, group=group)
        parts[dist.get_rank() % len(parts)] = x
        return torch.stack(parts).sum(0)

    with ranked(by_world, trial) as called:
        found = list(findings(Rank001(), trial, called))
    assert found
    assert all("two groups of" in one.message for one in found)
    assert {one.cause for one in found} == {Cause.RANKS}


def test_a_kernel_without_group_is_accepted_under_a_condition(trial: OracleTrial) -> None:
    def in_the_world(x: torch.Tensor) -> torch.Tensor:
        return right(x)

    with ranked(in_the_world, trial) as called:
        found = list(findings(Rank001(), trial, called))
    assert {one.finding_class for one in found} == {FindingClass.UNSAFE}
    assert {one.condition.split(":")[0] for one in found} == {"groups"}


def test_every_count_of_ranks_and_each_moment_is_tried(trial: OracleTrial) -> None:
    steps = [
        step
        for scenario in Rank001().propose(trial)
        for step in scenario.steps
        if isinstance(step, CallRanks)
    ]
    assert {step.moments for step in steps} == set(Moments)
    assert {step.late for step in steps} == {None, 0, 1, 2, 3}
    assert sum(len(step.slots) == 2 for step in steps) == 3
    result = ScenarioResult(records=(), termination=Finished())
    seen = [(scenario, result) for scenario in Rank001().propose(trial)]
    assert "calls with a late rank: 99 % sure" in Rank001().remark(seen)


def test_ranks_on_a_gpu_are_called_on_side_streams_at_last(trial: OracleTrial) -> None:
    on_gpu = dataclasses.replace(trial, device=CUDA)
    steps = [
        step
        for scenario in Rank001().propose(on_gpu)
        for step in scenario.steps
        if isinstance(step, CallRanks)
    ]
    assert [step.issued for step in steps[-4:]] == [Issued.PLAINLY, *[Issued.ON_SIDE_STREAM] * 3]
    assert all(step.busy_ms for step in steps[-3:])
    with ranked(right, trial) as called:  # without a GPU there is one stream
        *_, last = Rank001().propose(on_gpu)
        assert not list(judged(Rank001(), trial, last, run_one(trial, called, last)))


def test_a_problem_without_ranks_is_passed_over(trial: OracleTrial) -> None:
    assert Rank001().skip(scaled_add()) == "a call has one rank"
    assert not Rank001().skip(trial)
    assert registry.get("all_reduce").ranks is not None
