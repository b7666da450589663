"""Which accesses of two threads of a block can lie between the same two barriers.

Where every branch that decides about a barrier goes the same way in all threads of a block, all
of them meet the same barriers in the same iterations of the loops around these. Then two accesses
lie between the same barriers only if the last barrier before both is one, and an iteration's
number at an access follows from that at this barrier: the same, the next one, or the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from ptxsan import isa
from ptxsan.isa import Ends, Orders
from ptxsan.program import Program
from ptxsan.prove.graph import Graph, behind, graph_of
from ptxsan.syntax import Immediate, Instruction

_EXIT = -1
START = -1  # the place of the launch's beginning, as if it were a barrier


class Iteration(Enum):
    """The number of a loop's iteration at an access, by that at the last barrier before it."""

    SAME = auto()  # also: the loop was left before the barrier, in all threads alike
    NEXT = auto()
    FIRST = auto()
    ANY = auto()  # an iteration may pass without a barrier


Standing: TypeAlias = tuple[Iteration, ...]  # one a loop of `Intervals.loops`


def full_barrier(one: Instruction) -> bool:
    """Whether an instruction is a barrier of all threads of the block, such as `bar.sync 0`."""
    alone = len(one.operands) == 1 and isinstance(one.operands[0], Immediate)
    return is_barrier(one) and "sync" in one.parts and alone and one.predicate is None


def is_barrier(one: Instruction) -> bool:
    """Whether an instruction waits for, or arrives at, a barrier of the block."""
    return isa.row(one).orders is Orders.BLOCK


@dataclass(slots=True)
class Intervals:
    """The barriers of a program. `loops` are the headers of the loops that have some inside."""

    program: Program
    graph: Graph = field(init=False)
    barriers: frozenset[int] = field(init=False)
    loops: tuple[int, ...] = field(init=False)
    _since: dict[int, dict[int, set[Standing]]] = field(default_factory=dict)
    _block_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph = graph_of(self.program)
        for number in self.graph.order:
            block = self.program.blocks[number]
            for site in range(block.start, block.end):
                self._block_of[site] = number
        self.barriers = frozenset(
            site for site in self._block_of if is_barrier(self.program.body[site])
        )
        with_barrier = {self._block_of[site] for site in self.barriers}
        self.loops = tuple(
            header for header, inside in self.graph.loops.items() if inside & with_barrier
        )

    def irregular(self) -> Instruction | None:
        """Return a barrier of some threads only, or one that is not known to be of all."""
        for site in sorted(self.barriers):
            if not full_barrier(self.program.body[site]):
                return self.program.body[site]
        return None

    def deciding(self) -> frozenset[int]:
        """Return the sites of branches that decide whether, or how often, a barrier is met."""
        # The nearest block that every way from a block to the end passes; _EXIT: none
        successors = self._successors()
        every = frozenset((*self.graph.order, _EXIT))
        behind = dict.fromkeys(self.graph.order, every)
        behind[_EXIT] = frozenset((_EXIT,))
        changed = True
        while changed:
            changed = False
            for number in reversed(self.graph.order):
                shared = every
                for one in successors[number]:
                    shared &= behind[one]
                new = shared | {number}
                if new != behind[number]:
                    behind[number], changed = new, True
        ending = {_EXIT}
        while (
            fresh := {one for one in self.graph.order if not ending.isdisjoint(successors[one])}
            - ending
        ):
            ending |= fresh
        after = {}
        for number in self.graph.order:
            strict = behind[number] - {number}
            # The nearest one is followed by all the others; what never ends is followed by nothing.
            followed = (one for one in strict if behind[one] >= strict)
            after[number] = next(followed, _EXIT) if number in ending else _EXIT
        with_barrier = {self._block_of[site] for site in self.barriers}
        found = set()
        for number in self.graph.order:
            following = self._successors()[number]
            if len(following) < 2:
                continue
            until = after[number]
            if self._reached(following, until) & with_barrier:
                found.add(self.program.blocks[number].end - 1)
        return frozenset(found)

    def behind(self, site: int) -> set[int]:
        """Return the sites that a thread may come to after another one."""
        return behind(self.program, self._block_of[site], site)

    def _successors(self) -> dict[int, tuple[int, ...]]:
        found = {}
        for number in self.graph.order:
            block = self.program.blocks[number]
            following = tuple(dict.fromkeys(block.successors))
            ends = isa.row(self.program.body[block.end - 1]).ends
            if ends in (Ends.RETURN, Ends.EXIT) or not following:
                following = (*following, _EXIT)
            found[number] = following
        return found

    def _reached(self, starts: tuple[int, ...], until: int) -> set[int]:
        """Return the blocks that are reached from some before another is."""
        successors = self._successors()
        found: set[int] = set()
        waiting = [one for one in starts if one not in (until, _EXIT)]
        while waiting:
            block = waiting.pop()
            if block not in found:
                found.add(block)
                waiting += [one for one in successors[block] if one not in (until, _EXIT)]
        return found

    def together(self, first: int, second: int) -> set[tuple[Standing, Standing]]:
        """Return how two sites can lie between the same barriers; empty: they never do."""
        found = set()
        for barrier in (START, *self.barriers):
            reached = self._from(barrier)
            for left in reached.get(first, ()):
                found |= {(left, right) for right in reached.get(second, ())}
        return found

    def _from(self, barrier: int) -> dict[int, set[Standing]]:
        """Return the sites that are reached from a barrier without another, and how."""
        if barrier in self._since:
            return self._since[barrier]
        found: dict[int, set[Standing]] = {}
        same = tuple(Iteration.SAME for _ in self.loops)
        if barrier == START:
            first = self.graph.order[0]
            waiting = [(first, self._entered(START, first, same))]
            seen = set(waiting)
        else:
            waiting, seen = [], set()
            for edge in self._through(barrier + 1, self._block_of[barrier], same, found):
                if edge not in seen:
                    seen.add(edge)
                    waiting.append(edge)
        while waiting:
            number, standing = waiting.pop()
            start = self.program.blocks[number].start
            for edge in self._through(start, number, standing, found):
                if edge not in seen:
                    seen.add(edge)
                    waiting.append(edge)
        self._since[barrier] = found
        return found

    def _through(
        self, start: int, number: int, standing: Standing, found: dict[int, set[Standing]]
    ) -> Iterator[tuple[int, Standing]]:
        """Pass a block from a site on; yield (block, standing) where it is left."""
        block = self.program.blocks[number]
        for site in range(start, block.end):
            if site in self.barriers:
                return
            found.setdefault(site, set()).add(standing)
        for following in block.successors:
            yield following, self._entered(number, following, standing)

    def _entered(self, source: int, target: int, standing: Standing) -> Standing:
        """Return the standing behind an edge of the graph."""
        if target not in self.loops:
            return standing
        place = self.loops.index(target)
        if source not in self.graph.loops[target]:
            new = Iteration.FIRST
        else:
            new = Iteration.NEXT if standing[place] is Iteration.SAME else Iteration.ANY
        return (*standing[:place], new, *standing[place + 1 :])
