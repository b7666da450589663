"""Projections accumulated over seeds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import Comparison, compare
from cuassay.oracle.seeds import SeedAccumulator
from tests.support.oracle_cases import normal, truth_of


def _reference(x: Tensor) -> Tensor:
    return x.float().sum(-1).to(torch.bfloat16)


def _accumulate(candidate: Callable[[Tensor], Tensor]) -> tuple[SeedAccumulator, float]:
    accumulator, largest = SeedAccumulator(), 0.0
    for seed in range(32):
        x = (normal(48, 128, seed=seed) + 1.0).to(torch.bfloat16)
        found = compare(candidate(x), truth_of(_reference, [x], "bfloat16", "m", draws=2))
        accumulator.add(found)
        largest = max(largest, found.share)
    return accumulator, largest


def test_a_small_constant_gain_surfaces_over_seeds_only() -> None:
    accumulator, one = _accumulate(lambda x: (x.double().sum(-1) * 1.0008).to(torch.bfloat16))
    assert one < 1
    assert accumulator.result().share > 1
    assert "over 32 seeds" in accumulator.result().group


def test_honest_sums_stay_within_the_limit() -> None:
    accumulator, _ = _accumulate(_reference)
    assert accumulator.result().share < 0.5


def test_nothing_added_and_exact_outputs_give_zero() -> None:
    accumulator = SeedAccumulator()
    assert accumulator.result().value == 0.0
    accumulator.add(Comparison(output="y", passed=True, share=0.0))
    assert accumulator.result().value == 0.0
