"""MEM001: elements that are not written, and buffers that are assumed to be zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuassay.checks.memory.unwritten_outputs import Mem001, _unwritten
from cuassay.model.candidate import Convention
from cuassay.model.diagnosis import Cause
from cuassay.model.dtype import DType
from cuassay.oracle.truth.types import OutputTruth
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    axis,
    examine,
    judged,
    problem,
    row_sum,
    run_one,
    scaled_add,
    tensor,
)


def destination(trial: FakeTrial, call: Function) -> list[str]:
    found = examine(Mem001(), trial, lambda: call, convention=Convention.DESTINATION)
    return [finding.message for finding in found]


def test_a_tail_that_is_not_written_is_counted() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float, y: torch.Tensor) -> None:
        tiles = x.shape[1] // 4 * 4
        y[:, :tiles] = (x * gain + bias)[:, :tiles]

    (message, *_) = destination(scaled_add(), call)
    assert "39 of 143 elements hold what the memory held before the call" in message


def test_a_kernel_that_writes_nothing_is_found() -> None:
    (message, *_) = destination(scaled_add(), lambda x, bias, gain, y: None)
    assert "143 of 143 elements" in message


def test_a_sum_into_a_buffer_that_is_not_cleared_is_found() -> None:
    assert destination(row_sum(), lambda x, y: y.add_(x.sum(-1)))


def test_a_maximum_with_what_was_there_depends_on_it() -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> None:
        kept = y.nan_to_num(nan=0.0)
        y.copy_(torch.where(kept.abs() > 0, kept + x.sum(-1), x.sum(-1)))

    (message, *_) = destination(row_sum(), call)
    assert "depends on what its memory held before the call" in message
    assert "wrong after minus the right answer" in message


def counts() -> FakeTrial:
    """Return y = (x > 0).sum(-1) as int32."""
    made = problem(
        "counts",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", dtype=DType.INT32)],
        workloads=[{"rows": 16, "cols": 32}],
    )
    return FakeTrial(made, lambda x: (x > 0).sum(-1).to(torch.int32))


def test_integer_outputs_are_judged_too() -> None:
    def tail(x: torch.Tensor, y: torch.Tensor) -> None:
        y[:-1] = (x > 0).sum(-1)[:-1]

    assert "1 of 13 elements" in destination(counts(), tail)[0]
    assert destination(counts(), lambda x, y: y.add_((x > 0).sum(-1)))
    assert destination(counts(), lambda x, y: y.copy_((x > 0).sum(-1))) == []


def test_outputs_of_8_bit_floats_are_judged_too() -> None:
    """torch has no isfinite of them."""
    value = torch.tensor([[1.0, 2.0], [0.5, 4.0]]).to(torch.float8_e4m3fn)
    spec = tensor("y", "rows", "cols", dtype=DType.FLOAT8_E4M3FN)
    truth = OutputTruth(name="y", dtype=spec.dtype, value=value, scale=None)
    held = value.clone()
    held.view(torch.uint8)[1] = 0xFF
    after_half = value.clone()
    after_half[1] = torch.full((2,), 0.25).to(value.dtype)
    message, place = _unwritten(spec, [held, held, after_half], truth)
    assert "2 of 4 elements hold what the memory held before the call (first at [1, 0])" in message
    assert place.index == (1, 0)
    assert _unwritten(spec, [value, value, value], truth)[0] == ""


def test_numbers_beyond_float32_are_judged_too() -> None:
    value = torch.tensor([[1.0], [1e300]], dtype=torch.float64)
    spec = tensor("y", "rows", "cols", dtype=DType.FLOAT64)
    truth = OutputTruth(name="y", dtype=spec.dtype, value=value, scale=None)
    held = value.clone()
    held[1] = torch.nan
    after_half = value.clone()
    after_half[1] = 0.5
    message, place = _unwritten(spec, [held, held, after_half], truth)
    assert "1 of 2 elements" in message
    assert place.index == (1, 0)


@pytest.mark.parametrize("declared", [True, False])
def test_honest_kernels_are_silent(declared: bool) -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float, y: torch.Tensor) -> None:
        y.zero_().add_(x * gain + bias)

    trial = scaled_add(declared=declared)
    assert destination(trial, call) == []
    assert examine(Mem001(), trial, lambda: lambda x, bias, gain: x * gain + bias) == []


def test_wrong_numbers_that_depend_on_no_memory_are_left_to_the_numbers() -> None:
    assert destination(row_sum(), lambda x, y: y.copy_(x.sum(-1) * 2)) == []


def test_a_nan_that_a_kernel_writes_itself_is_left_to_the_numbers() -> None:
    assert destination(row_sum(), lambda x, y: y.fill_(float("nan"))) == []


def test_a_true_answer_of_not_a_number_is_not_called_unwritten() -> None:
    trial = row_sum()
    trial.reference = lambda x: torch.full_like(x.sum(-1), float("nan"))
    assert destination(trial, lambda x, y: y.fill_(float("nan"))) == []


def test_memory_that_a_kernel_allocates_is_poisoned() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = torch.empty_like(x)
        y[:-1] = (x * gain + bias)[:-1]
        return y

    assert examine(Mem001(), scaled_add(), lambda: call)


def test_a_difference_is_asked_for_again_with_the_patterns_in_other_orders() -> None:
    """An answer that follows the number of the call, and not its memory, shows another way."""
    check, trial = Mem001(), row_sum()

    def follows_memory(x: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(torch.where(y < 0, x.sum(-1) + 1.0, x.sum(-1)))

    def follows_calls() -> Function:
        calls = 0

        def call(x: torch.Tensor, y: torch.Tensor) -> None:
            nonlocal calls
            calls += 1
            y.copy_(x.sum(-1) + (1.0 if calls == 3 else 0.0))

        return call

    made: tuple[tuple[Callable[[], Function], bool], ...] = (
        (lambda: follows_memory, True),
        (follows_calls, False),
    )
    for call, stays in made:
        finding, *_ = examine(check, trial, call, convention=Convention.DESTINATION)
        assert finding.cause is Cause.UNINITIALISED
        assert finding.scenario is not None
        orders = check.again(finding.scenario, finding)
        assert len(orders) == 2
        again = [
            {one.message for one in judged(check, trial, scenario, run)}
            for scenario in orders
            for run in [run_one(trial, call(), scenario, convention=Convention.DESTINATION)]
        ]
        assert all(finding.message in shown for shown in again) is stays
    unwritten, *_ = examine(
        check, trial, lambda: lambda x, y: None, convention=Convention.DESTINATION
    )
    assert unwritten.scenario is not None
    assert check.again(unwritten.scenario, unwritten) == ()
