"""Hopper's tensor cores truncate their sums: honest, and not to be confused with fewer bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare
from tests.support.oracle_cases import normal, truth_of

HOPPER_BITS = 25  # below the largest exponent of one instruction; fp8 operands keep 13
_BLOCK = 16  # products of one mma.sync of 16-bit operands


def _exponent(values: Tensor) -> Tensor:
    return torch.where(values == 0, -1000, torch.frexp(values)[1] - 1)


def tensor_core_product(a: Tensor, b: Tensor, *, bits: int = HOPPER_BITS) -> Tensor:
    """Return a @ b in float32 as `mma.sync` sums it, `bits` kept (float64 in and out)."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for start in range(0, a.shape[1], _BLOCK):
        left, right = a[:, start : start + _BLOCK, None], b[None, start : start + _BLOCK]
        exponents = _exponent(left) + _exponent(right)
        top = torch.maximum(exponents.amax(1), _exponent(total))
        grid = torch.exp2((top - bits).double())
        cut = torch.trunc(left * right / grid[:, None]).sum(1) + torch.trunc(total / grid)
        total = cut * grid
        last = torch.exp2((_exponent(total) - 23).double())
        total = torch.trunc(total / last) * last
    return total


def _attend(weights: Tensor, values: Tensor) -> Tensor:
    return (weights.float() @ values.float()).to(values.dtype)


def _operands(dtype: torch.dtype, length: int) -> tuple[Tensor, Tensor]:
    """Return soft-max weights without their normaliser and values of one sign."""
    scores = normal(16, length, seed=7)
    weights = torch.exp(scores - scores.amax(1, keepdim=True)).to(dtype)
    return weights / 256, normal(length, 32, seed=8).abs().to(dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("length", [4096, 32768])
def test_truncating_sums_pass_and_thirteen_bits_do_not(dtype: str, length: int) -> None:
    low = getattr(torch, dtype)
    weights, values = _operands(low, length)
    truth = truth_of(_attend, [weights, values], dtype, "m", "n")
    wide = weights.double(), values.double()
    assert compare(tensor_core_product(*wide).to(low), truth).passed
    assert not compare(tensor_core_product(*wide, bits=13).to(low), truth).passed


def _product(left: Tensor, right: Tensor) -> Tensor:
    return (left.float() @ right.float()).to(left.dtype)


@pytest.mark.parametrize("mean", [5.0, 100.0])
def test_sums_that_rise_and_cancel_may_all_lean_one_way(mean: float) -> None:
    """No element is far off, and the mean of 16,384 is: rows alike, halves of opposite sign."""
    rows, terms, columns = 64, 2048, 256
    left = (mean * (1 + 1e-3 * normal(rows, terms, seed=1))).bfloat16()
    half = normal(terms // 2, columns, seed=2).abs()
    right = (torch.cat([half, -half]) + 1e-2 * normal(terms, columns, seed=3)).bfloat16()
    truth = truth_of(_product, [left, right], "bfloat16", "m", "n", draws=4)
    cut = tensor_core_product(left.double(), right.double())
    error = (cut - truth.value) / truth.value.square().mean().sqrt()
    assert float(error.mean().abs()) > 20 * float(error.std()) / (rows * columns) ** 0.5
    assert compare(cut.bfloat16(), truth).passed
    assert compare(_product(left, right), truth).passed
    assert not compare(
        tensor_core_product(left.double(), right.double(), bits=18).bfloat16(), truth
    ).passed
    assert not compare(_product(left[:, :-1], right[:-1]), truth).passed


def test_a_float32_operator_has_no_room_for_it() -> None:
    weights, values = (t.float() for t in _operands(torch.float16, 32768))
    truth = truth_of(_attend, [weights, values], "float32", "m", "n")
    assert compare(weights @ values, truth).passed
    assert not compare(tensor_core_product(weights.double(), values.double()).float(), truth).passed
