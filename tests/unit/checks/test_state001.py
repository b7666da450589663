"""STATE001: caches and stale buffers are found, honest kernels and vacuous refills are not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.checks.state.answers import truth_moved
from cuassay.checks.state.call_scenarios import ELEMENTS, RECYCLED, state_scenarios
from cuassay.checks.state.earlier_calls import State001
from cuassay.model.outcome import FindingClass
from cuassay.model.scenario import PoisonFreed, Release
from cuassay.model.verdict import Profile
from tests.support.fake_trial import FakeTrial, Function, examine, gather, row_sum, scaled_add


def honest() -> Function:
    return lambda x, bias, gain: x * gain + bias


def memo_by_address() -> Function:
    kept: dict[object, torch.Tensor] = {}

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        key = (x.data_ptr(), tuple(x.shape), gain)
        if key not in kept:
            kept[key] = x * gain + bias
        return kept[key].clone()

    return call


def memo_by_shape() -> Function:
    kept: dict[object, torch.Tensor] = {}

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return kept.setdefault(tuple(x.shape), x * gain + bias).clone()

    return call


def packed_bias() -> Function:
    kept: dict[int, torch.Tensor] = {}

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return x * gain + kept.setdefault(bias.data_ptr(), bias.clone())

    return call


def frozen_scalar() -> Function:
    kept: list[float] = []

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        kept.append(gain)
        return x * kept[0] + bias

    return call


def validated_on_a_sample() -> Function:
    kept: dict[object, torch.Tensor] = {}

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        sample = tuple(x.reshape(-1)[:16].tolist())
        key = (sample, gain, tuple(bias.tolist()), tuple(x.shape))
        return kept.setdefault(key, x * gain + bias).clone()

    return call


def scratch_of_the_first_shape() -> Function:
    rows: list[int] = []

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        rows.append(x.shape[0])
        y = x * gain + bias
        y[min(rows[0], x.shape[0]) :] = 0.0
        return y

    return call


def first_call_is_wrong() -> Function:
    calls: list[int] = []

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        calls.append(1)
        return x * gain + bias * (2.0 if len(calls) == 1 else 1.0)

    return call


FAULTS = {
    "memo_by_address": (memo_by_address, "returned the answer of call 1 after every input"),
    "memo_by_shape": (memo_by_shape, "returned the answer of call 1"),
    "packed_bias": (packed_bias, "in place"),
    "frozen_scalar": (frozen_scalar, "gain goes from"),
    "validated_on_a_sample": (validated_on_a_sample, "a single element, in place"),
    "scratch_of_the_first_shape": (scratch_of_the_first_shape, "at another shape"),
    "first_call_is_wrong": (first_call_is_wrong, "state of a first call"),
}


# `quick` tries one order of two shapes only, so it does not see what the other order shows.
PLANTED = [(name, Profile.STANDARD) for name in FAULTS]
PLANTED += [(name, Profile.QUICK) for name in FAULTS if name != "scratch_of_the_first_shape"]


@pytest.mark.parametrize(("name", "profile"), PLANTED)
def test_a_planted_fault_is_found_and_named(name: str, profile: Profile) -> None:
    factory, words = FAULTS[name]
    trial = scaled_add()
    trial.profile = profile
    if profile is Profile.QUICK and name == "validated_on_a_sample":
        words = "in place"
    found = examine(State001(), trial, factory)
    assert found
    assert any(words in finding.message for finding in found), [f.message for f in found]
    assert all(f.finding_class is FindingClass.WRONG for f in found)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
def test_an_honest_kernel_is_silent(declared: bool, profile: Profile) -> None:
    trial = scaled_add(declared=declared)
    trial.profile = profile
    assert examine(State001(), trial, honest) == []


def test_a_right_cache_is_silent() -> None:
    def factory() -> Function:
        kept: dict[object, torch.Tensor] = {}

        def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
            key = (tuple(x.reshape(-1).tolist()), tuple(bias.tolist()), gain, tuple(x.shape))
            return kept.setdefault(key, x * gain + bias).clone()

        return call

    assert examine(State001(), scaled_add(), factory) == []


def test_a_kernel_that_is_always_wrong_is_left_to_the_numbers() -> None:
    assert examine(State001(), scaled_add(), lambda: lambda x, bias, gain: x * gain) == []


def test_other_operators_are_silent() -> None:
    assert examine(State001(), row_sum(), lambda: lambda x: x.sum(-1)) == []
    assert examine(State001(), gather(), lambda: lambda ids, table: table[ids]) == []


def test_a_refill_that_does_not_move_truth_blames_nobody() -> None:
    trial = constant_inputs()
    first = trial.cases("small")[0]
    other = dataclasses.replace(first, seed=first.seed + 1)
    assert not truth_moved(trial, first, other)
    assert examine(State001(), trial, memo_by_shape) == []


def constant_inputs() -> FakeTrial:
    """Return a trial whose every input is the same for all seeds: each refill is vacuous."""
    from cuassay.model.case import Fill

    trial = scaled_add()
    same = {"x": Fill(kind="ones"), "bias": Fill(kind="ones")}
    small = trial.cases("small")[0]
    case = dataclasses.replace(small, fills=same, scalars={"gain": 1.0})
    trial.plans = {"small": (case,), "arguments": ()}
    return trial


def test_freed_memory_is_poisoned_before_it_is_used_again() -> None:
    recycled = next(s for s in state_scenarios(scaled_add()) if s.label == RECYCLED)
    kinds = [type(step) for step in recycled.steps]
    assert PoisonFreed in kinds
    assert kinds.index(Release) < kinds.index(PoisonFreed)
    assert recycled.fresh


def test_one_element_differs_in_the_element_scenario() -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    scenario = next(s for s in state_scenarios(trial) if s.label == ELEMENTS)
    base, moved = (trial.inputs(case) for case in scenario.cases[:2])
    differing = 0
    for name, value in base.items():
        other = moved[name]
        if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
            differing += int((value != other).sum())
    assert differing == 1
