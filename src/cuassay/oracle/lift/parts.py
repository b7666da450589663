"""Matrix products with a large input, part by part: never all of it is lifted at one time.

The weights of all experts are one factor of a batched product, the words of a vocabulary one of a
plain product. In float64 they would be four times what the caller holds; each part of the
result needs a part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuassay.oracle.lift import inputs

_ATEN = torch.ops.aten


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Along which axis each argument, by position, and the result fall into parts."""

    arguments: Mapping[int, int]
    result: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """How one product falls into parts: the axis has `length` elements, a part `step` of them.

    `saved` elements of the large factor are not lifted at the time that a part is.
    """

    split: Split
    length: int
    step: int
    saved: int


# Axes count from the last one: what is broadcast has fewer in front.
_ROWS, _COLUMNS = Split(arguments={0: -2}, result=-2), Split(arguments={1: -1}, result=-1)
_BATCH = Split(arguments={0: -3, 1: -3}, result=-3)
# operation -> position of the large factor -> how it splits
_SPLITS: Mapping[Any, Mapping[int, Split]] = {
    _ATEN.mm.default: {0: _ROWS, 1: _COLUMNS},
    _ATEN.bmm.default: {0: _BATCH, 1: _BATCH},
    _ATEN.addmm.default: {2: Split(arguments={0: -1, 2: -1}, result=-1)},
    _ATEN.baddbmm.default: dict.fromkeys((1, 2), Split(arguments={0: -3, 1: -3, 2: -3}, result=-3)),
}


def parts_of(op: Any, args: Sequence[Any], is_large: Callable[[Any], bool]) -> Parts | None:
    """Return the parts of a product with a factor that `is_large` and has more than a part takes.

    None where it is no such product, or the axis is too short.
    """
    most = inputs.BORROWED_ELEMENTS
    for place, split in _SPLITS.get(op, {}).items():
        factor = args[place]
        if is_large(factor) and factor.numel() > most:
            length = factor.shape[split.arguments[place]]
            step = max(1, length * most // factor.numel())
            if step < length:
                return Parts(split=split, length=length, step=step, saved=factor.numel() - most)
    return None


def piece(value: Tensor, axis: int, start: int, step: int, *, length: int) -> Tensor:
    """Return the part of an argument; all of one that is broadcast along the axis."""
    if value.dim() < -axis or value.shape[axis] != length:
        return value
    return value.narrow(axis, start, min(step, length - start))
