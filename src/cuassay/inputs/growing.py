"""Sizes that grow from small ones to the largest that a problem declares or lists.

A way grows one axis, or all of them together, from its small size to its largest one; the sizes
of a listed workload are a way of one step. How far to go along a way is for whoever pays for it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from cuassay.errors import ProblemError
from cuassay.inputs.geometry import elements, least, legal, step_to, try_sizes, workload_sizes
from cuassay.model.problem import Problem, VarAxis

_OTHERS = 16  # rows that the axes beside the growing one have together
_STEPS = 24  # of a bisection: finer than any size
_TILE = 16  # rows or columns, a multiple of what vectors and small tiles take
_NEAR = 0.02  # of a size, within which a secret size below it lies: no table of sizes names it


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Axes that grow together from `low` to `top`.

    `workload` names the call that `top` lists. Where it is not `is_exact`, its largest sizes are
    slightly less than `top`: an id that wraps in 16 bits is right in a table of 65,536 rows. In
    secret sizes usual tiles leave a rest, or, with `whole_tiles`, none.
    """

    problem: Problem
    low: Mapping[str, int]
    top: Mapping[str, int]
    workload: str = ""
    is_exact: bool = True
    whole_tiles: bool = False

    @property
    def elements(self) -> int:
        """The elements of inputs and outputs at the largest sizes."""
        return elements(self.problem, self.top)

    def within(self, most: int, *, seed: int) -> dict[str, int] | None:
        """Return the largest sizes of at most `most` elements, slightly less by a secret share.

        Secret sizes are odd where an axis takes odd ones: tiles of 2, 4, 8 or more rows leave a
        rest then, under every seed. Those of whole tiles are multiples of 16. The largest sizes of
        all are returned as they are; None where even the smallest are larger, or where the problem
        does not allow them.
        """
        if self.elements <= most:
            return dict(self.top) if self.is_exact else self._at(1.0, below=random.Random(seed))
        low, high = 0.0, 1.0
        if self.workload or elements(self.problem, self._at(0.0) or self.top) > most:
            return None
        for _ in range(_STEPS):
            middle = (low + high) / 2
            sizes = self._at(middle)
            if sizes is not None and elements(self.problem, sizes) <= most:
                low = middle
            else:
                high = middle
        return self._at(low, below=random.Random(seed))

    def _at(self, share: float, *, below: random.Random | None = None) -> dict[str, int] | None:
        changes = {}
        for axis in self.problem.var_axes():
            low, top = self.low[axis.name], self.top[axis.name]
            if low >= top:
                changes[axis.name] = low
                continue
            size = low * (top / low) ** share
            if below is not None:
                size -= size * _NEAR * below.random()
            reached = max(step_to(axis, int(size)), low)
            if below is not None and reached > low:
                wanted = reached // _TILE * _TILE if self.whole_tiles else reached - 1 + reached % 2
                if step_to(axis, wanted) == wanted:
                    reached = max(wanted, low)
            changes[axis.name] = reached
        sizes = try_sizes(self.problem, self.low, changes)
        return sizes if sizes is not None and legal(self.problem, sizes) else None


def ways(
    problem: Problem, small: Mapping[str, int], *, fixed: Collection[str] = ()
) -> tuple[Way, ...]:
    """Return the ways from small sizes: each axis alone, all together, and the listed workloads.

    Each axis alone comes twice where workloads list less than is declared: up to there first.
    `small` has the sizes of a call that the reference accepts; axes that are `fixed` keep them.
    An axis ends at its declared maximum, or else at the largest size that a workload lists.
    """
    free = [axis for axis in problem.var_axes() if axis.name not in fixed and not axis.derived]
    tops = {axis.name: max(largest(problem, axis), small[axis.name]) for axis in free}
    floor = max(2, int(_OTHERS ** (1 / max(len(free) - 1, 1))))
    others = {
        axis.name: max(small[axis.name], min(least(axis, floor), tops[axis.name])) for axis in free
    }
    found: list[Way] = []
    alone = [({a.name: small[a.name]}, {a.name: tops[a.name]}, True) for a in free]
    used = [
        ({axis.name: small[axis.name]}, {axis.name: listed}, False)
        for axis in free
        if small[axis.name] < (listed := largest_listed(problem, axis)) < tops[axis.name]
    ]
    together = [({a.name: small[a.name] for a in free}, tops, True)] if len(free) > 1 else []
    for begin, end, is_exact in (*used, *alone, *together):
        low = try_sizes(problem, small, {**others, **begin})
        top = try_sizes(problem, small, {**others, **end})
        if low is None or top is None or low == top:
            continue
        if legal(problem, low) and legal(problem, top):
            whole = len(begin) > 1
            found.append(
                Way(problem=problem, low=low, top=top, is_exact=is_exact, whole_tiles=whole)
            )
    return (*found, *_listed(problem))


def _listed(problem: Problem) -> Iterator[Way]:
    for workload in problem.workloads:
        try:
            sizes = workload_sizes(problem, workload)
        except ProblemError:
            continue
        if prod(sizes.values()) and legal(problem, sizes):
            yield Way(problem=problem, low=sizes, top=sizes, workload=workload.id)


def largest(problem: Problem, axis: VarAxis) -> int:
    """Return the largest size of an axis that a caller may use: declared, or else listed."""
    listed = largest_listed(problem, axis)
    if axis.declared and axis.maximum is not None:
        return max(step_to(axis, axis.maximum), listed)
    return listed


def largest_listed(problem: Problem, axis: VarAxis) -> int:
    """Return the largest size of an axis that a workload lists, 1 where none lists it."""
    return max((one.axes.get(axis.name, 1) for one in problem.workloads), default=1)
