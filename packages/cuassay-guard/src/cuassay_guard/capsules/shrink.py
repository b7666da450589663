"""Make the inputs of a failing call smaller while it still fails.

Nothing is known of the operator's axes, so dimensions of equal size count as one axis; a wrong
guess gives a call that the operator refuses, which is not adopted. Along each axis halves are
kept, then smaller parts, down to one slice; then whole tensors are replaced by ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_MAX_TRIES = 200
_ALONE = 8

Fails = Callable[[Sequence[Tensor]], bool]
Places = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkInputs:
    """The smallest failing inputs found, whether they differ from the given, and the tries."""

    inputs: list[Tensor]
    changed: bool
    tries: int


@dataclass(slots=True)
class _Search:
    fails: Fails
    best: list[Tensor]
    tries: int = 0
    changed: bool = False

    def accept(self, inputs: list[Tensor]) -> bool:
        if self.tries >= _MAX_TRIES:
            return False
        self.tries += 1
        if not self.fails(inputs):
            return False
        self.best, self.changed = inputs, True
        return True


def shrunk(inputs: Sequence[Tensor], fails: Fails) -> ShrunkInputs:
    """Return the smallest failing inputs found, greedily and deterministically."""
    search = _Search(fails, [tensor.clone() for tensor in inputs])
    before = -1
    # The axes, longest first: each the (tensor, dimension) pairs of one size.
    found: dict[int, Places] = {}
    for index, tensor in enumerate(search.best):
        for dim, size in enumerate(tensor.shape):
            found.setdefault(size, []).append((index, dim))
    axes = [found[size] for size in sorted(found, reverse=True)]
    while (
        before != (now := sum(tensor.numel() for tensor in search.best))
        and search.tries < _MAX_TRIES
    ):
        before = now
        for places in axes:
            _axis(search, places)
    for index, tensor in enumerate(search.best):
        if tensor.is_floating_point() and not bool((tensor == 1).all()):
            ones = [torch.ones_like(t) if i == index else t for i, t in enumerate(search.best)]
            search.accept(ones)
    return ShrunkInputs(inputs=search.best, changed=search.changed, tries=search.tries)


def _axis(search: _Search, places: Places) -> None:
    """Keep ever smaller parts of one axis."""
    index, dim = places[0]
    size, parts = search.best[index].shape[dim], 2
    while size > 1 and search.tries < _MAX_TRIES:
        for start, stop in _parts(size, parts):
            smaller = _sliced(search.best, places, start, stop)
            if smaller is not None and search.accept(smaller):
                size, parts = stop - start, 2
                break
        else:
            if parts >= size:
                return
            parts = min(2 * parts, size)


def _parts(size: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield each of up to 8 parts alone; then, of more than 2, all but the last or the first."""
    edges = [size * index // parts for index in range(parts + 1)]
    if parts <= _ALONE:
        yield from itertools.pairwise(edges)
    if parts > 2:
        yield 0, edges[-2]
        yield edges[1], size


def _sliced(inputs: Sequence[Tensor], places: Places, start: int, stop: int) -> list[Tensor] | None:
    """Return the inputs with one axis cut to [start, stop).

    None where an index tensor of another shape may point beyond what is left.
    """
    made = list(inputs)
    for index, dim in places:
        made[index] = made[index].narrow(dim, start, stop - start)
    made = [tensor.clone() for tensor in made]
    for before, after in zip(inputs, made, strict=True):
        index = not before.is_floating_point() and before.dtype is not torch.bool
        whole = index and before.shape == after.shape and before.numel() > 0
        if whole and (start or int(before.max()) >= stop - start):
            return None
    return made
