"""The comparator's fused CUDA kernel: candidate, truth and scale are read once.

One program of one warp walks a strip of rows over a block of columns; loads of later rows are
in flight while it works. Programs lie along one axis of the grid, the only one that takes more
than 65,535. Row sums are stored per block and row; column sums and the largest |z| stay in
registers until the strip ends. Blocks are added in float64 by torch. Loads move 2 to 4
(candidate) + 8 (truth) + 4 (scale) bytes an element: the kernel is bound by memory
(benchmarks/results/comparator-h200.json). Differences are taken in float64; what follows is
float32, whose rounding is far below the statistics' limits. The meaning of every sum is in
`sums`; infinities close to the largest finite value are marked, and excused later.

Integer and float arguments are not specialised: shapes share compilations (of half a second
each). Rows of a multiple of 16 elements have one with wide loads, others one without.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle import special
from cuassay.oracle.compare.sums import SUMS, Sums
from cuassay.oracle.truth.types import OutputTruth

SUPPORTED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
LEAST = 1 << 20  # elements from which a pass saved is worth a compilation
_FOLD = 1024  # a single row is cut into rows of this width, so that no program is half empty
_WIDE, _NARROW = 256, 32  # columns of a block: 8 elements a thread in one row, or 1
_VECTOR = 16  # elements that rows must be a multiple of for the widest loads
_TALL, _LOW = 128, 16  # rows a program walks


@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["total_units", "column_units", "rows", "blocks", "strips"]
)
def _sums_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0915  # one kernel, no calls
    candidate,
    truth,
    scale,
    row_out,
    peak_out,
    column_out,
    total_units,
    column_units,
    rows,
    blocks,
    strips,
    per_unit,
    flush,
    VECTOR: tl.constexpr,
    STRIP: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    block = (tl.program_id(0) % blocks).to(tl.int64)
    strip = (tl.program_id(0) // blocks).to(tl.int64)
    blocks = blocks.to(tl.int64)
    strips = strips.to(tl.int64)
    columns = column_units.to(tl.int64) * VECTOR  # tells the compiler how rows are aligned
    total = total_units.to(tl.int64) * VECTOR
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    here = column < columns
    energies = tl.zeros([1, COLUMNS], dtype=tl.float32)
    squares = tl.zeros([1, COLUMNS], dtype=tl.float32)
    gains = tl.zeros([1, COLUMNS], dtype=tl.float32)
    biases = tl.zeros([1, COLUMNS], dtype=tl.float32)
    peak = tl.zeros([1, COLUMNS], dtype=tl.float32)
    infinity = float("inf")
    for step in tl.range(0, STRIP, num_stages=3):
        row = strip * STRIP + step + tl.arange(0, 1)
        offset = row[:, None] * columns + column[None, :]
        offset = tl.max_contiguous(offset, [1, 4])  # 16 bytes of scale, two of 16 of truth
        inside = here[None, :] & (offset < total)
        c = tl.load(candidate + offset, mask=inside, other=0.0)
        t = tl.load(truth + offset, mask=inside, other=0.0)
        s = tl.load(scale + offset, mask=inside, other=1.0)
        wide = c.to(tl.float32)
        narrow = t.to(tl.float32)
        e = (c.to(tl.float64) - t).to(tl.float32)
        e = tl.where(tl.abs(e) <= flush, 0.0, e)
        finite = tl.abs(e) < infinity  # else one of the two is not finite
        alike = (wide == narrow) | ((wide != wide) & (narrow != narrow))
        inverse = 1.0 / tl.abs(s)  # infinite where only the exact answer passes
        z = e * inverse
        found = tl.where(e == 0.0, 0.0, tl.abs(z))
        peak = tl.maximum(peak, tl.where(finite, found, tl.where(alike, 0.0, 3e38)))
        keep = finite & (s > 0)
        z = tl.where(keep, tl.minimum(tl.maximum(z, -1e4), 1e4), 0.0)
        w = tl.where(keep, narrow * inverse, 0.0)
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
    tl.store(peak_out + strip * blocks + block, tl.max(tl.max(peak, 1), 0))
    out = column_out + strip * columns + column
    stride = strips * columns
    tl.store(out, tl.sum(energies, 0), mask=here)
    tl.store(out + stride, tl.sum(squares, 0), mask=here)
    tl.store(out + 2 * stride, tl.sum(gains, 0), mask=here)
    tl.store(out + 3 * stride, tl.sum(biases, 0), mask=here)


def supports(candidate: Tensor, output: OutputTruth) -> bool:
    """Whether the kernel covers this output: 16- and 32-bit floats, many of them."""
    return output.dtype in SUPPORTED and candidate.numel() >= LEAST


def fused_sums(candidate: Tensor, truth: Tensor, scale: Tensor, output: OutputTruth) -> Sums:
    """Return what `sums.eager_sums` returns, in one pass over contiguous matrices.

    Of a single row only the whole sums and the place of its peak are used: no column sums.
    """
    rows, columns = truth.shape
    single = rows == 1 and columns > _FOLD
    view = _FOLD if single else columns
    height = -(-truth.numel() // view)
    width = _WIDE if view > _WIDE // 2 else _NARROW
    blocks = -(-view // width)
    strip = _TALL if height >= _TALL // 2 else _LOW
    strips = -(-height // strip)
    options: dict[str, Any] = {"dtype": torch.float32, "device": truth.device}
    row_out = torch.empty(SUMS, blocks, height, **options)
    peak = torch.empty(strips, blocks, **options)
    column_out = torch.empty(SUMS, strips, view, **options)
    vector = _VECTOR if view % _VECTOR == 0 and truth.numel() % _VECTOR == 0 else 1
    _sums_kernel[(blocks * strips,)](
        candidate, truth, scale, row_out, peak, column_out,
        truth.numel() // vector, view // vector, height, blocks, strips,
        1.0 / output.unit, special.flush_threshold(output.dtype),
        VECTOR=vector, STRIP=strip, COLUMNS=width, num_warps=1,
    )  # fmt: skip
    if single:
        whole = row_out.view(SUMS, -1).sum(1, keepdim=True, dtype=torch.float64)
        none = torch.zeros(SUMS, 0, dtype=torch.float64, device=truth.device)
        return Sums(rows=whole, columns=none, peak=peak, tile=(strip, width), view=view)
    return Sums(
        rows=row_out.sum(1, dtype=torch.float64),
        columns=column_out.sum(1, dtype=torch.float64),
        peak=peak,
        tile=(strip, width),
        view=view,
    )
