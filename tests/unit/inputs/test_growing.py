"""Sizes that grow to the largest ones: bounds, steps, secret sizes, listed calls."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuassay.inputs.geometry import elements
from cuassay.inputs.growing import largest, ways
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Reference, TensorSpec, VarAxis, Workload

_SMALL = {"rows": 3, "cols": 8}


def _problem(**cols: int | bool) -> Problem:
    bounds = {"minimum": 1, "maximum": 1024, "multiple_of": 8, "declared": True} | cols
    return Problem(
        name="grown",
        origin="native",
        axes=(
            VarAxis(name="rows", minimum=1, maximum=1 << 20, declared=True),
            VarAxis(name="cols", **bounds),  # type: ignore[arg-type]
        ),
        inputs=(TensorSpec(name="x", shape=("rows", "cols"), dtype=DType.FLOAT32, domain=Real()),),
        outputs=(TensorSpec(name="y", shape=("rows", "cols"), dtype=DType.FLOAT32, domain=Real()),),
        reference=Reference(path=Path("grown.py"), function="run"),
        workloads=(Workload(id="w0", axes={"rows": 4096, "cols": 64}),),
    )


def test_each_axis_grows_alone_to_its_listed_size_and_on_then_all_together_then_listed_calls() -> (
    None
):
    found = ways(_problem(), _SMALL)
    assert [dict(way.top) for way in found] == [
        {"rows": 4096, "cols": 16},
        {"rows": 16, "cols": 64},
        {"rows": 1 << 20, "cols": 16},
        {"rows": 16, "cols": 1024},
        {"rows": 1 << 20, "cols": 1024},
        {"rows": 4096, "cols": 64},
    ]
    assert [way.workload for way in found] == ["", "", "", "", "", "w0"]


@pytest.mark.parametrize("most", [1 << 14, 1 << 17, 1 << 20])
def test_sizes_within_a_number_of_elements_are_near_it_and_legal(most: int) -> None:
    problem = _problem()
    for way in ways(problem, _SMALL)[:5]:
        sizes = way.within(most, seed=1)
        assert sizes is not None
        assert elements(problem, sizes) <= most
        assert elements(problem, sizes) >= 0.7 * min(most, way.elements)
        assert sizes["cols"] % 8 == 0


def test_sizes_are_secret_until_the_largest_which_is_exact() -> None:
    way = ways(_problem(), _SMALL)[2]
    rows = {sizes["rows"] for seed in range(8) if (sizes := way.within(1 << 17, seed=seed))}
    assert len(rows) > 1
    assert way.within(1 << 40, seed=1) == {"rows": 1 << 20, "cols": 16}


@pytest.mark.parametrize("most", [1 << 15, 1 << 17, 1 << 20])
def test_a_tile_leaves_a_rest_where_an_axis_grows_alone_and_none_where_all_grow(most: int) -> None:
    to_listed, _, alone, _, together, _ = ways(_problem(), _SMALL)
    for way, rest, every in ((to_listed, 1, 2), (alone, 1, 2), (together, 0, 16)):
        for seed in range(32):
            sizes = way.within(min(most, way.elements - 1), seed=seed)
            assert sizes is not None
            assert sizes["rows"] % every == rest
            assert sizes["cols"] % 8 == 0


def test_a_listed_call_is_taken_whole_or_not() -> None:
    listed = ways(_problem(), _SMALL)[-1]
    assert listed.within(listed.elements, seed=1) == {"rows": 4096, "cols": 64}
    assert listed.within(listed.elements - 1, seed=1) is None


def test_an_axis_without_declared_bounds_ends_at_its_largest_listed_size() -> None:
    problem = _problem(declared=False)
    assert largest(problem, problem.var_axes()[1]) == 64
    assert largest(problem, problem.var_axes()[0]) == 1 << 20


def test_fixed_axes_keep_their_sizes() -> None:
    found = ways(_problem(), _SMALL, fixed=("cols",))
    assert {way.top["cols"] for way in found if not way.workload} == {8}


def test_what_a_rule_of_the_problem_forbids_is_no_way() -> None:
    problem = dataclasses.replace(_problem(), constraints=("rows * cols <= 1000000",))
    assert all(way.elements <= 2_000_000 for way in ways(problem, _SMALL))
