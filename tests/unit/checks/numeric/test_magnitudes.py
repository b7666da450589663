"""NUM004: what is right for usual values and wrong for large ones shows; constants do not count."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.checks.numeric.magnitudes import Num004, Tries
from cuassay.errors import NothingToCheckError
from cuassay.hooks import Observed
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import TensorSpec
from cuassay.oracle.lift.magnitudes import Magnitudes
from tests.support.fake_trial import (
    FakeTrial,
    axis,
    examine,
    gather,
    problem,
    scaled_add,
    tensor,
    with_oracle,
)

Kernel = Callable[..., Tensor]


def weighted(*, dtype: DType = DType.FLOAT32) -> FakeTrial:
    """Return y = softmax(x) * weight, x of (rows, cols), weight of (cols,)."""
    made = problem(
        "weighted",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols", dtype=dtype), tensor("weight", "cols", dtype=dtype)],
        outputs=[tensor("y", "rows", "cols", dtype=dtype)],
        workloads=[{"rows": 16, "cols": 32}],
    )
    return with_oracle(FakeTrial(made, lambda x, w: torch.softmax(x, -1) * w))


def clamped(x: Tensor, weight: Tensor) -> Tensor:
    return (torch.softmax(x, -1) * weight).clamp(-64.0, 64.0)


def through_half(x: Tensor, weight: Tensor) -> Tensor:
    y = torch.softmax(x, -1) * weight
    return torch.where(y.abs() > 65504.0, torch.inf, y)


def unshifted(x: Tensor, weight: Tensor) -> Tensor:
    raised = torch.exp(x)
    return raised / raised.sum(-1, keepdim=True) * weight


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (clamped, {FindingClass.WRONG, FindingClass.UNSAFE}),
        (through_half, {FindingClass.UNSAFE}),
        (unshifted, {FindingClass.WRONG, FindingClass.UNSAFE}),
    ],
)
def test_a_kernel_that_is_wrong_for_large_values(kernel: Kernel, expected: set[object]) -> None:
    found = examine(Num004(), weighted(), lambda: kernel)
    assert {finding.finding_class for finding in found} == expected
    assert all(
        finding.condition.startswith("magnitudes: ")
        for finding in found
        if finding.finding_class is FindingClass.UNSAFE
    )


def test_an_honest_kernel_passes() -> None:
    trial = weighted()
    assert examine(Num004(), trial, lambda: lambda x, w: w * torch.softmax(x, 1)) == []
    assert [scenario.label for scenario in Num004().propose(trial)] == list(Tries)


def attended() -> FakeTrial:
    """Return y = softmax(q k) v, q of (rows, width), k and v of (keys, width)."""
    made = problem(
        "attended",
        axes=[axis("rows"), axis("keys"), axis("width")],
        inputs=[
            tensor("q", "rows", "width"),
            tensor("k", "keys", "width"),
            tensor("v", "keys", "width"),
        ],
        outputs=[tensor("y", "rows", "width")],
        workloads=[{"rows": 8, "keys": 16, "width": 16}],
    )
    return with_oracle(FakeTrial(made, lambda q, k, v: torch.softmax(q @ k.T, -1) @ v))


def started_at(least: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return attention whose running maximum begins at a number."""

    def kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.T
        raised = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=least))
        total = raised.sum(-1, keepdim=True)
        return torch.where(total > 0, raised @ v / total, 0.0)

    return kernel


@pytest.mark.parametrize("least", [-5e4, -1e4])
def test_a_maximum_that_starts_at_a_number_is_wrong_below_it(least: float) -> None:
    """Of both signs some score of each row lies above it; all of them negative, none does."""
    (found,) = examine(Num004(), attended(), lambda: started_at(least))
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition.startswith("magnitudes: ")
    assert "the first positive and the others negative" in found.message


def test_a_maximum_that_starts_at_minus_infinity_is_right() -> None:
    assert examine(Num004(), attended(), lambda: started_at(-math.inf)) == []
    assert examine(Num004(), attended(), lambda: started_at(-1e30)) == []


def test_inputs_grow_until_the_reference_reaches_the_limit() -> None:
    trial = weighted()
    for scenario in Num004().propose(trial):
        reached = max(trial.magnitudes(scenario.cases[1]))
        if scenario.label == Tries.ALL:
            assert 2.0**17 < reached <= 2.0**40
        else:
            assert 2.0**13 < reached <= 2.0**14


def test_a_mask_that_is_large_already_does_not_count() -> None:
    trial = scaled_add()
    trial.reference = lambda x, bias, gain: (
        (x * gain + bias).masked_fill(x > 1e30, torch.finfo(torch.float32).max)
        + torch.full_like(x, -torch.inf).exp()
    )
    assert len(list(Num004().propose(trial))) == len(Tries)


def test_float16_does_not_go_beyond_itself() -> None:
    labels = [scenario.label for scenario in Num004().propose(weighted(dtype=DType.FLOAT16))]
    assert labels == [Tries.SIDES, Tries.MAINS]


def test_declared_bounds_are_kept() -> None:
    trial = scaled_add()
    bounded = tuple(
        dataclasses.replace(spec, domain=Real(low=-1.0, high=1.0))
        if isinstance(spec, TensorSpec)
        else spec
        for spec in trial.problem.inputs
    )
    trial.problem = dataclasses.replace(trial.problem, inputs=bounded)
    with pytest.raises(NothingToCheckError, match="no input can be made larger"):
        list(Num004().propose(trial))


def test_indices_do_not_grow() -> None:
    trial = gather()
    for scenario in Num004().propose(trial):
        grown = [n for n, f in scenario.cases[1].fills.items() if "scale_by" in f.parameters]
        assert grown == ["table"]


def test_magnitudes_are_those_of_inputs_and_then_of_each_operation() -> None:
    x = torch.tensor([3.0, -4.0])

    def reference(x: Tensor, by: float) -> Tensor:
        return (x * by).exp().half()

    measured = Magnitudes([x, 5.0])
    with Observed(measured):
        reference(x, 5.0)
    found = measured.read()
    assert found[:2] == (4.0, 20.0)
    assert found[2] == pytest.approx(math.exp(15.0))
    assert found[3] == math.inf
