"""Sums over ranks as collectives make them, whose tensors travel in 16 bits.

NCCL's rings, torch's operators on symmetric memory and kernels after both add one rank's part to
the sum of those before it, and store each of these sums in the type of the parts. At two ranks
that is the one rounding of the result; at more it is not, and where parts cancel it shows.

A reference of all ranks has their tensors along a first axis. It is taken for that of ranks where
it has as many places as there are ranks: another axis of this size has few terms, too.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from cuassay.hooks import Operation
from cuassay.oracle.truth.associations import Makes
from cuassay.oracle.truth.random_errors import Grid, nearest

_FEW_RANKS = 4


def adds_ranks(asked: Operation, ranks: int) -> bool:
    """Whether an operation sums a tensor over its first axis, which has a place for each rank."""
    if asked.name != "sum":
        return False
    named = asked.named
    x, axes = named["self"], named.get("dim")
    if not isinstance(x, Tensor) or axes is None or not x.dim() or x.shape[0] != ranks:
        return False
    return [axis % x.dim() for axis in ([axes] if isinstance(axes, int) else axes)] == [0]


def sum_of_ranks(asked: Operation, stored: Callable[[Tensor], Tensor], grid: Grid) -> Tensor:
    """Return the sum with the errors of parts' sums; `stored` is what one of some parts becomes.

    Which rank comes first is the collective's choice, in a ring another one for each chunk. So of
    each number of parts the largest sum is stored that `grid` does not hold.
    """
    x = asked.named["self"]
    ranks = x.shape[0]
    total: Tensor = asked.run()
    for count in range(2, ranks):
        largest = torch.zeros_like(x[0])
        if ranks <= _FEW_RANKS:
            chosen = list(itertools.combinations(range(ranks), count))
        else:  # neighbors of a ring
            chosen = [tuple((first + n) % ranks for n in range(count)) for first in range(ranks)]
        for some in chosen:
            part = x[some[0]]
            for rank in some[1:]:
                part = part + x[rank]
            errs = (nearest(part, grid) != part) & (part.abs() > largest.abs())
            largest = torch.where(errs, part, largest)
        total = total + (stored(largest) - largest).view_as(total)
    return total


def rings(asked: Operation, stored: Callable[[Tensor], Tensor]) -> Makes:
    """Return what makes the sum in a ring's order, from each rank on."""
    x: Tensor = asked.named["self"]
    ranks, shape = x.shape[0], x[:1].shape if asked.named.get("keepdim") else x[0].shape

    def make(first: int) -> Tensor:
        total = x[first]
        for place in range(1, ranks - 1):
            total = stored(total + x[(first + place) % ranks])
        return (total + x[(first - 1) % ranks]).reshape(shape)

    return [functools.partial(make, first) for first in range(ranks)]
