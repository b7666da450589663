"""Sums in short accumulators on a GPU, in one kernel: products are never written to memory.

The plain path (`short_sums`) writes each product, its size and its cut form: 60 bytes for each,
seconds for a product of 4,096 by 4,096 by 4,096. Here a program has a tile of the result and goes
through a block's terms twice: first for the largest exponent, then to cut and add them. All is
float64 and exact, as there, so that both give the same bits in whatever order terms are added.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_LEAST = 1 << 26  # products from which the kernel is worth its compilation
_MOST = 1 << 31  # elements of a factor, which places of 32 bits count
_TILE = 32  # rows and columns of a program


@triton.jit
def _exponents(values):  # type: ignore[no-untyped-def]
    """Return the power of two below each magnitude, 0 for 0."""
    bits = values.to(tl.int64, bitcast=True) & 0x7FF0000000000000
    return bits.to(tl.float64, bitcast=True)


@triton.jit
def _cut(values):  # type: ignore[no-untyped-def]
    """Return numbers of fewer than 63 bits cut toward zero."""
    return values.to(tl.int64).to(tl.float64)


@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["rows", "columns", "terms"]
)
def _short_kernel(  # type: ignore[no-untyped-def]
    left,
    right,
    out,
    rows,
    columns,
    terms,
    finest,
    least,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    in_rows = row < rows
    in_columns = column < columns
    total = tl.zeros([TILE, TILE], dtype=tl.float64)
    first = 0
    while first < terms:
        size = tl.zeros([TILE, TILE], dtype=tl.float64)
        for step in range(BLOCK):
            place = first + step
            there = place < terms
            a = tl.load(left + row * terms + place, mask=in_rows & there, other=0.0)
            b = tl.load(right + place * columns + column, mask=in_columns & there, other=0.0)
            # of a product: the sum of its factors' exponents, not normalised
            size = tl.maximum(size, _exponents(a)[:, None] * _exponents(b)[None, :])
        grid = tl.maximum(tl.maximum(size, _exponents(total)) * finest, least)
        finer = 1.0 / grid  # of a power of two, which is exact
        added = _cut(total * finer)
        for step in range(BLOCK):
            place = first + step
            there = place < terms
            a = tl.load(left + row * terms + place, mask=in_rows & there, other=0.0)
            b = tl.load(right + place * columns + column, mask=in_columns & there, other=0.0)
            added += _cut((a[:, None] * b[None, :]) * finer)
        values = added * grid
        coarser = tl.maximum(_exponents(values) * finest, least)
        total = _cut(values * (1.0 / coarser)) * coarser
        first += BLOCK
    at = row[:, None] * columns + column[None, :]
    tl.store(out + at, total, mask=in_rows[:, None] & in_columns[None, :])


def supports(left: Tensor, right: Tensor) -> bool:
    """Whether (m, k) x (k, n) has products enough for the kernel, and elements that it can count.

    Its compilation takes longer than the plain path takes for a small product.
    """
    products = left.shape[0] * left.shape[1] * right.shape[1]
    return products >= _LEAST and max(left.numel(), right.numel()) < _MOST


def short_sums(left: Tensor, right: Tensor, *, block: int, finest: float, least: float) -> Tensor:
    """Return left @ right (m, k) x (k, n) of float64, summed in blocks of `block` terms.

    `finest` is the unit of a block's grid over its largest exponent, `least` the least grid.
    """
    rows, columns = left.shape[0], right.shape[1]
    out = torch.empty(rows, columns, dtype=torch.float64, device=left.device)
    grid = (triton.cdiv(rows, _TILE), triton.cdiv(columns, _TILE))
    _short_kernel[grid](
        left.contiguous(), right.contiguous(), out, rows, columns, left.shape[1],
        finest, least, BLOCK=block, TILE=_TILE, num_warps=4,
    )  # fmt: skip
    return out
