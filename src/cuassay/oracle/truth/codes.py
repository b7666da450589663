"""Codes of quantised outputs: how often trusted runs are one step off, and on which groups.

A rounding before the last one moves a number to the next code now and then, toward zero as often
as away from it. So codes that differ are counted by direction, over the whole tensor and every
slice: numbers that are cut off move one way, and one slice with another scale moves alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle import special
from cuassay.oracle.compare.groups import GroupKind, group_kinds, regroup
from cuassay.oracle.compare.sums import fold, matrix_shape
from cuassay.oracle.truth.types import CodeLimits

CODES = (*(dtype for dtype in DType if dtype.is_float8), DType.INT8, DType.UINT8)
FAR = 255  # steps between codes of which one is NaN or infinite and the other is not
_CHUNK = 1 << 22  # elements
_GAIN = 2.5  # of the codes that differ, as of other errors (`groups.LIMIT_G`)
_RARE = 4.5  # logarithm of how rarely chance alone exceeds a limit: one in 90, of each kind
_FEW = 2.0  # codes that may differ where no trusted run shows any


def code_steps(got: Tensor, want: Tensor) -> Tensor:
    """Return int16 steps from one 8-bit tensor to another of its shape, positive away from zero."""
    found = torch.empty(want.shape, dtype=torch.int16, device=want.device)
    flat, mine, theirs = found.view(-1), got.reshape(-1), want.reshape(-1)
    for start in range(0, want.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        one, other = mine[part], theirs[part]
        from_zero = special.ordered_codes(other)
        steps = special.ordered_codes(one) - from_zero
        steps = torch.where(from_zero < 0, -steps, torch.where(from_zero > 0, steps, steps.abs()))
        if want.dtype.is_floating_point:
            one, other = one.float(), other.float()
            steps[torch.isnan(one) & torch.isnan(other)] = 0
            steps[special.classes(one) != special.classes(other)] = FAR
        flat[part] = steps
    return found


def count_steps(steps: Tensor, kinds: Sequence[GroupKind]) -> Tensor:
    """Return float64 (3, groups): codes that differ, those farther from zero, those nearer to it.

    Groups of all `kinds` stand side by side.
    """
    shape = matrix_shape(steps.shape, False)
    matrix = steps.view(shape)

    def measure(rows: slice, columns: slice) -> list[Tensor]:
        part = matrix[rows, columns]
        return [torch.stack([part != 0, part > 0, part < 0]).double()]

    rows, columns = fold(shape, measure, 3, device=steps.device)
    return torch.cat(
        [regroup(rows, columns, kind, shape=steps.shape, hits=None) for kind in kinds], 1
    )


@dataclass(slots=True, kw_only=True)
class CodeCounts:
    """What trusted runs make of a quantised output, whose truth is `want` (8 bits)."""

    want: Tensor
    names: Sequence[str]
    most: Tensor | None = None
    reach: Tensor | None = None  # int16, the most steps that a run is off
    kinds: Sequence[GroupKind] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = group_kinds(self.want.shape, self.names, None)

    def take(self, got: Tensor) -> None:
        """Take one trusted run's codes."""
        steps = code_steps(got, self.want)
        counts = count_steps(steps, self.kinds)
        self.most = counts if self.most is None else torch.maximum(self.most, counts)
        steps = steps.abs_()
        self.reach = steps if self.reach is None else torch.maximum(self.reach, steps)

    def limits(self, *, rounds: bool) -> CodeLimits:
        """Return how many codes of each group may differ; none where the reference never `rounds`.

        At most 2.5 times as many as in the worst trusted run, which a slice shares with the tensor
        where it shows fewer itself. What chance adds to such a count has a Poisson distribution;
        Bernstein's bound of it allows for the number of groups of a kind.
        """
        assert self.most is not None
        total, most = self.want.numel(), self.most.cpu()
        sizes: list[int] = []
        parts: list[Tensor] = []
        for kind in self.kinds:
            count, first = kind.count(self.want.shape), sum(sizes)
            own = torch.maximum(most[:, first : first + count], most[:, :1] / count) * _GAIN
            rare = _RARE + math.log(count)
            chance = (2.0 * rare * own).sqrt() + 2.0 / 3.0 * math.log(count)
            parts.append(own + chance + _FEW)
            sizes.append(count)
        allowed = torch.cat(parts, 1)
        return CodeLimits(
            kinds=tuple(self.kinds),
            sizes=tuple(sizes),
            allowed=allowed if rounds else torch.zeros_like(allowed),
            reach=self.reach if rounds and bool(most[0, 0] > 0) else None,
            share=float(most[0, 0]) / total,
        )
