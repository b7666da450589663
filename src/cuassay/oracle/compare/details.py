"""Closer looks at an output: its worst element, and for suspicious ones classes and an error map.

Chunks without NaN, infinities and missed exact answers take a short way: three passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.model.outcome import COUNT_BOUNDS, Curve, ErrorMap
from cuassay.oracle import special
from cuassay.oracle.compare.sums import Matrices, Sums, chunks, mismatched, scores
from cuassay.oracle.truth.types import OutputTruth

_MAP_ROWS, _MAP_COLUMNS = 32, 64
_CHUNK = {"cpu": 1 << 16, "cuda": 1 << 22}
_CURVE = 256  # values of a curve
_TOP = 1e9  # what a map shows at most
_TINY = 5e-324  # stands for a scale of 0: no error gives 0, any other a huge score
_CLEAN = 1e30  # scores below it come from finite numbers and positive scales


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """Elements whose class differs from truth's without excuse, and the worst of the others.

    `worst` is the flat index of the first that differs, of the largest score where none does.
    """

    differing: int
    peak: float
    worst: int


def worst_element(matrix: Matrices, sums: Sums, output: OutputTruth) -> Tensor:
    """Return largest score in `sums`, |z| there, its flat index, candidate and truth: float64.

    Only the tile that holds the peak is computed again. Nothing waits for the device.
    """
    device = sums.peak.device
    (height, width), peaks = sums.tile, sums.peak.reshape(-1)
    top, place = peaks.max(0, keepdim=True)
    blocks = sums.peak.shape[1]
    rows = (place // blocks) * height + torch.arange(height, device=device)
    columns = (place % blocks) * width + torch.arange(width, device=device)
    last = matrix[1].numel() - 1
    # what lies outside counts an element of the tile's edge twice: no matter for a maximum
    columns.clamp_max_(sums.view - 1)
    flat = (rows[:, None] * sums.view + columns).clamp_max_(last).view(-1)
    candidate, truth, scale = (tensor.view(-1)[flat] for tensor in matrix)
    part = (candidate, truth, scale)
    z = _quick(part, output) if sums.plain else scores(part, output)
    value, at = z.max(0, keepdim=True)  # indexing by a tensor without axes would wait
    found = (top, value, flat[at], candidate[at], truth[at])
    return torch.cat([number.double() for number in found])


def inspect_classes(matrix: Matrices, output: OutputTruth) -> ClassResult:
    """Count class mismatches that the reference's own class does not excuse."""
    alternative = output.alternative
    if alternative is not None:
        alternative = alternative.view(matrix[1].shape)
    count, first, peak, peak_at = 0, None, 0.0, 0
    for r, c, part in _parts(matrix):

        def flat(local: int, r: slice = r, c: slice = c) -> int:
            row, column = divmod(local, int(c.stop - c.start))
            return (int(r.start) + row) * matrix[1].shape[1] + int(c.start) + column

        z = _quick(part, output)
        largest = float(z.amax())
        if not largest < _CLEAN:  # NaN as well
            wrong = mismatched(part, output)
            if alternative is not None:
                wrong &= special.classes(part[0].double()) != alternative[r, c]
            here = int(wrong.sum())
            if here and first is None:
                first = flat(int(wrong.to(torch.int8).argmax()))
            count += here
            z = scores(part, output)
            largest = float(z.amax())
        if largest > peak:
            peak, peak_at = largest, flat(int(z.argmax()))
    return ClassResult(differing=count, peak=peak, worst=peak_at if first is None else first)


def _parts(matrix: Matrices, step: int = 1) -> Iterator[tuple[slice, slice, Matrices]]:
    """Yield (rows, columns) of chunks and what is there; columns are cut at multiples of `step`."""
    candidate, truth, scale = matrix
    budget = _CHUNK.get(truth.device.type, 1 << 16)
    for r, c in chunks(truth.shape[0], truth.shape[1], budget=budget, step=step):
        yield r, c, (candidate[r, c], truth[r, c], scale[r, c])


def _quick(part: Matrices, output: OutputTruth) -> Tensor:
    """Return |z|; NaN or huge where classes or exact answers want a closer look."""
    candidate, truth, scale = part
    z = torch.sub(candidate, truth).abs_()
    z.masked_fill_(z <= special.flush_threshold(output.dtype), 0.0)
    return z.div_(scale.double().abs_().clamp_min_(_TINY))


def _shown(part: Matrices, output: OutputTruth) -> Tensor:
    return torch.where(mismatched(part, output), _TOP, scores(part, output))


def error_map(matrix: Matrices, output: OutputTruth) -> ErrorMap:
    """Return the worst |z| (at most 1e9; class mismatches count as that) per tile."""
    truth = matrix[1]
    rows, columns = truth.shape
    tile = (-(-rows // _MAP_ROWS), -(-columns // _MAP_COLUMNS))
    height, width = -(-rows // tile[0]), -(-columns // tile[1])
    cells = torch.zeros(height, width, dtype=torch.float64, device=truth.device)
    bounds = torch.tensor(COUNT_BOUNDS, dtype=torch.float64, device=truth.device)
    counts = torch.zeros(len(COUNT_BOUNDS) + 2, dtype=torch.int64, device=truth.device)
    for r, c, part in _parts(matrix, tile[1]):
        z = _quick(part, output)
        if not float(z.amax()) < _CLEAN:
            z = _shown(part, output)
        sizes = torch.bucketize(z.flatten(), bounds)
        sizes[z.flatten() >= _TOP] = len(COUNT_BOUNDS) + 1
        counts += torch.bincount(sizes, minlength=len(counts))
        missing = -z.shape[1] % tile[1]  # of the last tile's columns: no error there
        whole = torch.nn.functional.pad(z.clamp_max_(_TOP), (0, missing))
        across = whole.view(len(z), -1, tile[1]).amax(2)
        down = torch.arange(r.start, r.stop, device=z.device) // tile[0]
        wide = slice(c.start // tile[1], c.start // tile[1] + across.shape[1])
        cells[:, wide].scatter_reduce_(0, down[:, None].expand_as(across), across, "amax")
    # The curve is the values along the longer line through the worst element of the worst tile.
    worst = int(cells.argmax())
    candidate, truth, scale = matrix
    row, column = divmod(worst, width)
    r = slice(row * tile[0], min((row + 1) * tile[0], rows))
    c = slice(column * tile[1], min((column + 1) * tile[1], columns))
    z = _shown((candidate[r, c], truth[r, c], scale[r, c]), output).nan_to_num(_TOP)
    row, column = divmod(int(z.argmax()), z.shape[1])
    row, column = r.start + row, c.start + column
    along = columns >= min(rows, _CURVE)
    place, length = (column, columns) if along else (row, rows)
    start = max(0, min(place - _CURVE // 2, length - _CURVE))
    window = slice(start, min(start + _CURVE, length))
    got = candidate[row, window] if along else candidate[window, column]
    want = truth[row, window] if along else truth[window, column]
    curve = Curve(
        axis="columns" if along else "rows",
        start=start,
        got=tuple(got.double().tolist()),
        expected=tuple(want.double().tolist()),
    )
    return ErrorMap(
        rows=height,
        columns=width,
        cells=tuple(cells.view(-1).tolist()),
        tile=tile,
        output=output.name,
        counts=tuple(counts.tolist()),
        curve=curve,
    )
