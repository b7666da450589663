"""STATE002: answers that depend on earlier attributes are found, honest kernels are not."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import pytest
import torch

from cuassay.checks.state.attribute_scenarios import (
    LAYOUTS,
    SCALARS,
    SHAPES,
    WRITTEN,
    odd_layouts,
    toggle_scenarios,
)
from cuassay.checks.state.call_attributes import State002
from cuassay.model.case import Fill
from cuassay.model.outcome import FindingClass
from cuassay.model.scenario import Allocate
from cuassay.model.steps import Arrange, Layout
from cuassay.model.verdict import Profile
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    examine,
    gather,
    row_sum,
    run_one,
    scaled_add,
)

Tensor = torch.Tensor


def honest() -> Function:
    return lambda x, bias, gain: x * gain + bias


def strides_by_shape() -> Function:
    kept: dict[object, tuple[int, ...]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        strides = kept.setdefault(tuple(x.shape), x.stride())
        return x.as_strided(x.shape, strides) * gain + bias

    return call


def plan_made_when_contiguous() -> Function:
    """Return a kernel whose plan is made by a contiguous call and used by any."""
    kept: dict[object, tuple[int, ...]] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if x.is_contiguous():
            kept[tuple(x.shape)] = x.stride()
        return x.as_strided(x.shape, kept.get(tuple(x.shape), x.stride())) * gain + bias

    return call


def table_of_the_last_gain() -> Function:
    seen: set[float] = set()
    table: list[float] = [0.0]

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if gain not in seen:
            seen.add(gain)
            table[0] = gain
        return x * table[0] + bias

    return call


def gain_of_the_first_call() -> Function:
    kept: list[float] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        kept.append(gain)
        return x * kept[0] + bias

    return call


def rows_of_the_first_call() -> Function:
    kept: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        kept.append(x.shape[0])
        y = x * gain + bias
        y[min(kept[0], x.shape[0]) :] = 0.0
        return y

    return call


def hands_out_what_it_keeps() -> Function:
    kept: list[tuple[Tensor, Tensor, float, Tensor]] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        for a, b, c, y in kept:
            if c == gain and torch.equal(a, x) and torch.equal(b, bias):
                return y
        kept.append((x.clone(), bias.clone(), gain, x * gain + bias))
        return kept[-1][-1]

    return call


def doubles_its_first_answer() -> Function:
    calls: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        calls.append(1)
        return (x * gain + bias) * (2.0 if len(calls) == 1 else 1.0)

    return call


FAULTS = {
    "strides_by_shape": (strides_by_shape, "x went from transposed to contiguous"),
    "plan_made_when_contiguous": (plan_made_when_contiguous, "contiguous to transposed"),
    "table_of_the_last_gain": (table_of_the_last_gain, "gain goes from"),
    "gain_of_the_first_call": (gain_of_the_first_call, "gain goes from"),
    "rows_of_the_first_call": (rows_of_the_first_call, "went from"),
    "hands_out_what_it_keeps": (hands_out_what_it_keeps, "after the caller wrote into"),
    "doubles_its_first_answer": (doubles_its_first_answer, "call 1 is wrong at first"),
}


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_named(name: str, profile: Profile) -> None:
    factory, words = FAULTS[name]
    trial = scaled_add()
    trial.profile = profile
    found = examine(State002(), trial, factory)
    assert found
    assert all(f.code == "STATE002" and f.finding_class is FindingClass.WRONG for f in found)
    assert any(words in f.message for f in found), [f.message for f in found]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("profile", list(Profile))
def test_an_honest_kernel_is_silent(declared: bool, profile: Profile) -> None:
    trial = scaled_add(declared=declared)
    trial.profile = profile
    assert examine(State002(), trial, honest) == []


def test_other_operators_are_silent() -> None:
    assert examine(State002(), row_sum(), lambda: lambda x: x.sum(-1)) == []
    assert examine(State002(), gather(), lambda: lambda ids, table: table[ids]) == []


def ignores_strides() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return torch.as_strided(x, x.shape, (x.shape[1], 1)) * gain + bias

    return call


def refuses_strides() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not (x.is_contiguous() and bias.is_contiguous()):
            raise ValueError("contiguous only")
        return x * gain + bias

    return call


def ends_at_strides() -> Function:
    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not x.is_contiguous():
            raise SystemExit(3)
        return x * gain + bias

    return call


@pytest.mark.parametrize("factory", [ignores_strides, refuses_strides, ends_at_strides])
@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
def test_what_a_layout_breaks_at_once_is_left_to_the_check_of_layouts(
    factory: object, profile: Profile
) -> None:
    trial = scaled_add()
    trial.profile = profile
    assert callable(factory)
    assert examine(State002(), trial, factory) == []


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
def test_a_kernel_that_is_always_wrong_is_left_to_the_numbers(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    wrong: list[Function] = [
        lambda x, bias, gain: x * gain,
        lambda x, bias, gain: x * 1.0 + bias,  # ignores the scalar
        lambda x, bias, gain: x * gain + (bias if x.shape[0] > 6 else 0.0),  # one shape
    ]
    for fault in wrong:
        assert examine(State002(), trial, functools.partial(identity, fault)) == []


def identity(fault: Function) -> Function:
    return fault


def test_a_caller_that_writes_into_an_alias_of_an_input_blames_nobody() -> None:
    trial = row_sum()
    trial.plans = {"small": trial.cases("small"), "arguments": ()}

    def factory() -> Function:
        return lambda x: x[:, 0].copy_(x.sum(-1))  # lies in x: another check's finding

    found = examine(State002(), trial, factory)
    assert not any("the caller wrote" in f.message for f in found)


def test_results_that_cannot_be_written_into_blame_nobody() -> None:
    def factory() -> Function:
        return lambda x, bias, gain: (x * gain + bias).t().contiguous().t().requires_grad_()

    assert examine(State002(), scaled_add(), factory) == []
    trial = row_sum()
    trial.plans = {"small": trial.cases("small"), "arguments": ()}
    ones = {"x": Fill(kind="ones")}
    small = tuple(dataclasses.replace(case, fills=ones) for case in trial.cases("small"))
    trial.plans["small"] = small
    assert examine(State002(), trial, lambda: lambda x: x.sum(-1)[:1].expand(len(x))) == []


def test_quick_shares_processes_and_others_take_one_each() -> None:
    trial = scaled_add()
    assert [s.label for s in toggle_scenarios(trial)] == [SCALARS, LAYOUTS, SHAPES]
    trial.profile = Profile.STANDARD
    made = list(toggle_scenarios(trial))
    assert {s.label for s in made} == {LAYOUTS, SHAPES, SCALARS, WRITTEN}
    assert all(scenario.fresh for scenario in made)


def test_one_attribute_alone_is_toggled() -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    for scenario in toggle_scenarios(trial):
        arranged = [step for step in scenario.steps if isinstance(step, Arrange)]
        assert all(len(step.layouts) == 1 for step in arranged)
        first = scenario.cases[0]
        for case in scenario.cases[1:]:
            axes = [n for n in case.axes if case.axes[n] != first.axes[n]]
            scalars = [n for n in case.scalars if case.scalars[n] != first.scalars.get(n)]
            assert len(axes) + len(scalars) <= 1


def test_an_input_in_another_layout_has_a_slot_of_its_own() -> None:
    trial = scaled_add()
    scenario = next(iter(toggle_scenarios(trial)))
    slots = [step.slot for step in scenario.steps if isinstance(step, Allocate)]
    assert len(set(slots)) == len(slots)


def test_each_input_gets_a_layout_that_it_can_have() -> None:
    trial = scaled_add()
    found = odd_layouts(trial.problem, trial.cases("small")[0])
    assert found == {"x": Layout.TRANSPOSED, "bias": Layout.STEPPED}


def test_integers_stay_contiguous_lest_wild_indices_write_anywhere() -> None:
    trial = gather()
    found = odd_layouts(trial.problem, trial.cases("small")[0])
    assert set(found) == {"table"}


def crashes_after_strides() -> Function:
    """Return a kernel that a strided call harms and a later, contiguous one pays for."""
    harmed: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not x.is_contiguous():
            harmed.append(1)
            return torch.zeros_like(x)
        if harmed:
            raise SystemExit(134)
        return x * gain + bias

    return call


def garbage_after_strides() -> Function:
    harmed: list[int] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        harmed.extend([] if x.is_contiguous() else [1])
        return torch.zeros_like(x) if harmed else x * gain + bias

    return call


@pytest.mark.parametrize("factory", [crashes_after_strides, garbage_after_strides])
@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
def test_what_follows_a_call_that_a_layout_broke_blames_nobody(
    factory: Callable[[], Function], profile: Profile
) -> None:
    trial = scaled_add()
    trial.profile = profile
    assert examine(State002(), trial, factory) == []


def test_a_run_that_ends_early_in_an_ordinary_call_is_reported() -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    scenario = next(s for s in toggle_scenarios(trial) if s.label == SCALARS)

    def fails_twice(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        raise RuntimeError("no")

    run = run_one(trial, fails_twice, scenario)
    assert [f.code for f in State002().judge(trial, scenario, run)] == ["RUN001"]


def test_an_ill_conditioned_case_decides_nothing() -> None:
    trial: FakeTrial = scaled_add()
    trial.ill_conditioned = "a test"
    assert examine(State002(), trial, table_of_the_last_gain) == []
