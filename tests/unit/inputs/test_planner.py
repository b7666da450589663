"""What plans share: workloads by size, those that fit, and seeds of labels."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.errors import ProblemError
from cuassay.inputs.budget import budget_for
from cuassay.inputs.geometry import elements
from cuassay.inputs.planner import Planner, has_custom_source
from cuassay.inputs.regimes import NUMERIC
from cuassay.model.device import CPU
from cuassay.model.domain import Opaque
from cuassay.model.problem import CustomSource, Problem, Reference, Workload
from cuassay.model.profile import Profile
from tests.support.fake_trial import axis, problem, tensor

_LISTED = [{"n": size} for size in (512, 64, 8, 128, 32)]


def _planner(made: Problem | None = None, root_seed: int = 1) -> Planner:
    made = made or problem(
        "p",
        axes=[axis("n", maximum=1024)],
        inputs=[tensor("x", "n")],
        outputs=[tensor("y", "n")],
        workloads=_LISTED,
    )
    budget = budget_for(Profile.QUICK, device=CPU)
    return Planner(problem=made, budget=budget, root_seed=root_seed)


@pytest.mark.parametrize(
    ("budget", "count", "sizes"),
    [
        (10_000, 9, [512, 128, 64, 32, 8]),
        (10_000, 1, [512]),
        (10_000, 2, [512, 8]),
        (10_000, 3, [512, 64, 8]),
        (200, 2, [64, 8]),
        (8, 3, [4]),  # none fits: the smallest is cut
    ],
)
def test_workloads_that_fit_are_spread_from_the_largest_to_the_smallest(
    budget: int, count: int, sizes: list[int]
) -> None:
    planner = _planner()
    found = [sizes["n"] for _, sizes in planner.fitting(budget, count)]
    if budget == 8:
        assert len(found) == 1
        assert found[0] <= 8
    else:
        assert found == sizes
        assert all(elements(planner.problem, {"n": size}) <= budget for size in found)


@pytest.mark.parametrize(
    ("width", "built", "cut"),
    [(64, ("w",), 64), (1 << 16, ("w",), 2), (1 << 16, (), 2)],
)
def test_a_module_keeps_what_it_is_built_with_while_numeric_cases_may_be_as_large(
    width: int, built: tuple[str, ...], cut: int
) -> None:
    made = problem(
        "p",
        axes=[axis("n"), axis("w")],
        inputs=[tensor("x", "n", "w"), tensor("weight", "w", "w")],
        outputs=[tensor("y", "n", "w")],
        workloads=[{"n": 32, "w": width}],
    )
    planner = _planner(dataclasses.replace(made, built=built))
    sizes = planner.few(64)
    assert sizes["w"] >= cut
    assert sizes["n"] == 2 if built and width == 64 else elements(planner.problem, sizes) <= 64


def test_a_problem_without_workloads_is_refused() -> None:
    made = dataclasses.replace(_planner().problem, workloads=())
    with pytest.raises(ProblemError, match="no workload"):
        _planner(made).workloads()
    assert _planner(made).first_workload is None


def test_a_seed_comes_from_the_root_and_the_label_unless_a_path_is_given() -> None:
    planner = _planner()
    first = planner.case("a", {"n": 8}, NUMERIC[0])
    assert planner.case("a", {"n": 8}, NUMERIC[0]) == first
    seeds = {
        first.seed,
        planner.case("b", {"n": 8}, NUMERIC[0]).seed,
        _planner(root_seed=2).case("a", {"n": 8}, NUMERIC[0]).seed,
    }
    assert len(seeds) == 3
    path = ("growth", 1)
    assert planner.case("a", {}, NUMERIC[0], seed_path=path).seed == (
        planner.case("b", {}, NUMERIC[0], seed_path=path).seed
    )


def test_a_generator_is_needed_where_it_alone_knows_an_input() -> None:
    made = _planner().problem
    hidden = dataclasses.replace(tensor("x", "n"), domain=Opaque(why="a table"))
    opaque = dataclasses.replace(made, inputs=(hidden,))
    with_generator = Reference(path=made.reference.path, generator="make")
    assert not _planner(opaque).needs_generator
    assert _planner(dataclasses.replace(opaque, reference=with_generator)).needs_generator
    assert not _planner(dataclasses.replace(made, reference=with_generator)).needs_generator


def test_a_workload_says_whether_a_generator_made_an_input() -> None:
    assert not has_custom_source(Workload(id="w", axes={}))
    assert has_custom_source(Workload(id="w", axes={}, sources={"x": CustomSource()}))
