"""How far answers are from others, in units of those; nothing where numbers do not say it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.distance import distance

_ONES = torch.ones(16)


def _changed(place: int, value: float) -> Tensor:
    made = _ONES.clone()
    made[place] = value
    return made


def test_mean_and_largest_difference_are_in_units_of_the_whole() -> None:
    assert distance([2.0 * _changed(3, 1.5)], [2.0 * _ONES]) == pytest.approx((0.125, 0.5))


def test_of_several_outputs_the_larger_ones_count() -> None:
    other = [_changed(0, 1.25), _changed(1, 3.0)]
    assert distance(other, [_ONES, _ONES]) == pytest.approx((0.5, 2.0))


@pytest.mark.parametrize(
    "same",
    [torch.tensor([1, 2]), torch.tensor([math.nan, math.inf]), torch.zeros(0), torch.zeros(3)],
    ids=["integers", "not finite", "empty", "zeros"],
)
def test_the_same_bits_are_no_distance_apart(same: Tensor) -> None:
    assert distance([same.clone()], [same]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.tensor([1, 2]), torch.tensor([1, 3])),
        (_changed(0, math.nan), _ONES),
        (_ONES, _changed(0, math.inf)),
        (_ONES, torch.zeros(16)),
        (_ONES, torch.ones(15)),
        (_ONES, _ONES.half()),
    ],
    ids=["integers", "NaN", "infinite", "zeros", "another shape", "another dtype"],
)
def test_where_numbers_do_not_say_it_there_is_none(one: Tensor, other: Tensor) -> None:
    assert distance([one], [other]) is None
