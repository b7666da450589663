"""RANK002: numbers of ranks, uneven and empty parts, the same bits on all ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from cuassay.checks.ranks.agreement import Rank002
from cuassay.model.diagnosis import Cause
from tests.support.fake_trial import scaled_add
from tests.support.ranked import findings, ranked, trial_of


def test_sums_in_another_order_on_each_rank_are_found() -> None:
    def rotated(x: torch.Tensor) -> torch.Tensor:
        ranks, rank = dist.get_world_size(), dist.get_rank()
        parts = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(parts, x)
        total = parts[rank].clone()
        for step in range(1, ranks):
            total += parts[(rank + step) % ranks]
        return total

    trial = trial_of("all_reduce")
    with ranked(rotated, trial) as called:
        found = list(findings(Rank002(), trial, called))
    assert found
    assert "hold different bits of 'y' in" in found[0].message
    assert found[0].cause is Cause.NOT_DETERMINISTIC
    assert not list(findings(Rank002(), trial, trial.reference))


def test_parts_have_a_remainder_and_are_empty() -> None:
    trial = trial_of("reduce_scatter")
    labels = [scenario.label for scenario in Rank002().propose(trial)]
    assert "2 ranks: rows=5 in parts" in labels
    assert "2 ranks: rows=1 in parts" in labels
    assert "4 ranks: rows=3 in parts" in labels


def test_all_goes_to_one_rank() -> None:
    trial = trial_of("expert_exchange")
    (scenario, *_) = [one for one in Rank002().propose(trial) if "single_hot" in one.label]
    values = trial.inputs(scenario.cases[0])
    assert not torch.as_tensor(values["expert"]).any()


def test_a_rank_with_nothing_that_goes_home_is_found() -> None:
    def goes_home(x: torch.Tensor, count: int) -> torch.Tensor:
        if not x.shape[0]:
            return x
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(count)]
        dist.all_gather(sizes, torch.tensor([x.shape[0]]))
        return x

    trial = trial_of("all_gather")
    with ranked(goes_home, trial) as called:
        stuck = [
            one.message for one in findings(Rank002(), trial, called) if "Stuck" in one.message
        ]
    assert stuck
    assert "rank 0 waits in all_gather" in stuck[0]


def test_a_problem_without_ranks_is_passed_over() -> None:
    assert Rank002().skip(scaled_add()) == "a call has one rank"
