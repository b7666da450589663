"""Groups of elements, the statistics judged on each, and their limits (docs/oracle.md).

Groups are the whole tensor, every slice along every axis, every vector along the last axis
(outputs of three axes and more), and rows by hit count. Groups of fewer than 16 elements, or
dominated by a few (participation ratio below 8), give random ratios and are not judged; the
worst-element rule has no such minimum. Elements with equal truths share one rounding error and
count once (`truth/shared.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LIMIT_W = 6.0
LIMIT_G = 2.5
LIMIT_Z = 2.5
LIMIT_P = 5.0
W_ELEMENTS = 1_000_000  # up to so many, LIMIT_W holds as it is
MIN_TERMS = 16
MIN_PARTICIPATION = 8.0
HIT_GROUPS = ((1, 1), (2, 15), (16, 255), (256, math.inf))
HIT_LABELS = (
    "rows with 1 hit",
    "rows with 2-15 hits",
    "rows with 16-255 hits",
    "rows with >= 256 hits",
)
_MAX_ROWS = 1 << 22  # more vectors than this along the last axis are judged by axis slices only


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One measured statistic: W, G, Z, P, class or exact, its limit, and the group in words."""

    name: str
    value: float
    limit: float
    group: str

    @property
    def share(self) -> float:
        """Measured over allowed; infinite where nothing is allowed and something was seen."""
        if self.limit > 0:
            return self.value / self.limit
        return math.inf if self.value > 0 else 0.0


def limit_w(elements: int) -> float:
    """Return the limit of the worst of so many elements.

    The largest of n normal deviates grows as sqrt(2 ln 2n): 4.5 for 10^4, 5.4 for 10^6, 6.5 for
    10^9. The limit keeps the distance from it that it has at a million elements.
    """
    if elements <= W_ELEMENTS:
        return LIMIT_W
    return LIMIT_W * math.sqrt(math.log(2 * elements) / math.log(2 * W_ELEMENTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind:
    """One way to group an output's elements.

    `kind` is tensor, axis, rows or hits; `labels` names the groups where there are few.
    """

    kind: str
    axis: int | None = None
    labels: tuple[str, ...] = ()

    def count(self, shape: Sequence[int]) -> int:
        """Return how many groups an output of this shape has."""
        match self.kind:
            case "axis":
                assert self.axis is not None
                return shape[self.axis]
            case "rows":
                return math.prod(shape[:-1])
            case "hits":
                return len(HIT_GROUPS)
            case _:
                return 1


def group_kinds(shape: Sequence[int], names: Sequence[str], hits: Tensor | None) -> list[GroupKind]:
    """Return the kinds of groups that an output of this shape is judged by, by hits last."""
    total = math.prod(shape)
    kinds = [GroupKind(kind="tensor", labels=("whole tensor",))]
    if len(shape) >= 2:
        for axis, size in enumerate(shape):
            if size > 1 and total // size >= MIN_TERMS:
                name = names[axis] if axis < len(names) else str(axis)
                kinds.append(GroupKind(kind="axis", axis=axis, labels=(name,)))
        rows = total // shape[-1] if shape[-1] else 0
        if len(shape) >= 3 and shape[-1] >= MIN_TERMS and rows <= _MAX_ROWS:
            kinds.append(GroupKind(kind="rows"))
    if hits is not None and len(shape) >= 1:
        kinds.append(GroupKind(kind="hits", axis=0, labels=HIT_LABELS))
    return kinds


def hit_membership(hits: Tensor) -> Tensor:
    """Return float64 (rows, 4): which hit group each row of axis 0 belongs to."""
    return torch.stack([(hits >= low) & (hits <= high) for low, high in HIT_GROUPS], 1).double()


def regroup(
    rows: Tensor, columns: Tensor, kind: GroupKind, *, shape: Sequence[int], hits: Tensor | None
) -> Tensor:
    """Return (K, groups) from row sums (K, R) and column sums (K, C) of the matrix view."""
    count = rows.shape[0]
    if kind.kind == "tensor":
        return rows.sum(1, keepdim=True)
    if kind.kind == "rows":
        return rows
    if kind.kind == "hits":
        assert hits is not None
        return rows.view(count, shape[0], -1).sum(2) @ hit_membership(hits)
    assert kind.axis is not None
    if kind.axis == len(shape) - 1:
        return columns
    others = [d + 1 for d in range(len(shape) - 1) if d != kind.axis]
    leading = rows.view(count, *shape[:-1])
    return leading.sum(others) if others else leading


def group_name(kind: GroupKind, index: int, shape: Sequence[int]) -> str:
    """Return a group in words: `axis hidden, slice 17`."""
    if kind.kind == "axis":
        return f"axis {kind.labels[0]}, slice {index}"
    if kind.kind == "rows":
        return f"last axis at [{', '.join(map(str, unravel(index, shape[:-1])))}]"
    return kind.labels[index]


def unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of the row-major place `flat` in a tensor of `shape`.

    `torch.unravel_index` would import sympy: 1.5 s before the first verdict.
    """
    index: list[int] = []
    for size in reversed(shape):
        flat, here = divmod(flat, size)
        index.append(here)
    return tuple(reversed(index))
