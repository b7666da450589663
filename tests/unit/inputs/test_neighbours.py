"""Shapes beside the listed ones: within bounds and steps, each once, the most telling first."""

from __future__ import annotations

import dataclasses

from cuassay.inputs.budget import budget_for
from cuassay.inputs.geometry import elements, legal
from cuassay.inputs.neighbours import shapes
from cuassay.inputs.planner import Planner
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.profile import Profile
from tests.support.fake_trial import axis, problem, tensor


def _problem(*axes: VarAxis) -> Problem:
    return problem(
        "p",
        axes=axes,
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 64, "cols": 128}, {"rows": 128, "cols": 256}],
    )


_USUAL = _problem(axis("rows", maximum=4096), axis("cols", maximum=4096))


def _shapes(made: Problem, profile: Profile = Profile.QUICK) -> tuple[Case, ...]:
    return shapes(Planner(problem=made, budget=budget_for(profile, device=CPU), root_seed=1))


def test_no_shape_comes_twice_nor_is_one_that_is_listed_anyway() -> None:
    found = [tuple(case.axes.values()) for case in _shapes(_USUAL)]
    assert len(found) == len(set(found)) > 5
    assert (64, 128) not in found


def test_every_axis_has_sizes_that_no_tile_divides() -> None:
    cases = _shapes(_USUAL)
    for name in ("rows", "cols"):
        sizes = {case.axes[name] for case in cases}
        assert 1 in sizes
        assert any(size > 1 and size % 2 for size in sizes)
        assert any(size % 16 for size in sizes if size > 16)


def test_sizes_stay_within_bounds_and_steps() -> None:
    stepped = VarAxis(name="cols", minimum=32, maximum=512, multiple_of=32)
    cases = _shapes(_problem(axis("rows", minimum=3, maximum=100), stepped), Profile.STANDARD)
    assert cases
    for case in cases:
        if case.in_domain:
            assert 3 <= case.axes["rows"] <= 100
            assert case.axes["cols"] % 32 == 0
            assert 32 <= case.axes["cols"] <= 512


def test_a_case_is_in_the_domain_where_its_sizes_are_legal() -> None:
    for case in _shapes(_USUAL, Profile.STANDARD):
        assert case.in_domain is legal(_USUAL, case.axes)


def test_more_is_tried_where_more_was_asked_for() -> None:
    quick, deep = _shapes(_USUAL), _shapes(_USUAL, Profile.DEEP)
    assert len(deep) > len(quick)
    assert {tuple(one.axes.values()) for one in quick[:3]} <= {
        tuple(one.axes.values()) for one in deep
    }


def test_neighbours_of_a_call_that_is_too_large_are_small() -> None:
    budget = budget_for(Profile.QUICK, device=CPU)
    large = dataclasses.replace(
        _USUAL, workloads=tuple(dataclasses.replace(one, axes={"rows": 4096, "cols": 4096})
                                for one in _USUAL.workloads[:1])
    )  # fmt: skip
    most = max(elements(large, case.axes) for case in _shapes(large))
    assert most <= 2 * budget.shape_elements < elements(large, {"rows": 4096, "cols": 4096}) / 100


def test_the_same_seed_plans_the_same_cases() -> None:
    assert _shapes(_USUAL) == _shapes(_USUAL)
