"""The comparator's fused CUDA kernel: candidate, truth and scale are read once.

One program takes a strip of rows by a block of columns. Row sums are stored per strip row and
block; column sums stay in registers until the strip ends. Blocks are added in float64 by torch.
Loads move 2 to 4 (candidate) + 8 (truth) + 4 (scale) bytes an element, so the kernel is bound
by memory. Differences are taken in float64; what follows is float32, whose rounding is far
below the statistics' limits. The meaning of every sum is in `compare_sums`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle import special
from cuassay.oracle.compare_sums import Sums
from cuassay.oracle.trust_types import OutputTruth

SUPPORTED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_FOLD = 1024  # a single row is cut into rows of this width, so that no program is half empty
_STRIP = 64  # rows a program walks
_TILE = 1024  # elements a program holds at once: 8 a thread, three blocks an SM on sm_90
_WIDTH = 256  # columns of a tile: one row a warp, so that row sums need no barrier
_WARPS = 4


@triton.jit  # type: ignore[untyped-decorator]
def _sums_kernel(  # type: ignore[no-untyped-def]
    candidate,
    truth,
    scale,
    row_out,
    peak_out,
    column_out,
    total,
    rows,
    columns,
    per_unit,
    flush,
    maximum,
    slack,
    STRIP: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    strip = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1).to(tl.int64)
    blocks = tl.num_programs(1).to(tl.int64)
    strips = tl.num_programs(0).to(tl.int64)
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    energies = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    squares = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    gains = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    biases = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    infinity = float("inf")
    for start in range(0, STRIP, ROWS):
        row = strip * STRIP + start + tl.arange(0, ROWS)
        offset = row[:, None] * columns + column[None, :]
        inside = (row < rows)[:, None] & (column < columns)[None, :] & (offset < total)
        c = tl.load(candidate + offset, mask=inside, other=0.0).to(tl.float64)
        t = tl.load(truth + offset, mask=inside, other=0.0)
        s = tl.load(scale + offset, mask=inside, other=1.0)
        size = tl.abs(s)
        narrow = t.to(tl.float32)
        truth_finite = tl.abs(t) < infinity
        candidate_finite = tl.abs(c) < infinity
        both = truth_finite & candidate_finite
        alike = both | (t == c) | ((t != t) & (c != c))
        near = truth_finite & (tl.abs(narrow) >= maximum - 8.0 * size - slack)
        alike = alike | (near & (tl.abs(c) == infinity) & ((c > 0) == (t > 0)))
        e = tl.where(both, c - t, 0.0).to(tl.float32)
        e = tl.where(tl.abs(e) <= flush, 0.0, e)
        z = e / tl.where(size > 0, size, 1.0)
        z = tl.where(size > 0, z, tl.where(e == 0, 0.0, infinity))
        peak = tl.where(inside & (alike == 0), 3e38, tl.abs(z))
        keep = both & (s > 0) & inside
        z = tl.where(keep, tl.minimum(tl.maximum(z, -1e4), 1e4), 0.0)
        w = tl.where(keep, narrow / tl.where(size > 0, size, 1.0), 0.0)
        e = tl.where(keep, e * per_unit, 0.0)
        q = tl.minimum(tl.abs(z), 12.0)
        energy = e * e
        square = q * q
        gain = z * w
        energies += energy
        squares += square
        gains += gain
        biases += z
        there = row < rows
        out = row_out + block * rows + row
        stride = blocks * rows
        tl.store(out, tl.sum(energy, 1), mask=there)
        tl.store(out + stride, tl.sum(square, 1), mask=there)
        tl.store(out + 2 * stride, tl.sum(gain, 1), mask=there)
        tl.store(out + 3 * stride, tl.sum(z, 1), mask=there)
        tl.store(peak_out + row * blocks + block, tl.max(peak, 1), mask=there)
    out = column_out + strip * columns + column
    stride = strips * columns
    here = column < columns
    tl.store(out, tl.sum(energies, 0), mask=here)
    tl.store(out + stride, tl.sum(squares, 0), mask=here)
    tl.store(out + 2 * stride, tl.sum(gains, 0), mask=here)
    tl.store(out + 3 * stride, tl.sum(biases, 0), mask=here)


def supports(candidate: Tensor, output: OutputTruth) -> bool:
    """Whether the kernel covers this output: 16- and 32-bit floats with a scale."""
    return output.dtype in SUPPORTED and output.scale is not None and candidate.numel() > 0


def fused_sums(candidate: Tensor, truth: Tensor, scale: Tensor, output: OutputTruth) -> Sums:
    """Return what `compare_sums.eager_sums` returns, in one pass over contiguous matrices."""
    rows, columns = truth.shape
    single = rows == 1 and columns > _FOLD
    shape = (-(-columns // _FOLD), _FOLD) if single else (rows, columns)
    row_sums, peak, column_sums = _launch(candidate, truth, scale, output, shape)
    if single:  # one row cut into many: only its whole sum and the place of its peak are used
        return Sums(
            rows=row_sums.sum(1, keepdim=True),
            columns=torch.zeros(4, 0, dtype=torch.float64, device=truth.device),
            peak=peak.view(1, -1),
            width=_FOLD // peak.shape[1],
        )
    return Sums(rows=row_sums, columns=column_sums, peak=peak, width=_columns(columns))


def _columns(columns: int) -> int:
    return min(_WIDTH, max(16, int(triton.next_power_of_2(columns))))


def _launch(
    candidate: Tensor, truth: Tensor, scale: Tensor, output: OutputTruth, shape: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = shape
    width = _columns(columns)
    height = max(1, _TILE // width)
    strip = max(_STRIP, 4 * height)
    grid = (-(-rows // strip), -(-columns // width))
    options: dict[str, Any] = {"dtype": torch.float32, "device": truth.device}
    row_out = torch.empty(4, grid[1], rows, **options)
    peak = torch.empty(rows, grid[1], **options)
    column_out = torch.empty(4, grid[0], columns, **options)
    form = special.form_of(output.dtype)
    _sums_kernel[grid](
        candidate, truth, scale, row_out, peak, column_out,
        truth.numel(), rows, columns, 1.0 / output.unit, special.flush_threshold(output.dtype),
        form.maximum, special.boundary_slack(output.dtype),
        STRIP=strip, ROWS=height, COLUMNS=width, num_warps=_WARPS,
    )  # fmt: skip
    return row_out.sum(1, dtype=torch.float64), peak, column_out.sum(1, dtype=torch.float64)
