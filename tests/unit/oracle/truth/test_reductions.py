"""Deviations of sums: what honest orders of addition show, and no more than a few times that."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from cuassay.oracle.truth.reductions import reduced_dims, walk_deviation
from tests.support.oracle_cases import normal

_UNIT = 2.0**-24  # of float32


@pytest.mark.parametrize(
    ("dims", "rank", "expected"),
    [
        (None, 3, [0, 1, 2]),
        ([], 2, [0, 1]),
        (-1, 3, [2]),
        ([1, -3], 3, [0, 1]),
        ([0, 0], 2, [0]),
        (0, 0, []),
    ],
)
def test_dimensions_of_a_reduction(dims: object, rank: int, expected: list[int]) -> None:
    assert reduced_dims(dims, rank) == expected


def _in_order(values: torch.Tensor) -> torch.Tensor:
    """The sum of each row in float32, number by number."""
    total = torch.zeros(values.shape[0])
    for column in values.unbind(-1):
        total = total + column
    return total


def _in_lanes(values: torch.Tensor) -> torch.Tensor:
    """As a vectorised loop adds: eight sums, then the sum of these."""
    lanes = [_in_order(values[:, lane::8]) for lane in range(8)]
    return _in_order(torch.stack(lanes, -1))


@pytest.mark.parametrize("terms", [16, 100, 2000])
@pytest.mark.parametrize("order", [_in_order, _in_lanes], ids=["in order", "in lanes"])
@pytest.mark.parametrize("shift", [0.0, 2.0], ids=["of mixed sign", "of one sign"])
def test_honest_orders_of_addition_err_within_a_few_deviations(
    terms: int, order: Callable[[torch.Tensor], torch.Tensor], shift: float
) -> None:
    values = normal(256, terms, seed=terms) + shift
    errors = (order(values).double() - values.double().sum(-1)).abs()
    allowed = walk_deviation(values.double()) * _UNIT
    share = errors / allowed
    assert float(share.square().mean().sqrt()) < 2.5
    assert float(share.max()) < 6.0


def test_a_sum_of_mixed_signs_is_allowed_no_share_of_its_absolute_values() -> None:
    """sqrt(n) sum|x| u would wave products through that were rounded to TF32."""
    terms = 4096
    values = normal(16, terms, seed=3).double()
    worst = math.sqrt(terms) * values.abs().sum(-1)
    assert bool((walk_deviation(values) < worst / 20).all())


def test_a_sum_without_terms_or_of_zeros_has_no_error() -> None:
    assert torch.equal(walk_deviation(torch.zeros(2, 64).double()), torch.zeros(2).double())


def test_scaling_the_terms_scales_the_deviation() -> None:
    values = normal(8, 200, seed=5).double()
    scaled = walk_deviation(values * 1024.0)
    assert torch.allclose(scaled, walk_deviation(values) * 1024.0)
