"""The host-side checks on the real oracle: honest kernels pass all of them, faults do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from cuassay.checks.base import Check
from cuassay.checks.registry import all_checks
from cuassay.errors import NothingToCheckError
from cuassay.model.dtype import DType
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import TensorSpec
from tests.support.fake_trial import FakeTrial, Function, examine, gather, row_sum, scaled_add
from tests.support.fake_trial import with_oracle as real

CHECKS = [  # those that have something to look at here: no GPU, no kept failures
    check
    for check in all_checks()
    if not check.code.startswith("NUM") and not check.needs.gpu and not check.skip(scaled_add())
]


def in_bfloat16(trial: FakeTrial) -> FakeTrial:
    """Return the trial with every floating tensor in bfloat16."""

    def lowered(spec: TensorSpec) -> TensorSpec:
        floating = spec.dtype is DType.FLOAT32
        return dataclasses.replace(spec, dtype=DType.BFLOAT16) if floating else spec

    made = trial.problem
    inputs = tuple(lowered(s) if isinstance(s, TensorSpec) else s for s in made.inputs)
    outputs = tuple(lowered(spec) for spec in made.outputs)
    trial.problem = dataclasses.replace(made, inputs=inputs, outputs=outputs)
    return trial


def fused(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return torch.addcmul(bias.float(), x.float(), torch.tensor(gain)).to(x.dtype)


def by_columns(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0])
    for column in range(x.shape[1]):
        total += x[:, column].float()
    return total.to(x.dtype)


def selected(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return table.index_select(0, ids.view(-1)).view(*ids.shape, table.shape[1])


HONEST: dict[str, tuple[Callable[[], FakeTrial], Function]] = {
    "fused": (scaled_add, fused),
    "fused bf16": (lambda: in_bfloat16(scaled_add()), fused),
    "serial sum": (row_sum, by_columns),
    "serial sum bf16": (lambda: in_bfloat16(row_sum()), by_columns),
    "gather": (gather, selected),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.code))
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_passes(check: Check, name: str) -> None:
    make, call = HONEST[name]
    trial = real(make())
    try:
        assert examine(check, trial, lambda: call) == []
    except NothingToCheckError:
        assert check.code in ("MEM004", "GRAD001", "OPCHECK001", "CONFIG001")


def cached() -> Function:
    kept: dict[int, torch.Tensor] = {}

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return x * gain + kept.setdefault(bias.data_ptr(), bias.clone())

    return call


def static() -> Function:
    kept: dict[object, torch.Tensor] = {}

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return kept.setdefault(tuple(x.shape), torch.empty_like(x)).copy_(x * gain + bias)

    return call


def hard_coded() -> Function:
    return lambda x, bias, gain: x + bias


def scratch() -> Function:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = x * gain + bias
        x.zero_()
        return y

    return call


def tail() -> Function:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = torch.empty_like(x)
        whole = x.shape[1] // 4 * 4
        y[:, :whole] = (x * gain + bias)[:, :whole]
        return y

    return call


FAULTS = {
    "STATE001": cached,
    "API001": scratch,
    "STATE001 held": static,
    "API003": hard_coded,
    "MEM001": tail,
    "SHP001": tail,
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_found(code: str) -> None:
    check = next(check for check in CHECKS if check.code == code.split()[0])
    trial = real(in_bfloat16(scaled_add()))
    if (
        code == "MEM001"
    ):  # glibc's cache a thread, which workers lack, hands small blocks out as they are
        (small, *_) = trial.cases("small")
        trial.plans["small"] = (dataclasses.replace(small, axes={"rows": 40, "cols": 75}),)
    found = examine(check, trial, FAULTS[code])
    assert found
    assert all(finding.code == code.split()[0] for finding in found)
    classes = {finding.finding_class for finding in found}
    if code == "STATE001 held":  # one result of all calls is one of all threads: a condition too
        classes -= {FindingClass.UNSAFE}
    assert classes == {FindingClass.WRONG}
