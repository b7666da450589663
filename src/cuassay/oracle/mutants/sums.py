"""Sums computed wrongly: terms left out, or the running sum kept in 16 bits.

A sum whose terms carry weights or indices (matrix products, scatters, gradients of
embeddings) is described once, as how to run it on a part of its terms; the faults follow.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Args: TypeAlias = Sequence[Any]
Kwargs: TypeAlias = Mapping[str, Any]
Wrong: TypeAlias = Callable[[Any, Args, Kwargs], Any]
Part: TypeAlias = Callable[[Args, int, int], Args]

_CHUNKS = 64  # a low-precision running sum is rounded this many times at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """A sum over terms: their number, how to keep some of them, what it starts from.

    `part(args, low, high)` are the arguments with terms [low, high) only; `start` is the
    position of the tensor that the terms are added to (None: they are added to zero).
    """

    count: Callable[[Args], int]
    part: Part
    start: int | None = None

    def dropped(self, op: Any, args: Args, kwargs: Kwargs) -> Any:
        """Return the sum without its last term."""
        return op(*self.part(args, 0, self.count(args) - 1), **kwargs)

    def first(self, count: Callable[[int], int]) -> Wrong:
        """Return the sum over the first `count(number of terms)` terms."""
        return lambda op, args, kwargs: op(*self.part(args, 0, count(self.count(args))), **kwargs)

    def low(self, dtype: torch.dtype) -> Wrong:
        """Return the sum with its running total rounded to `dtype`."""
        return functools.partial(self._low, dtype=dtype)

    def _low(self, op: Any, args: Args, kwargs: Kwargs, *, dtype: torch.dtype) -> Any:
        total: Any = None
        for low, high in _spans(self.count(args)):
            some = list(self.part(args, low, high))
            if self.start is None:
                total = op(*some, **kwargs) if total is None else total + op(*some, **kwargs)
            else:
                some[self.start] = args[self.start] if total is None else total
                total = op(*some, **kwargs)
            total = total.to(dtype).to(total.dtype)
        return total


def name_of(op: Any) -> str:
    """Return the operation's name without its namespace and overload."""
    return str(op._schema.name).removeprefix("aten::")


def accumulation(name: str, args: Args, kwargs: Kwargs) -> Accumulation | None:
    """Return how an operation sums weighted or indexed terms; None where it does not."""
    found = _ACCUMULATIONS.get(name)
    if found is None or (name == "index_put" and not _simple_index_put(args)):
        return None
    plain = not any(kwargs.get(scale, 1) != 1 for scale in ("alpha", "beta"))
    return found if plain and found.count(args) > 1 else None


def low_sum(op: Any, args: Args, kwargs: Kwargs, *, axis: int, dtype: torch.dtype) -> Any:
    """Return a plain sum or mean along `axis` with its running total in `dtype`."""
    x = args[0]
    total = torch.zeros((), dtype=x.dtype, device=x.device)
    for low, high in _spans(x.shape[axis]):
        weight = (high - low) / x.shape[axis] if name_of(op) == "mean" else 1.0
        part = op(x.narrow(axis, low, high - low), *args[1:], **kwargs)
        total = (total + part * weight).to(dtype).to(x.dtype)
    return total


def without_last(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Return `tensor` without its last slice along `dim`."""
    return tensor.narrow(dim, 0, tensor.shape[dim] - 1)


def _spans(count: int) -> list[tuple[int, int]]:
    parts = min(_CHUNKS, count)
    edges = [i * count // parts for i in range(parts + 1)]
    return list(itertools.pairwise(edges))


def _cut(tensor: torch.Tensor, dim: int, low: int, high: int) -> torch.Tensor:
    return tensor.narrow(dim, low, high - low)


def _product(left: int) -> Part:
    def part(args: Args, low: int, high: int) -> Args:
        a, b = _cut(args[left], -1, low, high), _cut(args[left + 1], -2, low, high)
        return [*args[:left], a, b, *args[left + 2 :]]

    return part


def _indexed(args: Args, low: int, high: int) -> Args:
    """index_add and scatter_add: (self, dim, index, source)."""
    dim, index = args[1], args[2]
    index = _cut(index, dim if index.dim() > 1 else 0, low, high)
    return [args[0], dim, index, _cut(args[3], dim, low, high)]


def _put(args: Args, low: int, high: int) -> Args:
    """index_put: (self, [index], values, accumulate)."""
    index = _cut(args[1][0], 0, low, high)
    return [args[0], [index], _cut(args[2], 0, low, high), True]


def _simple_index_put(args: Args) -> bool:
    """Whether values are added, and one leading index tensor addresses them row by row."""
    if len(args) < 4 or args[3] is not True or len(args[1]) != 1:
        return False
    index, values = args[1][0], args[2]
    return index.dtype is torch.int64 and values.shape[: index.dim()] == index.shape


def _embedding(args: Args, low: int, high: int) -> Args:
    """embedding_dense_backward: (gradient, indices, rows, padding, by frequency)."""
    rows = args[0].reshape(-1, args[0].shape[-1])
    return [_cut(rows, 0, low, high), _cut(args[1].reshape(-1), 0, low, high), *args[2:]]


_ACCUMULATIONS = {
    "mm": Accumulation(count=lambda a: a[0].shape[-1], part=_product(0)),
    "bmm": Accumulation(count=lambda a: a[0].shape[-1], part=_product(0)),
    "addmm": Accumulation(count=lambda a: a[1].shape[-1], part=_product(1), start=0),
    "baddbmm": Accumulation(count=lambda a: a[1].shape[-1], part=_product(1), start=0),
    "index_add": Accumulation(count=lambda a: a[3].shape[a[1]], part=_indexed, start=0),
    "scatter_add": Accumulation(count=lambda a: a[3].shape[a[1]], part=_indexed, start=0),
    "index_put": Accumulation(count=lambda a: a[1][0].shape[0], part=_put, start=0),
    "embedding_dense_backward": Accumulation(count=lambda a: a[1].numel(), part=_embedding),
}
