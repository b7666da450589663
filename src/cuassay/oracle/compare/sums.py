"""Sums of a candidate's error over rows and columns: the plain torch path, in chunks.

The output is viewed as a matrix (product of leading axes, last axis). Row sums give the slices
along every leading axis by reshaping, column sums those along the last. `triton_sums`
computes the same sums on CUDA in one pass; both must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from cuassay.oracle import special
from cuassay.oracle.truth.types import OutputTruth

CLIP_Z = 12.0  # a few wild elements must not decide the normalised score; W judges them
CLIP_P = 1e4  # keeps projections finite
MISMATCH = 3e38  # marks in `peak`: look at classes; inf: an exact answer is missed
SUMS = 4  # (e/unit)^2, min(|z|, CLIP_Z)^2, z * w, z
_CHUNK = {"cpu": 1 << 16, "cuda": 1 << 24}  # elements: few launches, bounded memory

Matrices: TypeAlias = tuple[Tensor, Tensor, Tensor]  # candidate (any float), truth, scale


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Sums of a candidate's error: `rows` (4, R) and `columns` (4, C), float64.

    `peak` is the largest |z| per tile of (rows, columns) of a view with `view` columns of the
    elements in order; MISMATCH where classes differ or an error is not finite. `plain`: every
    number is finite and every scale positive, as far as was looked.
    """

    rows: Tensor
    columns: Tensor
    peak: Tensor
    tile: tuple[int, int]
    view: int
    plain: bool = False


def matrix_shape(shape: Sequence[int], by_row: bool) -> tuple[int, int]:
    """Return (rows, columns) of the matrix view; `by_row` keeps a 1-D output's elements apart."""
    if len(shape) >= 2:
        return math.prod(shape[:-1]), shape[-1]
    size = math.prod(shape)
    return (size, 1) if by_row else (1, size)


def chunks(rows: int, columns: int, *, budget: int, step: int = 1) -> Iterator[tuple[slice, slice]]:
    """Yield (rows, columns) slices that cover the matrix, of about `budget` elements.

    Columns are cut at multiples of `step` only.
    """
    width = max(min(columns, budget // step * step), step)
    height = max(1, budget // max(min(width, columns), 1))
    for column in range(0, columns, width):
        for row in range(0, rows, height):
            yield (
                slice(row, min(row + height, rows)),
                slice(column, min(column + width, columns)),
            )


def fold(
    shape: tuple[int, int],
    measure: Callable[[slice, slice], Sequence[Tensor]],
    count: int,
    *,
    device: torch.device,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum `count` elementwise quantities over columns and over rows: (count, R), (count, C).

    `measure` gives stacks of them, (several, rows, columns) each: on a GPU what a small output
    costs is the number of launches. Where only the rows `kept` add anything, it is asked for
    slices of those.
    """
    height = shape[0] if kept is None else len(kept)
    rows = torch.zeros(count, height, dtype=torch.float64, device=device)
    columns = torch.zeros(count, shape[1], dtype=torch.float64, device=device)
    for r, c in chunks(height, shape[1], budget=_CHUNK.get(device.type, 1 << 16)):
        first = 0
        for part in measure(r, c):
            last = first + len(part)
            rows[first:last, r].add_(part.sum(2))
            columns[first:last, c].add_(part.sum(1))
            first = last
    if kept is None:
        return rows, columns
    spread = torch.zeros(count, shape[0], dtype=torch.float64, device=device)
    spread[:, kept] = rows
    return spread, columns


def deviation(candidate: Tensor, truth: Tensor, output: OutputTruth) -> Tensor:
    """Return candidate - truth as float64, 0 where either is not finite or the error flushes."""
    both = torch.isfinite(candidate) & torch.isfinite(truth)
    error = torch.where(both, candidate.double() - truth, 0.0)
    return torch.where(error.abs() <= special.flush_threshold(output.dtype), 0.0, error)


def scores(part: Matrices, output: OutputTruth) -> Tensor:
    """Return |z| = |error| / |scale| with 0/0 = 0; a missed exact answer gives infinity."""
    candidate, truth, scale = part
    error, size = deviation(candidate, truth, output), scale.double().abs()
    ratio = error / torch.where(size > 0, size, 1.0)
    return torch.where(size > 0, ratio, torch.where(error == 0, 0.0, torch.inf)).abs()


def mismatched(part: Matrices, output: OutputTruth) -> Tensor:
    """Where the candidate's class (NaN, infinities, finite) is neither truth's nor excused."""
    wide, truth, scale = part[0].double(), part[1], part[2]
    same = torch.isfinite(wide) & torch.isfinite(truth)
    same |= torch.isnan(wide) & torch.isnan(truth)
    same |= wide == truth
    excused = torch.isinf(wide) & ((wide > 0) == (truth > 0))
    return ~(same | (excused & special.near_limit(truth, scale, output.dtype)))


def eager_sums(candidate: Tensor, truth: Tensor, scale: Tensor, output: OutputTruth) -> Sums:
    """Return the sums of matrices candidate (any float), truth (float64), scale (float32)."""
    shape = (truth.shape[0], truth.shape[1])
    device = truth.device
    width = max(1, min(shape[1], _CHUNK.get(device.type, 1 << 16)))
    blocks = max(1, -(-shape[1] // width))
    peak = torch.zeros(shape[0], blocks, dtype=torch.float32, device=device)
    all_plain = True

    def measure(r: slice, c: slice) -> tuple[Tensor, ...]:
        nonlocal all_plain
        part = (candidate[r, c], truth[r, c], scale[r, c])
        error = _plain_error(*part[:2], output)
        if error is not None:
            size = part[2].double()
            z, weight = error / size, part[1] / size
            seen = z.abs()
        else:
            all_plain = False
            error = deviation(*part[:2], output)
            keep = torch.isfinite(part[0]) & torch.isfinite(part[1]) & (part[2] > 0)
            size = torch.where(keep, part[2], 1.0).double()
            z, weight = (torch.where(keep, t / size, 0.0) for t in (error, part[1]))
            error = torch.where(keep, error, 0.0)
            seen = torch.where(mismatched(part, output), MISMATCH, scores(part, output))
        peak[r, c.start // width] = seen.amax(1).float()
        z = z.clamp(-CLIP_P, CLIP_P)
        energy = error / output.unit
        squares = torch.stack([energy, z.clamp(-CLIP_Z, CLIP_Z)]).square_()
        return squares, torch.stack([weight.mul_(z), z])

    rows, columns = fold(shape, measure, SUMS, device=device)
    tile = (1, width)
    return Sums(rows=rows, columns=columns, peak=peak, tile=tile, view=shape[1], plain=all_plain)


def _plain_error(candidate: Tensor, truth: Tensor, output: OutputTruth) -> Tensor | None:
    """Return the error where every number is finite and every scale positive, else None.

    One look at the extremes of the error tells: each look waits for the device.
    """
    if not output.least > 0:
        return None
    error = candidate.double() - truth  # not in place: a float64 candidate is not copied
    least, most = torch.stack(torch.aminmax(error)).tolist()
    if not (math.isfinite(least) and math.isfinite(most)):
        return None
    threshold = special.flush_threshold(output.dtype)
    if max(-least, most) <= threshold:
        return error.zero_()
    if output.least < threshold * 1e6:  # errors that flush may matter here
        return torch.where(error.abs() <= threshold, 0.0, error)
    return error
