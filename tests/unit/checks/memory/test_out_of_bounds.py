"""MEM002: damaged zones, results that follow what memory holds, and no alarm for others."""

from __future__ import annotations

import ctypes
import json

import pytest
import torch

from cuassay.checks.memory.out_of_bounds import Mem002, damaged_zones
from cuassay.model.candidate import Convention
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import StepDone
from cuassay.model.verdict import Profile
from tests.support.autotuned import tuned
from tests.support.fake_trial import Function, examine, row_sum, scaled_add


def found(call: Function) -> list[str]:
    return [finding.message for finding in examine(Mem002(), scaled_add(), lambda: call)]


def _right(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    y = torch.empty_like(x)
    y.copy_(x * gain + bias)
    return y


def test_a_right_kernel_is_not_reported() -> None:
    assert found(_right) == []


def test_a_row_beyond_the_end_is_reported_with_its_buffer() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = _right(x, bias, gain)
        ctypes.memset(y.data_ptr() + y.numel() * 4, 0, x.shape[1] * 4)
        return y

    (message,) = found(call)
    assert message.startswith("writes 44 bytes beyond the end of output 'y' (572 bytes)")
    assert message.endswith("(rows = 13, cols = 11)")


def test_a_write_before_an_input_is_reported() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        ctypes.memset(bias.data_ptr() - 8, 0, 4)
        return _right(x, bias, gain)

    (message,) = found(call)
    assert "writes 4 bytes before the start of input 'bias'" in message
    assert "the nearest 4 bytes from it" in message


def test_an_element_beyond_an_input_times_zero_is_reported() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        beyond = ctypes.c_float.from_address(x.data_ptr() + x.numel() * 4).value
        return _right(x, bias, gain) + 0.0 * beyond

    (message,) = found(call)
    assert "wrong where it holds NaN, right where it holds a finite number" in message


def test_a_stale_maximum_that_leaves_nan_out_is_reported() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        workspace = torch.empty(x.shape)
        return torch.fmax(_right(x, bias, gain), torch.where(workspace > 1e8, workspace, -1e30))

    (message,) = found(call)
    assert "wrong where it holds a finite number, right where it holds NaN" in message


def test_a_sum_into_an_output_that_is_not_cleared_is_reported() -> None:
    check, trial = Mem002(), row_sum()
    call = lambda x, y: y.add_(x.sum(-1))  # noqa: E731
    (finding,) = examine(check, trial, lambda: call, convention=Convention.DESTINATION)
    assert "wrong, and otherwise when that memory holds other bytes" in finding.message


def test_wrong_numbers_are_the_business_of_others() -> None:
    assert found(lambda x, bias, gain: x * gain) == []


def test_an_exception_decides_nothing() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        raise ValueError("no")

    from cuassay.errors import CannotJudgeError

    with pytest.raises(CannotJudgeError, match="ValueError"):
        found(call)


def test_a_configuration_that_writes_beyond_an_odd_tail_is_reported() -> None:
    def beyond(x: torch.Tensor, y: torch.Tensor, block: int) -> None:
        if block == 128:
            ctypes.memset(y.data_ptr() + y.numel() * 4, 0, 8)

    trial = scaled_add()
    call = tuned(also=beyond)
    assert examine(Mem002(), trial, lambda: call) == []  # quick: the chosen one alone
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    messages = [finding.message for finding in examine(Mem002(), trial, lambda: call)]
    assert messages
    assert all("writes 8 bytes beyond the end of" in message for message in messages)


def test_every_scenario_runs_in_one_guarded_process() -> None:
    scenarios: list[Scenario] = list(Mem002().propose(scaled_add()))
    assert scenarios
    assert all(s.mode is Mode.GUARDED and not s.fresh for s in scenarios)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"zone": "after"}', "[" * 100_000, '{"zone": 1, "size": "x"}']
    + [
        json.dumps({"zone": zone, "label": "y", "size": size, "first": 0, "changed": 1})
        for zone, size in (("sideways", 1), ("after", -1), ("after", 1 << 60), ("after", None))
    ],
)
def test_implausible_facts_are_left_out(text: str) -> None:
    assert damaged_zones(StepDone(index=0, facts=(("damage", text),))) == []
