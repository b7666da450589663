"""Products of 8-bit floats as Hopper's tensor cores sum them: in short accumulators.

`wgmma` takes 32 products a step. With e the largest exponent among them and the running sum (of a
product: the sum of its factors' exponents), every term is cut toward zero to a multiple of
2^(e - 13), the terms are added exactly, and the sum is cut to 13 fraction bits. The rule is the one
that the PTX machine follows bit by bit (docs/machine-numerics.md); Ada's `mma.sync` takes 16
products a step in the same way. cuBLAS runs so with `use_fast_accum`, and so does Triton's
`tl.dot` unless `max_num_imprecise_acc` asks for sums in float32 now and then.

Blocks begin at another place along the sum in every draw: which terms meet in one is up to a
kernel, and so is the order of blocks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from cuassay.hooks import Operation
from cuassay.oracle.truth.reductions import product_factors

BLOCK = 32  # products a step
FRACTION_BITS = 13
# Products held at a time: on a GPU so many that the way to it costs less than what it computes.
_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 25}
_LEAST = 2.0**-126
_EXPONENT_BITS = 0x7FF << 52  # of float64


def short_product(asked: Operation, start: int) -> Any:
    """Return a matrix product of an operation, summed in blocks from place `start` on, wrapping.

    For forms that add a bias or scale the product it is put in the place of the exact one.
    """
    left, right = product_factors(asked)
    exact = left @ right
    found = short_sum(left.roll(-start, -1), right.roll(-start, -2 if right.dim() > 1 else -1))
    made = asked.run()
    return made + (found - exact).to(made.dtype) * asked.named.get("alpha", 1)


def short_sum(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right (..., m, k) x (..., k, n), summed in short accumulators, as float64."""
    if right.dim() == 1:
        return short_sum(left, right.unsqueeze(-1)).squeeze(-1)
    if left.dim() == 1:
        return short_sum(left.unsqueeze(0), right).squeeze(-2)
    if left.dim() > 2:
        pairs = zip(left.flatten(0, -3), right.flatten(0, -3), strict=True)
        made = torch.stack([short_sum(one, other) for one, other in pairs])
        return made.view(*left.shape[:-1], right.shape[-1])
    if left.is_cuda and torch.isfinite(left).all() and torch.isfinite(right).all():
        with suppress(ImportError):  # triton is an extra
            from cuassay.oracle.truth import triton_short_sums

            if triton_short_sums.supports(left, right):
                return triton_short_sums.short_sums(
                    left.double(),
                    right.double(),
                    block=BLOCK,
                    finest=2.0**-FRACTION_BITS,
                    least=_LEAST,
                )
    rows = max(1, _AT_ONCE.get(left.device.type, 1 << 22) // (BLOCK * max(right.shape[-1], 1)))
    parts = torch.split(left.double(), rows)
    return torch.cat([_rows(part, right.double()) for part in parts])


def _rows(left: Tensor, right: Tensor) -> Tensor:
    total = left.new_zeros(left.shape[0], right.shape[1])
    sizes = _exponent(left), _exponent(right)
    for k in range(0, left.shape[1], BLOCK):
        at = slice(k, k + BLOCK)
        terms = left[:, at, None] * right[None, at]
        # of a product: the sum of its factors' exponents, not normalised
        size = (sizes[0][:, at, None] * sizes[1][None, at]).amax(1)
        grid = torch.maximum(size, _exponent(total)).mul_(2.0**-FRACTION_BITS).clamp_min_(_LEAST)
        terms.div_(grid.unsqueeze(1), rounding_mode="trunc")
        added = terms.sum(1) + torch.div(total, grid, rounding_mode="trunc")
        values = added * grid
        coarser = (_exponent(values) * 2.0**-FRACTION_BITS).clamp_min_(_LEAST)
        total = values.div_(coarser, rounding_mode="trunc").mul_(coarser)
    return total


def _exponent(values: Tensor) -> Tensor:
    """Return the power of two below each magnitude of float64 numbers, 0 for 0."""
    return (values.contiguous().view(torch.int64) & _EXPONENT_BITS).view(torch.float64)
