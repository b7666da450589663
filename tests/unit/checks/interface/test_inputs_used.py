"""API003: arguments that do not reach the output, and causes that are not its business."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.checks.interface.inputs_used import Api003, change_in_words, pairs_of
from cuassay.checks.state.earlier_calls import State001
from cuassay.model.case import Case
from cuassay.model.domain import Mask
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.precision import Precision
from cuassay.model.problem import ConstAxis, TensorSpec
from cuassay.model.scenario import Call
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.make import Truth
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    axis,
    examine,
    gather,
    judged,
    problem,
    run_one,
    scaled_add,
    tensor,
)

PROFILES = [Profile.QUICK, Profile.STANDARD]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_hard_coded_scalar_is_named(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    found = examine(Api003(), trial, lambda: lambda x, bias, gain: x * 1.0 + bias)
    assert found
    assert all("'gain' does not reach the output" in finding.message for finding in found)
    assert all(finding.finding_class is FindingClass.WRONG for finding in found)


@pytest.mark.parametrize("profile", PROFILES)
def test_an_ignored_tensor_is_found(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    found = examine(Api003(), trial, lambda: lambda x, bias, gain: x * gain)
    assert any("'bias' does not reach the output" in finding.message for finding in found)


@pytest.mark.parametrize("name", ["training", "causal", "inverse", "full", "skip", "scaled"])
def test_a_flag_that_is_not_read_is_found_whatever_is_drawn(name: str) -> None:
    # A seed is made of the input's name: some of these are drawn True first, some False.
    def reference(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return x * 2.0 if flag.item() else x.clone()

    made = problem(
        "flagged",
        axes=[axis("rows"), ConstAxis(name="one", value=1)],
        inputs=[
            tensor("x", "rows"),
            TensorSpec(name=name, dtype=DType.BOOL, shape=("one",), domain=Mask()),
        ],
        outputs=[tensor("y", "rows")],
        workloads=[{"rows": 16, "one": 1}],
    )
    trial = FakeTrial(made, reference)
    assert examine(Api003(), trial, lambda: lambda x, flag: x * 2.0)
    assert examine(Api003(), trial, lambda: lambda x, flag: x.clone())
    assert examine(Api003(), trial, lambda: reference) == []


def test_a_scalar_that_is_used_wrongly_is_found() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return x * (gain if gain == 1.0 else gain * gain) + bias

    found = examine(Api003(), scaled_add(), lambda: call)
    assert found
    assert "right before and wrong after gain goes from 1.0 to" in found[0].message


def test_only_the_first_row_of_an_index_tensor_read_is_found() -> None:
    def call(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return table[ids[:1]].expand(ids.shape[0], -1, -1).contiguous()

    assert examine(Api003(), gather(), lambda: call)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("declared", [True, False])
def test_an_honest_kernel_is_silent(profile: Profile, declared: bool) -> None:
    trial = scaled_add(declared=declared)
    trial.profile = profile
    assert examine(Api003(), trial, lambda: lambda x, bias, gain: x * gain + bias) == []
    assert examine(Api003(), gather(), lambda: lambda ids, table: table[ids]) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_a_kept_answer_is_left_to_state001(profile: Profile) -> None:
    def factory() -> Function:
        kept: dict[object, torch.Tensor] = {}

        def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
            return kept.setdefault(tuple(x.shape), x * gain + bias).clone()

        return call

    trial = scaled_add()
    trial.profile = profile
    assert examine(Api003(), trial, factory) == []
    assert examine(State001(), trial, factory)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_hard_coded_scalar_is_not_called_stale(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    assert examine(State001(), trial, lambda: lambda x, bias, gain: x * 1.0 + bias) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_a_kernel_that_is_wrong_throughout_is_reported_before_any_is_moved(
    profile: Profile,
) -> None:
    trial = scaled_add()
    trial.profile = profile
    found = examine(Api003(), trial, lambda: lambda x, bias, gain: x * gain + bias + 1.0)
    assert found
    assert all(finding.message.startswith("before any is moved: ") for finding in found)


def test_truths_of_moved_cases_are_not_asked_for_where_the_kernel_is_wrong_throughout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes seconds; an argument that a wrong kernel ignores is found all the same."""
    trial = scaled_add()
    trial.profile = Profile.QUICK
    asked: set[str] = set()
    truth_of = FakeTrial.truth

    def truth(self: FakeTrial, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        asked.add(repr((case.seed, case.scalars, case.fills)))
        return truth_of(self, case, precision)

    monkeypatch.setattr(FakeTrial, "truth", truth)
    scenario = next(iter(Api003().propose(trial)))

    def found(call: Function) -> list[Finding]:
        asked.clear()
        return judged(Api003(), trial, scenario, run_one(trial, call, scenario))

    assert not found(lambda x, bias, gain: x * gain + bias)
    every = len(asked)
    assert found(lambda x, bias, gain: x * gain + bias + 1.0)
    assert len(asked) == 2 < every
    ignored = found(lambda x, bias, gain: x * gain + 1.0)
    assert any("'bias' does not reach" in finding.message for finding in ignored)


def test_an_answer_without_any_number_does_not_tell_which_input_is_ignored() -> None:
    trial = scaled_add()
    found = examine(Api003(), trial, lambda: lambda x, bias, gain: x * float("nan"))
    assert not any("does not reach" in finding.message for finding in found)


def test_an_argument_that_the_reference_ignores_too_is_benign() -> None:
    trial = scaled_add()
    trial.reference = lambda x, bias, gain: x + bias
    assert examine(Api003(), trial, lambda: lambda x, bias, gain: x + bias) == []


def test_an_argument_that_only_the_kernel_uses_is_found() -> None:
    trial = scaled_add()
    trial.reference = lambda x, bias, gain: x + bias
    assert examine(Api003(), trial, lambda: lambda x, bias, gain: x * gain + bias)


def test_a_member_of_a_redundant_family_is_advice() -> None:
    trial = scaled_add()
    cases = list(trial.cases("arguments"))
    trial.plans["arguments"] = tuple(
        dataclasses.replace(case, in_domain=number % 2 == 0) for number, case in enumerate(cases)
    )
    found = examine(Api003(), trial, lambda: lambda x, bias, gain: x * 1.0 + bias)
    assert found
    assert {finding.finding_class for finding in found} == {FindingClass.ADVICE}


def test_an_ill_conditioned_case_decides_nothing() -> None:
    trial = scaled_add()
    trial.ill_conditioned = "its noise exceeds what the output can hold"
    assert examine(Api003(), trial, lambda: lambda x, bias, gain: x) == []


def test_the_moved_case_comes_first_in_a_fresh_process() -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    scenarios = [s for s in Api003().propose(trial) if len(s.cases) == 2]
    assert len(scenarios) == len(pairs_of(trial))
    assert all(s.fresh and s.cases[0].label.endswith("moved") for s in scenarios)


def test_a_change_in_words() -> None:
    base, moved = pairs_of(scaled_add())[0]
    assert change_in_words(base, moved) == "x takes other values"
    base, moved = pairs_of(scaled_add())[-1]
    assert change_in_words(base, moved).startswith("gain goes from 1.0 to")


def test_every_axis_of_the_cases_is_at_least_two() -> None:
    for trial in (scaled_add(), gather()):
        for scenario in Api003().propose(trial):
            assert all(size >= 2 for case in scenario.cases for size in case.axes.values())


def test_a_base_that_several_arguments_are_moved_from_is_called_once() -> None:
    trial = scaled_add()
    trial.profile = Profile.QUICK
    scenario = next(iter(Api003().propose(trial)))
    pairs = pairs_of(trial)
    names = {case.label for case in scenario.cases}
    assert {moved.label for _, moved in pairs} <= names
    assert len(scenario.cases) < len(pairs) * 2
    calls = [step for step in scenario.steps if isinstance(step, Call)]
    assert len(calls) == len(scenario.cases)
