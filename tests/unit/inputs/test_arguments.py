"""Pairs of cases that differ in one argument, and in nothing else."""

from __future__ import annotations

import dataclasses

from cuassay.inputs.arguments import arguments
from cuassay.inputs.budget import budget_for
from cuassay.inputs.planner import Planner
from cuassay.model.device import CPU
from cuassay.model.domain import Opaque
from cuassay.model.problem import Problem
from cuassay.model.profile import Profile
from tests.support.fake_trial import scaled_add, tensor


def _planner(problem: Problem) -> Planner:
    budget = budget_for(Profile.QUICK, device=CPU)
    return Planner(problem=problem, budget=budget, root_seed=1)


def test_each_pair_differs_in_the_argument_of_its_label() -> None:
    cases = arguments(_planner(scaled_add().problem))
    pairs = list(zip(cases[::2], cases[1::2], strict=True))
    assert [moved.label for _, moved in pairs] == ["x moved", "bias moved", *["gain moved"] * 3]
    for base, moved in pairs:
        name = moved.label.split()[0]
        assert base.label == f"base for {name}"
        assert (base.seed, base.axes) == (moved.seed, moved.axes)
        assert {one for one in base.fills if base.fills[one] != moved.fills[one]} <= {name}
        assert {one for one in base.scalars if base.scalars[one] != moved.scalars[one]} <= {name}
        assert (base.fills, base.scalars) != (moved.fills, moved.scalars)
        assert all(size >= 2 for size in base.axes.values())


def test_a_scalar_is_moved_to_both_ends_and_on_small_and_large_data() -> None:
    moved = [one for one in arguments(_planner(scaled_add().problem)) if one.label == "gain moved"]
    assert {one.scalars["gain"] for one in moved} == {0.5, 4.0}
    assert {str(one.fills["x"].kind) for one in moved} == {"normal", "outlier"}


def test_inputs_that_only_a_generator_can_make_are_left_out() -> None:
    made = scaled_add().problem
    hidden = dataclasses.replace(tensor("table", "rows"), domain=Opaque(why="a table"))
    made = dataclasses.replace(made, inputs=(*made.inputs, hidden))
    assert not any("table" in case.label for case in arguments(_planner(made)))
