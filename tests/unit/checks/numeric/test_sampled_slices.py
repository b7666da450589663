"""Large calls of which a few secret slices are judged."""

from __future__ import annotations

import dataclasses

from cuassay.checks.numeric.sampled_slices import (
    covers_all,
    independent_axes,
    sampled_call,
    secret_places,
    slice_elements,
)
from cuassay.model.case import Case, Fill
from cuassay.model.relation import RowsIndependent
from cuassay.model.scenario import Call
from cuassay.model.steps import ReadSlices
from tests.support.fake_trial import FakeTrial, row_sum, scaled_add


def test_both_ends_are_judged_and_secret_ones_between() -> None:
    places = secret_places(1000, most=5, seed=1)
    assert places == tuple(sorted(set(places)))
    assert {0, 1, 998, 999} <= set(places)
    assert all(0 <= place < 1000 for place in places)
    assert places != secret_places(1000, most=5, seed=2)
    assert secret_places(1, most=5, seed=1) == (0,)
    assert secret_places(3, most=0, seed=1) == (0, 1, 2)


def test_the_slices_alone_and_the_whole_are_the_cases_of_a_call() -> None:
    made = row_sum().problem
    whole = Case(label="w", axes={"rows": 400, "cols": 8}, fills={"x": Fill(kind="normal")})
    found = sampled_call(made, whole, "rows", (0, 7, 399), label="large")
    assert found is not None
    few, kept = found.cases
    assert (few.axes["rows"], kept) == (3, whole)
    assert few.fills["x"].parameters["take"] == (0, 7, 399)
    read = next(step for step in found.steps if isinstance(step, ReadSlices))
    assert (read.axis, read.places) == (0, (0, 7, 399))
    assert any(isinstance(step, Call) for step in found.steps)


def test_an_axis_is_independent_where_every_outputs_slices_are() -> None:
    assert [one.axis for one in independent_axes(row_sum())] == ["rows"]
    assert {one.axis for one in independent_axes(scaled_add())} == {"rows", "cols"}

    centred = scaled_add()
    mixing = FakeTrial(centred.problem, lambda x, bias, gain: x - x.mean(0) + bias * gain)
    assert [one.axis for one in independent_axes(mixing)] == ["cols"]


def test_a_declared_axis_needs_no_confirmation() -> None:
    trial = row_sum()
    declared = RowsIndependent(axis="rows")
    trial.problem = dataclasses.replace(trial.problem, relations=(declared,))
    assert list(independent_axes(trial)) == [declared]
    assert covers_all(trial.problem, RowsIndependent(axis="rows", outputs=("y",)))
    assert not covers_all(trial.problem, RowsIndependent(axis="rows", outputs=("z",)))


def test_elements_of_slices_are_counted_at_their_sizes() -> None:
    whole = Case(label="w", axes={"rows": 400, "cols": 8})
    assert slice_elements(row_sum().problem, whole, "rows", count=2) == 18
