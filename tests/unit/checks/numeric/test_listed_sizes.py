"""Sizes that a kernel was written for: what was promised, and what a refusal of others means."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.checks.numeric.listed_sizes import (
    elements_of,
    home_axes,
    odd_axes,
    refusal_condition,
    settings,
    sizes_in_words,
)
from cuassay.model.case import Case
from tests.support.fake_trial import FakeTrial, row_sum, scaled_add


def _case(rows: int, cols: int) -> Case:
    return Case(label="c", axes={"rows": rows, "cols": cols})


def test_odd_axes_are_those_whose_size_no_workload_uses() -> None:
    made = row_sum().problem  # workloads (16, 32) and (16, 64)
    assert odd_axes(made, _case(16, 64)) == ()
    assert odd_axes(made, _case(17, 64)) == ("rows",)
    assert sizes_in_words(made, _case(17, 64)) == "rows = 17"
    assert sizes_in_words(made, _case(16, 64)) == "rows = 16, cols = 64"
    assert sizes_in_words(dataclasses.replace(made, axes=()), _case(1, 1)) == "its only shape"


@pytest.mark.parametrize(
    ("declared", "rows", "cols", "condition"),
    [
        (True, 17, 65, ""),  # promised
        (False, 16, 32, ""),
        (False, 16, 65, "shapes: only the sizes of its workloads (cols in {32, 64})"),
        (False, 17, 64, "shapes: only the sizes of its workloads (rows in {16})"),
    ],
)
def test_a_refused_size_that_nobody_promised_is_a_condition(
    declared: bool, rows: int, cols: int, condition: str
) -> None:
    assert refusal_condition(row_sum(declared=declared).problem, _case(rows, cols)) == condition


def test_another_combination_of_listed_sizes_is_a_condition_too() -> None:
    made = row_sum(declared=False).problem
    listed = tuple(
        dataclasses.replace(made.workloads[0], id=str(n), axes={"rows": n, "cols": 2 * n})
        for n in (16, 32)
    )
    made = dataclasses.replace(made, workloads=listed)
    assert "combinations" in refusal_condition(made, _case(16, 64))
    assert refusal_condition(made, _case(32, 64)) == ""


def _listing(trial: FakeTrial) -> FakeTrial:
    return trial


def test_a_listed_shape_is_tried_where_small_ones_may_be_refused() -> None:
    assert home_axes(scaled_add()) is None
    free = row_sum(declared=False)
    assert home_axes(free) == {"rows": 16, "cols": 32}
    assert settings(free)[-1] == {"rows": 16, "cols": 32}
    assert len(settings(free)) == 2
    assert len(settings(row_sum())) == 1


def test_a_listed_shape_that_is_too_large_is_left_to_other_checks() -> None:
    free = row_sum(declared=False)
    large = dataclasses.replace(free.problem.workloads[0], axes={"rows": 1 << 10, "cols": 1 << 10})
    free.problem = dataclasses.replace(free.problem, workloads=(large,))
    assert home_axes(free) is None


def test_elements_are_those_of_inputs_and_outputs() -> None:
    assert elements_of(row_sum().problem, {"rows": 4, "cols": 8}) == 36
