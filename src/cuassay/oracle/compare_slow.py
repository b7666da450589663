"""Closer looks that only a suspicious output needs: classes, the worst element, an error map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.model.outcome import ErrorMap
from cuassay.oracle import special
from cuassay.oracle.compare_sums import Sums, chunks, deviation, mismatched, relative
from cuassay.oracle.trust_types import OutputTruth

_MAP_ROWS, _MAP_COLUMNS = 32, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """Elements whose class differs from truth's without excuse, and the worst of the others.

    Positions are flat indices of the matrix view.
    """

    differing: int
    first: int | None
    peak: float
    peak_at: int


def worst_element(
    matrix: tuple[Tensor, Tensor, Tensor], sums: Sums, output: OutputTruth
) -> tuple[float, int]:
    """Return (largest |z|, its flat index), recomputing only the segment that holds it."""
    candidate, truth, scale = matrix
    columns = truth.shape[1]
    place = int(sums.peak.argmax())
    row, block = divmod(place, sums.peak.shape[1])
    part = (slice(row, row + 1), slice(block * sums.width, min((block + 1) * sums.width, columns)))
    error = deviation(candidate[part], truth[part], scale[part], output)
    z = relative(error, scale[part]).abs()
    column = int(z.argmax())
    return float(z[0, column]), row * columns + part[1].start + column


def inspect_classes(
    matrix: tuple[Tensor, Tensor, Tensor], alternative: Tensor | None, output: OutputTruth
) -> ClassResult:
    """Count class mismatches that the reference's own class does not excuse."""
    candidate, truth, scale = matrix
    columns = truth.shape[1]
    count, first, peak, peak_at = 0, None, 0.0, 0
    for r, c in chunks(truth.shape[0], columns, truth.device):
        part = (candidate[r, c], truth[r, c], scale[r, c])
        wrong = mismatched(*part, output)
        if alternative is not None:
            wrong &= special.classes(part[0].double()) != alternative[r, c]
        here = int(wrong.sum())
        if here and first is None:
            first = _flat(int(wrong.to(torch.int8).argmax()), r, c, columns)
        count += here
        z = relative(deviation(*part, output), part[2]).abs()
        largest = float(z.max())
        if largest > peak:
            peak, peak_at = largest, _flat(int(z.argmax()), r, c, columns)
    return ClassResult(differing=count, first=first, peak=peak, peak_at=peak_at)


def _flat(local: int, r: slice, c: slice, columns: int) -> int:
    row, column = divmod(local, int(c.stop - c.start))
    return (int(r.start) + row) * columns + int(c.start) + column


def error_map(matrix: tuple[Tensor, Tensor, Tensor], output: OutputTruth) -> ErrorMap:
    """Return the worst |z| (at most 1e9; class mismatches count as that) per tile."""
    candidate, truth, scale = matrix
    rows, columns = truth.shape
    tile = (-(-rows // _MAP_ROWS), -(-columns // _MAP_COLUMNS))
    height, width = -(-rows // tile[0]), -(-columns // tile[1])
    cells = torch.zeros(height * width, dtype=torch.float64, device=truth.device)
    for r, c in chunks(rows, columns, truth.device):
        part = (candidate[r, c], truth[r, c], scale[r, c])
        z = relative(deviation(*part, output), part[2]).abs()
        z = torch.where(mismatched(*part, output), 1e9, z).clamp_max(1e9)
        across = torch.arange(c.start, c.stop, device=z.device) // tile[1]
        down = torch.arange(r.start, r.stop, device=z.device) // tile[0]
        place = (down[:, None] * width + across[None, :]).reshape(-1)
        cells.scatter_reduce_(0, place, z.reshape(-1), "amax")
    return ErrorMap(
        rows=height, columns=width, cells=tuple(cells.tolist()), tile=tile, output=output.name
    )
