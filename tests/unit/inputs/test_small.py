"""Small cases: different sizes of at least two, other ones for B, and a budget that holds."""

from __future__ import annotations

import dataclasses

from cuassay.inputs.budget import budget_for
from cuassay.inputs.planner import Planner
from cuassay.inputs.small import small, small_sizes
from cuassay.model.axes import resolve
from cuassay.model.device import CPU
from cuassay.model.problem import ConstAxis, Problem, VarAxis
from cuassay.model.profile import Profile
from tests.support.fake_trial import problem, row_sum, tensor


def _planner(made: Problem) -> Planner:
    return Planner(problem=made, budget=budget_for(Profile.QUICK, device=CPU), root_seed=1)


def _made(*axes: VarAxis | ConstAxis, constraints: tuple[str, ...] = ()) -> Problem:
    names = [axis.name for axis in axes]
    made = problem(
        "p",
        axes=axes,
        inputs=[tensor("x", *names)],
        outputs=[tensor("y", *names)],
        workloads=[{axis.name: 64 for axis in axes if isinstance(axis, VarAxis)}],
    )
    return dataclasses.replace(made, constraints=constraints)


def test_b_differs_from_a_in_every_axis_and_a_has_a_shorter_one_of_each() -> None:
    cases = {case.label: case for case in small(_planner(row_sum().problem))}
    first, other = cases["small A"], cases["small B"]
    assert all(first.axes[name] != other.axes[name] for name in ("rows", "cols"))
    assert len(set(first.axes.values())) == 2
    assert cases["small A refilled"].axes == first.axes
    assert cases["small A refilled"].seed != first.seed
    for name, kept in (("rows", "cols"), ("cols", "rows")):
        shorter = cases[f"small A shorter {name}"]
        assert 2 <= shorter.axes[name] < first.axes[name]
        assert shorter.axes[kept] == first.axes[kept]


def test_sizes_keep_steps_bounds_and_rules() -> None:
    made = _made(
        VarAxis(name="a", multiple_of=16),
        VarAxis(name="b", minimum=40, maximum=64, declared=True),
        VarAxis(name="c"),
        constraints=("c == a",),
    )
    sizes = small_sizes(_planner(made))
    assert sizes["a"] % 16 == 0
    assert 40 <= sizes["b"] <= 64
    assert sizes["c"] == sizes["a"]


def test_many_axes_are_cut_until_the_budget_holds_but_not_below_two() -> None:
    planner = _planner(_made(*(VarAxis(name=name) for name in "abcdefg")))
    sizes = small_sizes(planner)
    product = 1
    for size in resolve(planner.problem.axes, sizes).values():
        product *= size
    assert product <= planner.budget.small_work
    assert min(sizes.values()) >= 2


def test_constant_axes_beyond_any_budget_leave_the_least_sizes() -> None:
    made = _made(VarAxis(name="a"), VarAxis(name="b"), ConstAxis(name="wide", value=1 << 22))
    sizes = small_sizes(_planner(made))
    assert 2 <= sizes["a"] <= 13
    assert sizes["a"] * sizes["b"] <= 64
