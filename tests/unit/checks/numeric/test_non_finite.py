"""NUM005: a NaN that the reference shows has to show somewhere in the same output."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.checks.numeric.non_finite import Num005
from cuassay.errors import NothingToCheckError
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import ScalarSpec
from tests.support.fake_trial import FakeTrial, axis, examine, gather, problem, scaled_add, tensor

Kernel = Callable[..., Tensor]


def causal() -> FakeTrial:
    """Return the mean of each element and those before it, with a NaN reaching all after it."""
    made = problem(
        "causal",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )
    return FakeTrial(made, lambda x: x @ torch.ones(x.shape[1], x.shape[1]).triu().to(x.dtype))


def test_a_kernel_that_skips_what_a_mask_hides_passes() -> None:
    assert examine(Num005(), causal(), lambda: lambda x: x.cumsum(-1)) == []


def hides(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    return (x * gain + bias).nan_to_num(0.0)


def refuses(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    if bool(x.isnan().any()):
        raise ValueError("not finite")
    return x * gain + bias


def infinite(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    return (x * gain + bias).nan_to_num(torch.inf)


@pytest.mark.parametrize(("kernel", "count"), [(hides, 2), (refuses, 1), (infinite, 0)])
def test_a_hidden_nan_is_a_condition(kernel: Kernel, count: int) -> None:
    found = examine(Num005(), scaled_add(), lambda: kernel)
    assert len(found) == count
    assert all(finding.finding_class is FindingClass.UNSAFE for finding in found)
    assert all(finding.condition.startswith("non-finite: ") for finding in found)


def test_a_kernel_that_is_wrong_anyway_is_not_blamed_here() -> None:
    assert examine(Num005(), scaled_add(), lambda: lambda x, bias, gain: torch.zeros_like(x)) == []


def test_a_nan_that_no_index_names_is_not_tried() -> None:
    for scenario in Num005().propose(gather()):
        shown = gather().exact(scenario.cases[1])
        assert any(bool(out.isnan().any()) for out in shown)


def test_integers_show_no_nan() -> None:
    made = problem(
        "largest",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", dtype=DType.INT64)],
        workloads=[{"rows": 16, "cols": 32}],
    )
    with pytest.raises(NothingToCheckError):
        list(Num005().propose(FakeTrial(made, lambda x: x.argmax(-1))))


def test_a_factor_of_zero_hides_no_nan() -> None:
    trial = scaled_add()
    (gain,) = (spec for spec in trial.problem.inputs if isinstance(spec, ScalarSpec))
    bounded = dataclasses.replace(gain, domain=Real(low=-4.0, high=4.0))
    inputs = tuple(bounded if spec is gain else spec for spec in trial.problem.inputs)
    trial.problem = dataclasses.replace(trial.problem, inputs=inputs)

    def skips(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return bias.expand(x.shape).clone() if gain == 0 else x * gain + bias

    found = examine(Num005(), trial, lambda: skips)
    assert ["with gain = 0" in finding.message for finding in found] == [True]
    assert examine(Num005(), trial, lambda: lambda x, bias, gain: x * gain + bias) == []
    # Bounds that nobody declared, or without 0, say nothing of it.
    for domain in (Real(), Real(low=0.5, high=4.0)):
        other = dataclasses.replace(gain, domain=domain)
        inputs = tuple(other if spec is bounded else spec for spec in trial.problem.inputs)
        trial.problem = dataclasses.replace(trial.problem, inputs=inputs)
        bounded = other
        assert examine(Num005(), trial, lambda: skips) == []
