"""Groups of elements: what is judged together, and that regrouped sums are those of the group."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from cuassay.oracle.compare.groups import (
    LIMIT_W,
    GroupKind,
    Statistic,
    group_kinds,
    group_name,
    hit_membership,
    limit_w,
    regroup,
    unravel,
)


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ((64,), ["tensor"]),
        ((8, 32), ["tensor", "axis 0"]),  # columns of 8 are too short
        ((32, 32), ["tensor", "axis 0", "axis 1"]),
        ((1, 32), ["tensor"]),  # slices of one element, and one slice
        ((2, 3, 32), ["tensor", "axis 0", "axis 1", "rows"]),
        ((4, 4, 8), ["tensor", "axis 0", "axis 1", "axis 2"]),  # rows of 8 are too short
        ((4, 0), ["tensor"]),
    ],
)
def test_an_output_is_judged_by_groups_of_enough_terms(
    shape: tuple[int, ...], kinds: list[str]
) -> None:
    found = [
        one.kind if one.axis is None else f"axis {one.axis}" for one in group_kinds(shape, (), None)
    ]
    assert found == kinds


@pytest.mark.parametrize("shape", [(5, 20), (2, 3, 20), (2, 1, 3, 20)])
def test_regrouped_sums_are_those_of_each_group(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    matrix = values.reshape(-1, shape[-1])
    rows, columns = matrix.sum(1)[None], matrix.sum(0)[None]
    for axis in range(len(shape)):
        kind = GroupKind(kind="axis", axis=axis)
        others = [one for one in range(len(shape)) if one != axis]
        found = regroup(rows, columns, kind, shape=shape, hits=None)
        assert torch.allclose(found.reshape(-1), values.sum(others)), axis
    whole = regroup(rows, columns, GroupKind(kind="tensor"), shape=shape, hits=None)
    assert whole.item() == pytest.approx(float(values.sum()))


def test_rows_are_grouped_by_how_often_they_are_hit() -> None:
    hits = torch.tensor([0, 1, 2, 15, 16, 255, 256, 10**6])
    assert hit_membership(hits).argmax(1).tolist()[1:] == [0, 1, 1, 2, 2, 3, 3]
    assert hit_membership(hits)[0].sum() == 0
    rows = torch.arange(8.0, dtype=torch.float64)[None]
    found = regroup(rows, rows, GroupKind(kind="hits", axis=0), shape=(8, 4), hits=hits)
    assert found.tolist() == [[1.0, 5.0, 9.0, 13.0]]


def test_a_place_is_unraveled_row_by_row() -> None:
    places = itertools.product(range(3), range(1), range(4))
    assert [unravel(flat, (3, 1, 4)) for flat in range(12)] == list(places)
    assert unravel(0, ()) == ()


def test_groups_have_names() -> None:
    axis = GroupKind(kind="axis", axis=0, labels=("hidden",))
    assert group_name(axis, 17, (20, 5)) == "axis hidden, slice 17"
    assert group_name(GroupKind(kind="rows"), 5, (2, 3, 8)) == "last axis at [1, 2]"


def test_the_worst_of_more_elements_may_be_farther_off() -> None:
    assert limit_w(10) == limit_w(1_000_000) == LIMIT_W
    # sqrt(2 ln 2n): 5.39 for 10^6, 6.55 for 10^9.
    assert limit_w(10**9) / LIMIT_W == pytest.approx(6.55 / 5.39, rel=0.01)


def test_a_share_of_nothing_is_infinite_where_something_was_seen() -> None:
    def share(value: float, limit: float) -> float:
        return Statistic(name="exact", value=value, limit=limit, group="g").share

    assert (share(3.0, 2.0), share(0.0, 0.0), share(1.0, 0.0)) == (1.5, 0.0, math.inf)
