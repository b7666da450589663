"""Outputs in float64: the candidate is left alone, and float32 inputs allow float32 sums."""

from __future__ import annotations

import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare
from tests.support.oracle_cases import normal, spec, whole

_BLOCK = 32


def _scan(x: Tensor) -> Tensor:
    return torch.cumsum(x.to(torch.float64), 0)


def _blocked(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A scan of blocks and of their sums, as kernels do it, every number in `dtype`."""
    rows = x.to(dtype).view(-1, _BLOCK).cumsum(1)
    before = torch.cat([rows.new_zeros(1), rows[:-1, -1].cumsum(0)])
    return (rows + before[:, None]).reshape(-1).double()


def test_a_float64_candidate_is_judged_and_left_alone() -> None:
    x = normal(1024)
    truth = whole(_scan, [x], spec("float64", "n")).outputs[0]
    own = _scan(x)
    kept = own.clone()
    assert compare(own, truth).passed
    assert torch.equal(own, kept)


def test_float32_inputs_allow_float32_sums_in_any_order() -> None:
    for seed in range(4):
        x = normal(1024, seed=seed)
        truth = whole(_scan, [x], spec("float64", "n")).outputs[0]
        assert compare(_blocked(x, torch.float32), truth).passed
        assert not compare(_blocked(x, torch.bfloat16), truth).passed


def test_values_whose_squares_overflow_are_judged() -> None:
    x = normal(64, 32)
    x[3, 5] = 1e4

    def exploding(v: Tensor) -> Tensor:
        return v.double() ** 60

    truth = whole(exploding, [x], spec("float64", "m", "n")).outputs[0]
    assert truth.value.max() > 1e200
    own = exploding(x)
    assert compare(own, truth).passed
    own[3, 5] *= 1.01
    assert not compare(own, truth).passed


def test_float64_inputs_demand_float64_sums() -> None:
    x = normal(1024).double()
    truth = whole(_scan, [x], spec("float64", "n")).outputs[0]
    assert compare(_blocked(x, torch.float64), truth).passed
    assert not compare(_blocked(x, torch.float32), truth).passed
