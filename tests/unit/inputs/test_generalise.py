"""For which other inputs a failure shows, in words that rest on runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cuassay.inputs.generalise import generalise
from cuassay.model.case import Case, Fill
from tests.support.fake_trial import row_sum, scaled_add

_CASE = Case(
    label="c", axes={"rows": 4, "cols": 8}, fills={"x": Fill(kind="normal")}, scalars={"gain": 2.0},
    seed=3,
)  # fmt: skip


def _words(fails: Callable[[Case], bool | None], *, case: Case = _CASE, max_runs: int = 60) -> str:
    return generalise(case, fails, row_sum().problem, max_runs=max_runs)


def test_what_does_not_matter_is_any() -> None:
    least = Case(label="c", axes={"rows": 1, "cols": 1}, fills=_CASE.fills)
    words = _words(lambda case: True, case=least)
    assert words.startswith("any seed; any rows; any cols; any x (")


def test_the_axis_that_matters_is_the_one_with_a_bound() -> None:
    case = Case(label="c", axes={"rows": 1, "cols": 8}, fills=_CASE.fills)
    words = _words(lambda case: case.axes["cols"] >= 8, case=case)
    assert "any rows" in words
    assert "any cols >= 8" in words


def test_fills_that_pass_are_named_beside_those_that_fail() -> None:
    words = _words(lambda case: case.fills["x"].kind in ("normal", "ones"))
    assert "x of normal, " in words
    assert "not of zeros" in words


def test_some_seeds_are_counted_and_seeds_that_nothing_is_drawn_from_are_not_tried() -> None:
    assert "1 of 3 seeds" in _words(lambda case: case.seed == 3)
    plain = Case(label="c", axes=_CASE.axes, fills={"x": Fill(kind="zeros")})
    seeds: set[int] = set()

    def fails(case: Case) -> bool:
        seeds.add(case.seed)
        return True

    assert _words(fails, case=plain).startswith("any seed")
    assert seeds == {0}


def test_what_the_budget_did_not_reach_and_what_cannot_tell_is_not_said() -> None:
    assert _words(lambda case: True, max_runs=0) == ""
    assert _words(lambda case: None) == ""
    assert _words(lambda case: True, max_runs=2).endswith("(2 runs)")


@pytest.mark.parametrize(("matters", "words"), [(True, "gain = 2, not "), (False, "any gain")])
def test_a_scalar_is_moved_to_another_legal_value(matters: bool, words: str) -> None:
    found = generalise(
        _CASE,
        lambda case: case.scalars["gain"] == 2.0 if matters else True,
        scaled_add().problem,
        max_runs=80,
    )
    assert words in found
