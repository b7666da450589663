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

import functools
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
_TOGETHER = 1 << 20  # elements of parts that are held at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatOutput:
    """One output as flat vectors: truth (float64), scale, and the runs' errors."""

    value: Tensor
    scale: Tensor
    runs: Sequence[Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Shares of pairs that are one error, by group (float64): of all pairs, and weighted.

    With w = truth / scale: `gain` weighs pairs by w^2 (variance of the gain), `weight` by w^4
    and `size` by scale^4, which add to the reciprocal participation ratios.
    """

    pairs: Tensor
    gain: Tensor
    weight: Tensor
    size: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sorted:
    """Sampled elements, each group's by value, and which equal the one before (groups, sample - 1).

    `kept` are those that count, `places` where they lie. `same` has no columns where all differ.
    """

    value: Tensor
    scale: Tensor
    kept: Tensor
    places: Tensor
    same: Tensor

    @property
    def none(self) -> Tensor:
        """What `Shared` holds where no elements are equal."""
        return torch.zeros(4, len(self.value), dtype=torch.float64, device=self.value.device)


def shared(
    flat: FlatOutput, kinds: Sequence[GroupKind], shape: Sequence[int], hits: Tensor | None
) -> Shared:
    """Return the shares of every group of some kinds, side by side."""
    parts = [part for kind in kinds for part in _places(flat, kind, shape, hits)]
    found: list[Tensor] = []
    while parts:
        # One answer of the GPU for so many parts: where others use it, each is a wait.
        size, together = 0, list[_Sorted]()
        while parts and (not together or size + parts[0].numel() <= _TOGETHER):
            size += parts[0].numel()
            together.append(_sorted(flat, parts.pop(0)))
        equal = torch.stack([one.same.any() for one in together]).tolist()
        found += [
            _count(flat, one) if any_ else one.none
            for one, any_ in zip(together, equal, strict=True)
        ]
    return Shared(*torch.cat(found, 1))


def _places(
    flat: FlatOutput, kind: GroupKind, shape: Sequence[int], hits: Tensor | None
) -> list[Tensor]:
    """Return flat places of samples (groups, sample) of the groups of one kind, in parts."""
    total = math.prod(shape)
    if kind.kind == "hits":
        assert hits is not None
        width, parts = total // max(shape[0], 1), []
        for column in hit_membership(hits).unbind(1):
            rows = column.nonzero().squeeze(1)
            where = _sample(len(rows) * width, 4, flat)
            parts.append((rows[where // max(width, 1)] * width + where % max(width, 1))[None])
        return parts
    groups, inner = kind.count(shape), total
    if kind.axis is not None:
        inner = math.prod(shape[kind.axis + 1 :])
    elif kind.kind == "rows":
        inner = shape[-1]
    where = _sample(total // groups, groups, flat)
    base = (where // inner) * (groups * inner) + where % inner
    own = torch.arange(groups, device=base.device) * inner
    step = max(1, _AT_ONCE // max(len(base), 1))
    return [part[:, None] + base for part in torch.split(own, step)]


def _sample(size: int, groups: int, flat: FlatOutput) -> Tensor:
    """Return sorted places within a group: one drawn from each of equally long stretches."""
    device = flat.value.device
    wished = max(_USUAL, math.ceil(2 * math.sqrt(size)))
    budget = _BUDGET.get(device.type, 1 << 16) // max(groups, 1)
    return _drawn(size, min(size, wished, max(_LEAST, budget)), device)


@functools.lru_cache(maxsize=64)
def _drawn(size: int, count: int, device: torch.device) -> Tensor:
    """Return places of a stratified sample, sorted.

    Kept, since a copy to a GPU waits until all that it was given before is done.
    """
    generator = torch.Generator().manual_seed(size)
    edges = torch.arange(count + 1, dtype=torch.float64) * (size / max(count, 1))
    width = edges[1:].floor() - edges[:-1].floor()
    drawn = torch.rand(count, generator=generator, dtype=torch.float64)
    return (edges[:-1].floor() + (drawn * width).floor()).long().to(device)


def _sorted(flat: FlatOutput, places: Tensor) -> _Sorted:
    """Return the elements at `places` (groups, sample), each group's sorted by value."""
    value, scale = flat.value[places], flat.scale[places].double()
    kept = torch.isfinite(value) & (scale > 0)
    value = torch.where(kept, value, torch.inf)
    # `all_differ` says whether no two elements of a row are as close as the largest scale allows
    # (CPU only). numpy sorts short rows some twenty times faster than torch does, and most groups
    # hold no equal elements at all.
    if value.device.type != "cpu" or value.shape[1] < 2:
        all_differ = value.shape[1] < 2
    else:
        ordered = np.sort(value.numpy(), axis=1)
        with np.errstate(invalid="ignore"):  # infinity less infinity is NaN: not the same
            gaps = np.diff(ordered, axis=1)
        all_differ = not bool((gaps <= float(scale.amax()) * _SAME).any())
    if all_differ:
        same = torch.zeros(len(value), 0, dtype=torch.bool, device=value.device)
        return _Sorted(value=value, scale=scale, kept=kept, places=places, same=same)
    value, order = value.sort(1)
    scale, kept, places = (t.gather(1, order) for t in (scale, kept, places))
    near = torch.minimum(scale[:, 1:], scale[:, :-1]) * _SAME
    same = (value[:, 1:] - value[:, :-1]) <= near  # inf - inf is NaN: not the same
    return _Sorted(value=value, scale=scale, kept=kept, places=places, same=same)


def _count(flat: FlatOutput, found: _Sorted) -> Tensor:
    """Return what `Shared` holds (4, groups), of groups in which some elements are equal."""
    value, scale, kept, same = found.value, found.scale, found.kept, found.same
    place = torch.arange(value.shape[1], device=value.device).expand(value.shape)
    first = torch.zeros_like(place)
    first[:, 1:] = torch.where(same, 0, place[:, 1:])
    before = (place - first.cummax(1).values).double()  # equal elements met earlier
    exact = value == 0
    if bool(exact.any()):
        for run in flat.runs:
            exact &= run[found.places] == 0
        before = before * (~exact).double()
    count = kept.sum(1).double()
    pairs = (count * (count - 1)).clamp_min(1.0)

    def share(weight: Tensor, norm: Tensor) -> Tensor:
        mean = norm / count.clamp_min(1.0)
        return 2 * (before * weight).sum(1) / torch.where(mean > 0, mean, 1.0) / pairs

    size2 = torch.where(kept, scale, 0.0).square_()
    weight2 = torch.where(kept, value / torch.where(kept, scale, 1.0), 0.0).square_()
    size1, weight1 = size2.sum(1), weight2.sum(1)
    return torch.stack(
        [
            2 * before.sum(1) / pairs,
            share(weight2, weight1),
            share(weight2.square(), weight1 * (weight1 / count.clamp_min(1.0))),
            share(size2.square(), size1 * (size1 / count.clamp_min(1.0))),
        ]
    )
