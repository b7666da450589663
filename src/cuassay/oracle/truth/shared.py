"""How many independent errors a group of elements holds.

Equal inputs give equal truths and, in an honest kernel, one and the same rounding error. A
slice of 640 equal answers is one sample: its mean does not average anything away, and a score
of 3 for all of them is a score of 3. The share p of pairs of elements with equal truths gives
what the statistics need: n / (1 + (n - 1) p) independent errors in a group of n (Simpson's
index), and sums of errors whose variance is 1 + (n - 1) p times that of independent ones.

Pairs are counted in a stratified sample of each group, sorted: at least 64 elements and twice
the square root of its size, so that what it misses changes a variance by less than a half.
Truths are equal if they differ by less than 2**-24 of their achievable error: float64 sums of
the same terms may differ in the last bit. Zeros that carry no noise at all (what a mask, ReLU
or untouched row leaves) are exact rather than equal by accident, and are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cuassay.oracle.compare.groups import GroupKind, hit_membership

_SAME = 2.0**-24
_LEAST = 24  # elements looked at in a group, where there are very many groups
_USUAL = 64
_BUDGET = {"cpu": 1 << 16, "cuda": 1 << 24}  # elements looked at for all groups of one kind
_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatOutput:
    """One output as flat vectors: truth (float64), scale, and the runs' errors."""

    value: Tensor
    scale: Tensor
    runs: Sequence[Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """Shares of pairs that are one error, by group (float64): of all pairs, and weighted.

    With w = truth / scale: `gain` weighs pairs by w^2 (variance of the gain), `weight` by w^4
    and `size` by scale^4, which add to the reciprocal participation ratios.
    """

    pairs: Tensor
    gain: Tensor
    weight: Tensor
    size: Tensor


def shared(flat: FlatOutput, kind: GroupKind, shape: Sequence[int], hits: Tensor | None) -> Shared:
    """Return the shares of every group of one kind, in the order of its yardstick."""
    if kind.kind == "hits":
        assert hits is not None
        return _by_hits(flat, shape, hits)
    total = math.prod(shape)
    groups, inner = 1, total
    if kind.axis is not None:
        groups, inner = shape[kind.axis], math.prod(shape[kind.axis + 1 :])
    elif kind.kind == "rows":
        groups, inner = total // shape[-1], shape[-1]
    where = _sample(total // groups, groups, flat)
    base = (where // inner) * (groups * inner) + where % inner
    own = torch.arange(groups, device=base.device) * inner
    step = max(1, _AT_ONCE // max(len(base), 1))
    parts = [_count(flat, part[:, None] + base) for part in torch.split(own, step)]
    return _joined(parts)


def _sample(size: int, groups: int, flat: FlatOutput) -> Tensor:
    """Return sorted places within a group: one drawn from each of equally long stretches."""
    device = flat.value.device
    wished = max(_USUAL, math.ceil(2 * math.sqrt(size)))
    budget = _BUDGET.get(device.type, 1 << 16) // max(groups, 1)
    count = min(size, wished, max(_LEAST, budget))
    generator = torch.Generator().manual_seed(size)
    edges = torch.arange(count + 1, dtype=torch.float64) * (size / max(count, 1))
    width = edges[1:].floor() - edges[:-1].floor()
    drawn = torch.rand(count, generator=generator, dtype=torch.float64)
    return (edges[:-1].floor() + (drawn * width).floor()).long().to(device)


def _by_hits(flat: FlatOutput, shape: Sequence[int], hits: Tensor) -> Shared:
    width = math.prod(shape[1:])
    parts = []
    for column in hit_membership(hits).unbind(1):
        rows = column.nonzero().squeeze(1)
        if not len(rows) or not width:
            parts.append(_none(1, flat.value.device))
            continue
        where = _sample(len(rows) * width, 4, flat)
        parts.append(_count(flat, (rows[where // width] * width + where % width)[None]))
    return _joined(parts)


def _none(groups: int, device: torch.device) -> Shared:
    zero = torch.zeros(groups, dtype=torch.float64, device=device)
    return Shared(pairs=zero, gain=zero, weight=zero, size=zero)


def _joined(parts: Sequence[Shared]) -> Shared:
    return Shared(
        pairs=torch.cat([part.pairs for part in parts]),
        gain=torch.cat([part.gain for part in parts]),
        weight=torch.cat([part.weight for part in parts]),
        size=torch.cat([part.size for part in parts]),
    )


def _count(flat: FlatOutput, places: Tensor) -> Shared:
    """Count equal pairs among the elements at `places` (groups, sample)."""
    value, scale = flat.value[places], flat.scale[places].double()
    kept = torch.isfinite(value) & (scale > 0)
    value = torch.where(kept, value, torch.inf)
    if _all_differ(value, scale):
        return _none(len(value), value.device)
    value, order = value.sort(1)
    scale, kept = scale.gather(1, order), kept.gather(1, order)
    near = torch.minimum(scale[:, 1:], scale[:, :-1]) * _SAME
    same = (value[:, 1:] - value[:, :-1]) <= near  # inf - inf is NaN: not the same
    if not bool(same.any()):
        return _none(len(value), value.device)
    place = torch.arange(value.shape[1], device=value.device).expand(value.shape)
    first = torch.zeros_like(place)
    first[:, 1:] = torch.where(same, 0, place[:, 1:])
    before = (place - first.cummax(1).values).double()  # equal elements met earlier
    before = before * _noisy(flat, places.gather(1, order), value)
    count = kept.sum(1).double()
    pairs = (count * (count - 1)).clamp_min(1.0)
    size2 = torch.where(kept, scale, 0.0).square_()
    weight2 = torch.where(kept, value / torch.where(kept, scale, 1.0), 0.0).square_()

    def share(weight: Tensor, norm: Tensor) -> Tensor:
        mean = norm / count.clamp_min(1.0)
        return 2 * (before * weight).sum(1) / torch.where(mean > 0, mean, 1.0) / pairs

    size1, weight1 = size2.sum(1), weight2.sum(1)
    return Shared(
        pairs=2 * before.sum(1) / pairs,
        gain=share(weight2, weight1),
        weight=share(weight2.square(), weight1 * (weight1 / count.clamp_min(1.0))),
        size=share(size2.square(), size1 * (size1 / count.clamp_min(1.0))),
    )


def _all_differ(value: Tensor, scale: Tensor) -> bool:
    """Whether no two elements of a row are as close as the largest scale allows (CPU only).

    numpy sorts short rows some twenty times faster than torch does, and most groups hold no
    equal elements at all.
    """
    if value.device.type != "cpu" or value.shape[1] < 2:
        return False
    ordered = np.sort(value.numpy(), axis=1)
    with np.errstate(invalid="ignore"):  # infinity less infinity is NaN: not the same
        gaps = np.diff(ordered, axis=1)
    return not bool((gaps <= float(scale.amax()) * _SAME).any())


def _noisy(flat: FlatOutput, places: Tensor, value: Tensor) -> Tensor:
    """Return 0 at zeros without any noise (exact in every form), 1 elsewhere."""
    zero = value == 0
    if not bool(zero.any()):
        return torch.ones_like(value)
    for run in flat.runs:
        zero &= run[places] == 0
    return (~zero).double()
