"""Plans: what each purpose holds, that it stays legal, and that it is deterministic."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from cuassay.catalog import registry
from cuassay.errors import UnknownNameError
from cuassay.inputs.constraints import constraint_holds
from cuassay.inputs.geometry import elements, fitted_sizes, growth_axes, least, legal
from cuassay.inputs.materialise import materialise
from cuassay.inputs.neighbours import TILES
from cuassay.inputs.plan import PURPOSES, plan_cases
from cuassay.model.case import Case
from cuassay.model.device import CPU, CUDA
from cuassay.model.domain import IntegerRange, Offsets, Opaque, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    ConstAxis,
    ExprAxis,
    Problem,
    Reference,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    VarAxis,
    Workload,
)
from cuassay.model.verdict import Profile

ALL = registry.names()


def plan(name: str, purpose: str, profile: Profile = Profile.QUICK) -> tuple[Case, ...]:
    return plan_cases(registry.get(name), purpose, profile=profile, root_seed=11)


def foreign(**changes: object) -> Problem:
    """Return a problem as another format gives it: undeclared bounds, no domains."""
    rows = VarAxis(name="rows")
    x = TensorSpec(name="x", dtype=DType.FLOAT32, shape=("rows", "wide"), domain=Real())
    eps = ScalarSpec(name="eps", dtype=DType.FLOAT32, domain=Real())
    made = Problem(
        name="foreign",
        axes=(rows, ConstAxis(name="hidden", value=24), ExprAxis(name="wide", expression="hidden")),
        inputs=(x, eps),
        outputs=(dataclasses.replace(x, name="y", shape=("wide",)),),
        reference=Reference(path=Path("reference.py")),
        workloads=(Workload(id="w", axes={"rows": 64}, sources={"eps": ScalarSource(value=1e-5)}),),
        origin="sol",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["quantize_int8_per_row", "moe_route", "sample_top_k", "rmsnorm"])
def test_standard_holds_rows_of_zeros_and_rows_of_ties(name: str) -> None:
    problem = registry.get(name)
    main = problem.inputs[0].name
    rows = [
        value
        for case in plan(name, "numeric", Profile.STANDARD)
        if isinstance(value := materialise(problem, case, device=CPU)[main], torch.Tensor)
    ]
    assert any(0 < int((row == 0).all(dim=-1).sum()) <= len(row) / 20 for row in rows)
    assert any(bool((row.max(-1, keepdim=True).values == row).sum(-1).gt(1).any()) for row in rows)


@pytest.mark.parametrize("profile", Profile)
def test_a_flag_has_two_values_among_the_numeric_cases_of_every_seed(profile: Profile) -> None:
    problem = registry.get("sgd_momentum_step")
    for seed in range(24):
        cases = plan_cases(problem, "numeric", profile=profile, root_seed=seed)
        assert {case.scalars["nesterov"] for case in cases} == {False, True}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_case_is_legal_and_deterministic(name: str, purpose: str) -> None:
    for profile in (Profile.QUICK, Profile.STANDARD):
        cases = plan(name, purpose, profile)
        assert cases == plan(name, purpose, profile)
        assert all(legal(registry.get(name), case.axes) == case.in_domain for case in cases)
        assert all(case.in_domain for case in cases)


def test_profiles_grow() -> None:
    counts = [len(plan("rmsnorm", "numeric", profile)) for profile in Profile]
    assert counts == [5, 14, 41]
    assert len(plan("rmsnorm", "shapes")) < len(plan("rmsnorm", "shapes", Profile.STANDARD))


def test_numeric_covers_the_regimes_that_decide() -> None:
    *cases, equal = plan("rmsnorm", "numeric")
    assert equal.fills["x"].kind == "among"
    fills = [case.fills["x"] for case in cases]
    assert {fill.kind for fill in fills} == {"normal", "outlier", "same_sign"}
    scales = {fill.parameters.get("scale", 1.0) for fill in fills}
    assert {1e-3, 20.0, 1.0} <= scales
    assert all(case.fills["weight"].kind == "normal" for case in cases)
    assert len({case.scalars["eps"] for case in cases}) > 1
    assert len({case.seed for case in cases}) == len(cases)


def test_numeric_uses_production_shapes_on_a_gpu() -> None:
    problem = registry.get("rmsnorm")
    cpu = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=1)
    cuda = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=1, device=CUDA)
    assert max(elements(problem, case.axes) for case in cpu) <= 2**18
    assert {case.axes["rows"] for case in cuda} == {8192, 128}


def test_hot_cases_put_many_hits_on_few_rows() -> None:
    cases = plan("embedding_grad", "hot", Profile.STANDARD)
    kinds = {case.fills["input_ids"].kind for case in cases}
    assert {"single_hot", "two_hot", "zipf"} <= kinds
    assert {"normal", "same_sign"} <= {case.fills["grad_output"].kind for case in cases}
    assert all(case.axes["tokens"] >= 1000 for case in cases)


def test_growth_series_differ_in_one_axis_only() -> None:
    cases = plan("embedding_rmsnorm_backward", "growth", Profile.STANDARD)
    for series in {repr(case.fills) for case in cases}:
        members = [case for case in cases if repr(case.fills) == series]
        lengths = [case.axes["tokens"] for case in members]
        assert len(lengths) >= 3
        assert lengths == sorted(set(lengths))
        assert len({case.axes["hidden"] for case in members}) == 1


def test_every_reduction_axis_grows_beyond_quick() -> None:
    quick = {case.label.split("=")[0] for case in plan("rmsnorm_backward", "growth")}
    assert quick == {"growth rows"}
    cases = plan("rmsnorm_backward", "growth", Profile.STANDARD)
    assert {case.label.split("=")[0] for case in cases} == {"growth rows", "growth hidden"}


def test_a_listed_size_that_no_call_has_room_for_is_tried_alone() -> None:
    """A kernel that stops at a block's 1024 threads is right at every smaller size."""
    rmsnorm = registry.get("rmsnorm")
    long = (Workload(id="long", axes={"rows": 128, "hidden": 4000}),)
    listed = dataclasses.replace(rmsnorm, workloads=long)
    first, *others = plan_cases(listed, "shapes", profile=Profile.QUICK, root_seed=1)
    assert dict(first.axes) == {"rows": 2, "hidden": 4000}
    assert first.in_domain
    assert len(others) == 8
    assert all(case.axes["hidden"] < 1024 for case in others)
    assert all("as listed" not in case.label for case in plan("rmsnorm", "shapes"))


