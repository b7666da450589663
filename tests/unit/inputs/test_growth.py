"""Growth series: both signs at quick, and lengths where constant axes are large."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.catalog import registry
from cuassay.checks.numeric.growth import growth_axis, growth_groups
from cuassay.inputs.geometry import elements, growth_axes, tensor_inputs
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.case import Case
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.domain import Opaque
from cuassay.model.problem import ConstAxis, ExprAxis, Problem
from cuassay.model.verdict import Profile


def _growth(problem: Problem, device: Device) -> tuple[Case, ...]:
    return plan_cases(problem, "growth", profile=Profile.QUICK, root_seed=3, device=device)


@pytest.mark.parametrize("name", ["embedding_rmsnorm_backward", "rmsnorm_backward"])
def test_quick_grows_a_zero_mean_and_a_same_sign_series(name: str) -> None:
    cases = _growth(registry.get(name), CPU)
    regimes = {case.label.split(" ", 2)[2] for case in cases}
    assert any("zero mean" in regime for regime in regimes)
    assert any("same sign" in regime for regime in regimes)
    assert len(regimes) == 2


def _with_constants(vocab: int, hidden: int) -> Problem:
    problem = registry.get("embedding_rmsnorm_backward")
    sizes = {"vocab": vocab, "hidden": hidden}
    axes = tuple(
        ConstAxis(name=axis.name, value=sizes[axis.name]) if axis.name in sizes else axis
        for axis in problem.axes
    )
    workloads = tuple(
        dataclasses.replace(
            workload, axes={k: v for k, v in workload.axes.items() if k not in sizes}
        )
        for workload in problem.workloads
    )
    return dataclasses.replace(problem, axes=axes, workloads=workloads)


def test_large_constant_axes_still_grow_within_the_elements_allowed() -> None:
    problem = _with_constants(1 << 16, 1 << 12)
    cases = _growth(problem, CUDA)
    lengths = [case.axes["tokens"] for case in cases]
    assert lengths[:3] == lengths[3:]  # zero mean and same sign
    assert lengths[:3] == sorted(lengths[:3])
    assert lengths[2] >= 12 * lengths[0]
    assert all(elements(problem, case.axes) <= 3 << 27 for case in cases)


def test_a_declared_axis_with_a_low_maximum_grows_up_to_it() -> None:
    problem = registry.get("paged_attention_decode")
    cases = _growth(problem, CUDA)
    assert [case.axes["slots"] for case in cases] == 2 * [512, 2048, 8192]


def test_constant_axes_beyond_the_cap_give_no_growth() -> None:
    assert _growth(_with_constants(1 << 18, 1 << 12), CUDA) == ()


def _with_a_computed_axis() -> Problem:
    """moe_scatter as SOL-ExecBench writes it: `tokens*2` is an axis with a name of its own."""
    problem = registry.get("moe_scatter")
    specs = tuple(
        dataclasses.replace(spec, shape=("pairs", *spec.shape[1:]))
        for spec in tensor_inputs(problem)
    )
    axes = (*problem.axes, ExprAxis(name="pairs", expression="tokens*2"))
    return dataclasses.replace(problem, axes=axes, inputs=specs)


@pytest.mark.parametrize("purpose", ["hot", "growth"])
def test_an_index_along_a_computed_axis_is_lengthened_like_any_other(purpose: str) -> None:
    plans = [
        plan_cases(problem, purpose, profile=Profile.QUICK, root_seed=3)
        for problem in (registry.get("moe_scatter"), _with_a_computed_axis())
    ]
    plain, computed = ([case.axes["tokens"] for case in cases] for cases in plans)
    assert computed == plain
    assert computed


def test_a_series_is_named_after_the_axis_that_may_be_chosen() -> None:
    problem = _with_a_computed_axis()
    (group, *_) = growth_groups(plan_cases(problem, "growth", profile=Profile.QUICK, root_seed=3))
    assert group[0].axes["pairs"] != group[-1].axes["pairs"]
    assert growth_axis(problem, group) == "tokens"


def test_one_hot_case_has_a_sum_whose_second_half_takes_the_first_back() -> None:
    case, (a, b) = _halves("gemm")
    axis = growth_axes(registry.get("gemm"))[0]
    half = case.axes[axis] // 2
    first, whole = a[:, :half].double() @ b[:half].double(), a.double() @ b.double()
    assert float(whole.norm() / first.norm()) < 0.03
    assert case.axes[axis] >= 512


def test_indices_and_declared_bounds_leave_sums_as_they_are() -> None:
    problem = registry.get("embedding_grad")
    hot = plan_cases(problem, "hot", profile=Profile.QUICK, root_seed=3)
    assert all("halves" not in case.label for case in hot)


def test_inputs_that_only_a_generator_makes_are_left_to_it() -> None:
    problem = registry.get("gemm")
    first, *others = problem.inputs
    made = dataclasses.replace(tensor_inputs(problem)[0], domain=Opaque())
    hot = plan_cases(
        dataclasses.replace(problem, inputs=(made, *others)),
        "hot",
        profile=Profile.QUICK,
        root_seed=3,
    )
    (case,) = (case for case in hot if "halves" in case.label)
    assert first.name not in case.fills


def test_constant_axes_that_exceed_any_budget_leave_the_hot_axis_long() -> None:
    problem = _with_constants(1 << 17, 1 << 13)
    hot = plan_cases(problem, "hot", profile=Profile.QUICK, root_seed=3, device=CUDA)
    assert all(case.axes["tokens"] == 32768 for case in hot)


def _halves(name: str) -> tuple[Case, tuple[torch.Tensor, torch.Tensor]]:
    problem = registry.get(name)
    cases = plan_cases(problem, "hot", profile=Profile.QUICK, root_seed=3)
    (case,) = (case for case in cases if case.label == "hot halves that cancel")
    a, b, *_ = materialise(problem, case, device=CPU).values()
    assert isinstance(a, torch.Tensor)
    assert isinstance(b, torch.Tensor)
    return case, (a, b)
