"""API001: bytes of the inputs before and after a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from cuassay.checks.interface import inputs_unchanged
from cuassay.checks.interface.inputs_unchanged import Api001
from cuassay.model.outcome import FindingClass
from tests.support.fake_trial import examine, gather, scaled_add


@pytest.fixture(autouse=True)
def small_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the large call, which finds the same again."""
    monkeypatch.setattr(inputs_unchanged, "_large", lambda trial: None)


def writes_bias(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    y = x * gain + bias
    bias[1] = 0.5
    return y


def writes_x(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    y = x * gain + bias
    x.mul_(2.0)
    return y


def test_one_changed_element_is_found_with_its_place() -> None:
    found = examine(Api001(), scaled_add(), lambda: writes_bias)
    assert [finding.where.output for finding in found] == ["bias"]
    assert found[0].where.index == (1,)
    assert found[0].where.got == "0.5"
    assert "is changed by the call" in found[0].message
    assert found[0].finding_class is FindingClass.WRONG


def test_an_input_used_as_scratch_is_found() -> None:
    found = examine(Api001(), scaled_add(), lambda: writes_x)
    assert [finding.where.output for finding in found] == ["x"]


def test_sorted_indices_in_place_are_found() -> None:
    def call(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        y = table[ids]
        ids.copy_(ids.sort(-1).values)
        return y

    assert [f.where.output for f in examine(Api001(), gather(), lambda: call)] == ["ids"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.t_(), "has shape"),
        (lambda x: x.unsqueeze_(0), "has shape"),
        (lambda x: x.as_strided_(x.shape, (1, x.shape[0])), "has strides"),
    ],
)
def test_a_tensor_that_is_seen_otherwise_with_the_same_bytes_is_found(
    change: Callable[[torch.Tensor], object], words: str
) -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = x * gain + bias
        change(x)
        return y

    (found,) = examine(Api001(), scaled_add(), lambda: call)
    assert found.finding_class is FindingClass.WRONG
    assert f"input 'x' is changed by the call: afterwards it {words} [" in found.message


def test_an_input_that_is_made_to_require_gradients_is_a_condition() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = x * gain + bias
        bias.requires_grad_(True)
        return y

    (found,) = examine(Api001(), scaled_add(), lambda: call)
    assert found.condition == "autograd: it sets requires_grad of input 'bias'"


def test_kernels_that_only_read_are_silent() -> None:
    for declared in (True, False):
        trial = scaled_add(declared=declared)
        assert examine(Api001(), trial, lambda: lambda x, bias, gain: x * gain + bias) == []


def test_what_the_reference_writes_too_is_not_reported_and_the_rest_is() -> None:
    trial = scaled_add()
    assert examine(Api001(), trial, lambda: writes_x, control=writes_x) == []
    found = examine(Api001(), trial, lambda: writes_bias, control=writes_x)
    assert [finding.where.output for finding in found] == ["bias"]


def test_a_modules_state_is_read_in_one_scenario_and_told_apart() -> None:
    trial = scaled_add()
    trial.problem = dataclasses.replace(trial.problem, state=("bias",))
    labels = [scenario.label for scenario in Api001().propose(trial)]
    assert [label.split(" on ")[0] for label in labels[:2]] == ["inputs: x", "inputs: the state"]
    assert [f.where.output for f in examine(Api001(), trial, lambda: writes_bias)] == ["bias"]
    assert [f.where.output for f in examine(Api001(), trial, lambda: writes_x)] == ["x"]