def test_shapes_hold_the_neighbours() -> None:
    cases = plan("rmsnorm", "shapes", Profile.DEEP)
    hidden = {case.axes["hidden"] for case in cases}
    assert {1, 2, 3, 255, 257, 15, 17, 127, 129} <= hidden
    shapes = [tuple(case.axes.values()) for case in cases]
    assert len(set(shapes)) == len(shapes)


def test_shapes_of_undeclared_axes_include_an_empty_one_as_advice() -> None:
    cases = plan_cases(foreign(), "shapes", profile=Profile.STANDARD, root_seed=0)
    assert [case.in_domain for case in cases if case.axes["rows"] == 0] == [False]
    assert all(case.in_domain for case in cases if case.axes["rows"])
    allowed = foreign(axes=(VarAxis(name="rows", minimum=0), *foreign().axes[1:]))
    empty = plan_cases(allowed, "shapes", profile=Profile.STANDARD, root_seed=0)
    assert [case.in_domain for case in empty if case.axes["rows"] == 0] == [True]


def test_shapes_respect_steps_and_constraints() -> None:
    stepped = foreign(
        axes=(VarAxis(name="rows", multiple_of=8, maximum=256), *foreign().axes[1:]),
        constraints=("rows != 72", "rows is prose"),
    )
    cases = plan_cases(stepped, "shapes", profile=Profile.DEEP, root_seed=0)
    sizes = {case.axes["rows"]: case.in_domain for case in cases}
    assert all(size % 8 == 0 and size <= 256 for size in sizes)
    assert {8, 56} <= set(sizes)
    assert sizes.get(72, False) is False


def test_small_cases_can_be_refilled_and_have_no_axis_of_one() -> None:
    for name in ALL:
        first, refill, *shorter, other, _ = plan(name, "small")
        assert first.axes == refill.axes
        assert first.seed != refill.seed
        assert first.axes != other.axes
        for case in shorter:
            changed = [axis for axis in first.axes if case.axes[axis] != first.axes[axis]]
            assert case.label == f"small A shorter {changed[0]}"
            assert len(changed) == 1
        able = [a for a in registry.get(name).var_axes() if first.axes[a.name] > least(a, 2)]
        assert len(shorter) == len(able)
        assert all(size >= 2 for case in (first, other, *shorter) for size in case.axes.values())


@pytest.mark.parametrize("name", ["attention", "paged_attention_decode", "groupnorm", "rope_neox"])
def test_small_cases_keep_to_a_budget_of_elements_and_work(name: str) -> None:
    problem = registry.get(name)
    first, _, *_, other, _ = plan(name, "small")
    for case in (first, other):
        sizes = [case.axes[axis.name] for axis in problem.var_axes()]
        assert elements(problem, case.axes) <= 2**15
        assert math.prod(sizes) <= 2**17
        assert min(sizes) >= 3
        assert len(set(sizes)) == len(sizes)
    assert all(first.axes[axis.name] != other.axes[axis.name] for axis in problem.var_axes())


def test_constant_axes_alone_do_not_cut_small_cases_down() -> None:
    first, *_ = plan("embedding_rmsnorm_backward_64k", "small")
    assert (first.axes["tokens"], first.axes["hidden"]) == (13, 11)


def test_arguments_move_each_input_alone() -> None:
    for name in ALL:
        problem = registry.get(name)
        cases = plan(name, "arguments")
        moved = {case.label.removesuffix(" moved") for case in cases[1::2]}
        free = {spec.name for spec in problem.inputs if not isinstance(spec.domain, SizeOf)}
        assert moved == free
        for base, changed in zip(cases[0::2], cases[1::2], strict=True):
            assert base.seed == changed.seed
            differing = [n for n in base.fills if base.fills[n] != changed.fills[n]]
            differing += [n for n in base.scalars if base.scalars[n] != changed.scalars[n]]
            assert differing == [changed.label.removesuffix(" moved")]
            sizes = [changed.axes[axis.name] for axis in problem.var_axes()]
            assert len(set(sizes)) == len(sizes)


def test_foreign_scalars_keep_the_workloads_value_and_move_by_a_lot() -> None:
    cases = plan_cases(foreign(), "arguments", profile=Profile.QUICK, root_seed=0)
    base, moved = cases[-2:]
    assert base.scalars["eps"] == 1e-5
    assert moved.scalars["eps"] == pytest.approx(3e-4) or moved.scalars["eps"] < 1e-6


def test_generator_only_inputs_come_from_the_generator() -> None:
    spec = dataclasses.replace(foreign().inputs[0], domain=Opaque(why="table of pages"))
    problem = foreign(
        inputs=(spec, foreign().inputs[1]),
        reference=Reference(path=Path("reference.py"), generator="make"),
    )
    cases = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=0)
    assert all(case.generator and "x" not in case.fills for case in cases)
    moved = plan_cases(problem, "arguments", profile=Profile.QUICK, root_seed=0)
    assert all("eps" in case.label for case in moved)


def test_a_harmless_generator_adds_one_case_of_its_own() -> None:
    problem = foreign(reference=Reference(path=Path("reference.py"), generator="make"))
    first, *others = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=0)
    assert first.generator
    assert not first.fills
    assert not any(case.generator for case in others)


def test_benchmark_cases_name_their_workload() -> None:
    cases = plan("rmsnorm", "benchmark", Profile.STANDARD)
    assert [case.workload for case in cases] == ["w0", "w1"]


def test_growth_axes_are_declared_or_derived() -> None:
    assert growth_axes(registry.get("rmsnorm")) == ("hidden",)
    assert growth_axes(foreign()) == ("rows",)
    assert growth_axes(registry.get("swiglu")) == ()
    assert plan("swiglu", "growth") == plan("swiglu", "hot") == ()


def test_an_output_that_the_reference_sizes_depends_on_every_axis() -> None:
    problem = dataclasses.replace(foreign(), reduction_axes=())
    free = growth_axes(problem)
    assert free
    decided = tuple(
        dataclasses.replace(spec, shape=(*spec.shape[:-1], "out0")) for spec in problem.outputs
    )
    axes = (*problem.axes, VarAxis(name="out0", derived=True))
    assert growth_axes(dataclasses.replace(problem, axes=axes, outputs=decided)) == ()


def test_the_number_of_parts_that_offsets_cut_is_no_length_of_a_sum() -> None:
    """A loop over 65536 parts of 64 rows takes minutes and tells nothing of its sums."""
    problem = foreign()
    cut = TensorSpec(
        name="offsets", dtype=DType.INT32, shape=("parts",), domain=Offsets(axis="rows")
    )
    axes = (*problem.axes, VarAxis(name="parts"))
    found = dataclasses.replace(problem, axes=axes, inputs=(*problem.inputs, cut))
    assert growth_axes(found) == ("rows",)
    weights = dataclasses.replace(cut, name="w", dtype=DType.FLOAT32, domain=Real())
    weighted = dataclasses.replace(found, inputs=(*found.inputs, weights))
    assert set(growth_axes(weighted)) == {"rows", "parts"}


def test_fit_halves_but_keeps_what_it_must() -> None:
    problem = registry.get("rmsnorm")
    big = {"rows": 16384, "hidden": 4096}
    assert elements(problem, fitted_sizes(problem, big, budget=2**16)) <= 2**16
    assert fitted_sizes(problem, big, budget=2**16, keep={"hidden"})["hidden"] == 4096


def test_an_unknown_purpose_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'numeric'"):
        plan("rmsnorm", "numerik")


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("rows % 8 == 0", True),
        ("rows > 8 and hidden <= rows", False),
        ("1 < hidden < 32", True),
        ("not rows == 8 or hidden != 24", False),
        ("rows is a multiple of 3", None),
        ("len(x) > 2", None),
    ],
)
def test_constraints_are_judged_where_they_speak_of_sizes(
    constraint: str, expected: bool | None
) -> None:
    assert constraint_holds(constraint, {"rows": 8, "hidden": 24}) is expected


def test_elements_and_sizes_that_equal_a_scalar_are_planned() -> None:
    x = TensorSpec(name="x", dtype=DType.BFLOAT16, shape=("rows", "columns"), domain=Real())
    limit = ScalarSpec(name="limit", dtype=DType.FLOAT32, domain=Real(low=0.0), default=0.1)
    window = ScalarSpec(name="window", dtype=DType.INT32, domain=IntegerRange(low=1, high=4096))
    problem = foreign(
        axes=(VarAxis(name="rows"), VarAxis(name="columns")),
        inputs=(x, limit, window),
        outputs=(dataclasses.replace(x, name="y"),),
        workloads=(Workload(id="w", axes={"rows": 4, "columns": 9}),),
    )
    planned = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=11)
    cases = {case.label: case for case in planned}
    equal = materialise(problem, cases["elements equal to scalar arguments"], device=CPU)
    elements, value = equal["x"], equal["limit"]
    assert isinstance(elements, torch.Tensor)
    assert 0.09 < float(value) < 0.11
    for wanted in (value, -value):
        assert bool((elements.float() == wanted).any())  # also in the type of the tensor
    assert float((elements.abs().float() != value).float().mean()) > 0.2
    for axis in ("rows", "columns"):
        assert (
            cases[f"window equals {axis}"].scalars["window"]
            == cases[f"window equals {axis}"].axes[axis]
        )


def test_axes_of_one_size_and_sizes_two_short_of_a_tile_are_tried_at_quick() -> None:
    """There b may be taken for its transpose, and pairs of elements have no rest."""
    cases = plan("gemm", "shapes")
    assert any(set(case.axes.values()) == {24} for case in cases)
    assert any(all(size + 2 in TILES for size in case.axes.values()) for case in cases)
