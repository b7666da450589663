"""Races and barriers of a launch for all sizes: two symbolic threads of a block, or of two blocks.

No two accesses of different threads to one byte are without order, unless both read or both are
atomic; and all threads of a block meet the same barriers. Only barriers of the whole block order
anything here: what rests on warps, fences or flags is not proved. Memory must have been proved
safe: then accesses to different allocations never meet.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ptxsan import isa
from ptxsan.isa import Memory, Orders
from ptxsan.prove.accesses import Access
from ptxsan.prove.execute import Execution
from ptxsan.prove.intervals import Intervals, Iteration, Standing
from ptxsan.prove.machine import Allocation
from ptxsan.prove.renaming import Renaming
from ptxsan.prove.solver import Countered, Discharge, Open, Shown, Solver
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    Atom,
    Eq,
    Formula,
    Le,
    Monomial,
    Ne,
    Poly,
    conjunction,
    contains,
    decided,
    disjunction,
    divided_exactly,
    negated,
    of,
)

_SCOPED = ("cta", "cluster")
_MOST_SHIFTS = 4
_DEPTH = 5
Values: TypeAlias = Mapping[Atom, int]
_Part: TypeAlias = tuple[Poly, Poly, int, int]  # two offsets, and the lengths of what lies there


@dataclass(frozen=True, slots=True, kw_only=True)
class Unordered:
    """Two accesses that were not shown to be in order or apart; `values` are z3's, if any."""

    first: Access
    second: Access
    same_block: bool
    reason: str
    values: Values | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """A barrier that was not shown to be met by all threads of a block."""

    line: int
    reason: str
    values: Values | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was found: `pairs` were shown. Failures are all that were looked at, at most a few.

    `alike` are the unknowns of loops with barriers that are the same in all threads of a block
    in an iteration; None where not all threads were shown to meet the same barriers.
    """

    pairs: int
    barriers: int
    discharged: Mapping[str, int]
    failures: tuple[Unordered | Parted, ...]
    alike: frozenset[Atom] | None = None


def ordered(execution: Execution, solver: Solver, *, most: int = 2) -> Order:
    """Return whether all accesses of an execution whose memory is safe are in order."""
    return _Races(execution, solver, most).result()


@dataclass(slots=True)
class _Races:
    execution: Execution
    solver: Solver
    most: int
    _intervals: Intervals = field(init=False)
    _uniform: frozenset[Atom] = field(init=False)
    _blocks: frozenset[Atom] = field(init=False)  # symbols that say which block it is
    _loads: dict[Atom, tuple[Allocation, Poly]] = field(init=False)
    _alike: frozenset[Atom] = frozenset()  # counters and registers of loops, the same in a block
    _barriers: bool = False  # whether all threads meet the same ones
    _parts: dict[object, list[_Part]] = field(default_factory=dict)
    _renamings: dict[object, Renaming] = field(default_factory=dict)
    _discharged: Counter[str] = field(default_factory=Counter)
    _failures: list[Unordered | Parted] = field(default_factory=list)
    _pairs: int = 0

    def __post_init__(self) -> None:
        thread = self.execution.thread
        self._intervals = Intervals(self.execution.program)
        places = [thread.special[f"%ctaid.{letter}"] for letter in "xyz"]
        self._blocks = frozenset(atom for place in places for atom in place.atoms)
        self._uniform = thread.common() - self._blocks
        written = {one.allocation for one in self.execution.accesses if one.what != "read"}
        self._loads = {
            atom: place for atom, place in self.execution.loads.items() if place[0] not in written
        }

    def result(self) -> Order:
        gap = self._not_followed()
        if gap is not None:
            if self._intervals.irregular() is None:
                self._check_barriers()
            alike = self._alike if self._barriers else None
            return Order(pairs=0, barriers=0, discharged={}, failures=(gap,), alike=alike)
        self._check_barriers()
        if not self._failures:
            self._check_pairs()
        return Order(
            pairs=self._pairs,
            barriers=len(self._intervals.barriers),
            discharged=dict(self._discharged),
            failures=tuple(self._failures),
            alike=self._alike if self._barriers else None,
        )

    def _not_followed(self) -> Parted | None:
        """Return the first instruction that orders, or touches memory, in a way unknown here."""
        for one in self.execution.program.body:
            row = isa.row(one)
            unknown = row.orders in (Orders.CLUSTER, Orders.OBJECT, Orders.COPIES)
            # A matrix's rows move for lanes that did not give their addresses.
            matrix = row.joins and row.memory is not Memory.NONE
            if unknown or row.memory is Memory.COPY or row.clocks or matrix:
                return Parted(line=one.line, reason=f"'{one.opcode}' is not followed")
        irregular = self._intervals.irregular()
        if irregular is not None:
            why = f"'{irregular.opcode}' may be a barrier of some threads only"
            return Parted(line=irregular.line, reason=why)
        return None

    # ---- barriers

    def _check_barriers(self) -> None:
        """Show that branches which decide about barriers go one way in all threads of a block."""
        if not self._intervals.barriers:
            self._barriers = True
            return
        deciding = self._intervals.deciding()
        branches = [one for one in self.execution.branches if one.site in deciding]
        inside = set(self._intervals.loops)
        counters = {atom for atom, loop in self.execution.counters.items() if loop in inside}
        carried = {atom for atom, one in self.execution.carried.items() if one.header in inside}
        while True:
            self._alike = frozenset(counters | carried)
            other = self._another(self._uniform | self._blocks | self._alike)
            lost = {atom for atom in carried if not self._carried_alike(atom, other)}
            if not lost:
                break
            carried -= lost
        for branch in branches:
            facts = (*branch.path, *map(other.formula, branch.path), branch.guard)
            goal = other.formula(branch.guard)
            match self.solver.answer(facts, goal):
                case Shown(by):
                    self._discharged[str(by)] += 1
                case Countered(values):
                    line = self.execution.program.body[branch.site].line
                    why = "threads of a block may part here before a barrier"
                    self._failures.append(Parted(line=line, reason=why, values=values))
                case Open(reason):
                    line = self.execution.program.body[branch.site].line
                    why = f"whether all threads of a block go one way before a barrier: {reason}"
                    self._failures.append(Parted(line=line, reason=why))
            if len(self._failures) >= self.most:
                return
        self._barriers = not self._failures

    def _carried_alike(self, atom: Atom, other: Renaming) -> bool:
        """Whether a register is the same in all threads of a block where an iteration begins."""
        one = self.execution.carried[atom]
        if other.poly(one.first) != one.first:
            return False
        for (path, value), (there, another) in itertools.product(one.after, repeat=2):
            if value is None or another is None:
                return False
            renamed = other.poly(another)
            if renamed == value:
                continue
            facts = (*path, *map(other.formula, there))
            if not self.solver.implies(facts, Eq(value - renamed), quick=True):
                return False
        return True

    def _another(self, shared: frozenset[Atom], key: object = None) -> Renaming:
        """Return the renaming into a second thread that shares these symbols."""
        key = (shared, key)
        if key not in self._renamings:
            self._renamings[key] = Renaming(
                atoms=self.execution.thread.atoms, shared=shared, loads=self._loads
            )
        return self._renamings[key]

    # ---- pairs

    def _check_pairs(self) -> None:
        groups: dict[Allocation, list[Access]] = defaultdict(list)
        for one in self.execution.accesses:
            if one.allocation is not None and one.allocation.space in ("global", "shared"):
                groups[one.allocation].append(one)
        for allocation, inside in groups.items():
            written = [one for one in inside if one.what != "read"]
            for number, first in enumerate(written):
                for second in (*written[number:], *(one for one in inside if one.what == "read")):
                    if allocation.space == "global" and _meet(first, second, same_block=False):
                        other = self._another(self._uniform, "blocks")
                        thread = self.execution.thread
                        ctaid = [thread.special[f"%ctaid.{letter}"] for letter in "xyz"]
                        blocks_apart = _Case(
                            left=None,
                            right=other,
                            same_block=False,
                            facts=(),
                            differ=_different(ctaid, other),
                        )
                        self._apart(first, second, blocks_apart)
                    if _meet(first, second, same_block=True):
                        for case in self._threads_apart(first, second):
                            self._apart(first, second, case)
                    self._pairs += 1
                    if len(self._failures) >= self.most:
                        return

    def _threads_apart(self, first: Access, second: Access) -> Iterator[_Case]:
        """Yield the ways in which two threads of a block may be at both accesses at once.

        A load that may give what was there before the launch is not behind any barrier, and has
        to be apart from earlier writes of its own thread as well.
        """
        thread = self.execution.thread
        tid = [thread.special[f"%tid.{letter}"] for letter in "xyz"]
        block = self._uniform | self._blocks
        if isa.reads_constant(second.instruction):
            other = self._another(block, "threads")
            yield _Case(
                left=None, right=other, same_block=True, facts=(), differ=_different(tid, other)
            )
            if second.site in self._intervals.behind(first.site):
                own = block | {atom for one in tid for atom in one.atoms}
                yield _Case(
                    left=None, right=self._another(own, "own"), same_block=True, facts=(),
                    differ=TRUE,
                )  # fmt: skip
            return
        for left, right in sorted(
            self._intervals.together(first.site, second.site), key=lambda pair: str(pair)
        ):
            shared, facts = self._iterations(left, right)
            one, other = self._moved(left, right, block | shared)
            yield _Case(
                left=one, right=other, same_block=True, facts=facts, differ=_different(tid, other)
            )

    def _iterations(
        self, left: Standing, right: Standing
    ) -> tuple[frozenset[Atom], tuple[Formula, ...]]:
        """Return what loops with barriers have in common for two accesses, and the first ones."""
        shared: set[Atom] = set()
        facts: list[Formula] = []
        for header, a, b in zip(self._intervals.loops, left, right, strict=True):
            if a is not b or a is Iteration.ANY:
                continue
            for atom in self._alike:
                counts = self.execution.counters.get(atom) == header
                carried = self.execution.carried.get(atom)
                if counts or (carried is not None and carried.header == header):
                    shared.add(atom)
                if counts and a is Iteration.FIRST:
                    facts.append(Eq(of(atom)))
        return frozenset(shared), tuple(facts)

    def _moved(
        self, left: Standing, right: Standing, shared: frozenset[Atom]
    ) -> tuple[Renaming | None, Renaming]:
        """Return the renamings of two accesses in different iterations of one loop."""
        key = left, right, shared
        if all(a is b for a, b in zip(left, right, strict=True)):
            return None, self._another(shared, "threads")
        if key not in self._renamings:
            atoms = self.execution.thread.atoms
            ones: tuple[dict[Atom, Poly], dict[Atom, Poly]] = {}, {}
            for atom, header in self.execution.counters.items():
                if header not in self._intervals.loops:
                    continue
                place = self._intervals.loops.index(header)
                if left[place] is right[place]:
                    continue
                for standing, values in ((left, ones[0]), (right, ones[1])):
                    match standing[place]:
                        case Iteration.SAME:
                            values[atom] = of(atom)
                        case Iteration.NEXT:
                            values[atom] = of(atom) + 1
                        case Iteration.FIRST:
                            values[atom] = of(0)
                        case Iteration.ANY:
                            values[atom] = of(atoms.symbol(f"{atom.name} of some", 0))
            self._renamings[key] = Renaming(
                atoms=atoms, shared=shared, replaced=ones[1], loads=self._loads
            )
            self._renamings[(key, "left")] = Renaming(
                atoms=atoms, shared=frozenset(), replaced=ones[0], identity=True
            )
        return self._renamings[(key, "left")], self._renamings[key]

    def _apart(self, first: Access, second: Access, case: _Case) -> None:
        """Note whether two accesses in different threads never touch the same byte."""
        if len(self._failures) >= self.most:
            return
        left, right = case.left, case.right
        path = first.path if left is None else tuple(map(left.formula, first.path))
        goals = [goal for _, goal in first.goals]
        bounds = goals if left is None else [left.formula(goal) for goal in goals]
        facts = [
            *path, *bounds, *case.facts, case.differ,
            *map(right.formula, second.path), *(right.formula(goal) for _, goal in second.goals),
        ]  # fmt: skip
        if any(decided(fact) == FALSE for fact in facts):
            return
        meeting: list[Formula] = []
        # Take offsets apart: accesses meet where, and only where, all parts do. Where both
        # are stride * row + column, and the access stays within a row, they meet in the
        # same row and at columns that meet.
        key = first.offset, second.offset, first.nbytes, second.nbytes, first.site, second.site
        if key not in self._parts:
            self._parts[key] = self._apart_by_rows(
                first, second, (first.offset, second.offset, first.nbytes, second.nbytes), 0
            )
        for one, another, n1, n2 in self._parts[key]:
            there = right.poly(another)
            difference = (one if left is None else left.poly(one)) - there
            varying = Poly({m: c for m, c in difference.terms.items() if m})
            constant = difference.terms.get((), 0)
            step = varying.content
            overlap: Formula
            if not step:
                overlap = TRUE if -n1 < constant < n2 else FALSE
            else:
                reduced = Poly({m: c // step for m, c in varying.terms.items()})
                low, high = -((n1 - 1 + constant) // step), (n2 - 1 - constant) // step
                if high - low < _MOST_SHIFTS:
                    overlap = disjunction(Eq(reduced - shift) for shift in range(low, high + 1))
                else:
                    overlap = conjunction([Le(of(low) - reduced), Le(reduced - high)])
            meeting.append(overlap)
        if any(decided(one) == FALSE for one in meeting):
            return
        last, others = meeting[-1], meeting[:-1]
        if self.solver.implies([case.differ, *case.facts, *others], negated(last), quick=True):
            self._discharged[str(Discharge.LINEAR)] += 1
            return
        found = self.solver.answer([*facts, *others], negated(last))
        if isinstance(found, Shown):
            self._discharged[str(found.by)] += 1
            return
        values = found.values if isinstance(found, Countered) else None
        reason = found.reason if isinstance(found, Open) else ""
        self._failures.append(
            Unordered(
                first=first, second=second, same_block=case.same_block, reason=reason,
                values=values,
            )
        )  # fmt: skip

    def _apart_by_rows(self, first: Access, second: Access, part: _Part, depth: int) -> list[_Part]:
        one, another, n1, n2 = part
        if depth >= _DEPTH or time.perf_counter() > self.solver.until:
            return [part]
        for stride in _strides(one, self._another(self._uniform, "blocks")):
            row, column = divided_exactly(one, stride)
            other_row, other_column = divided_exactly(another, stride)
            if not row.terms or not other_row.terms:
                continue
            if self._inside(first, column, stride - n1) and self._inside(
                second, other_column, stride - n2
            ):
                return [
                    *self._apart_by_rows(first, second, (row, other_row, 1, 1), depth + 1),
                    *self._apart_by_rows(first, second, (column, other_column, n1, n2), depth + 1),
                ]
        return [part]

    def _inside(self, access: Access, column: Poly, most: Poly) -> bool:
        facts = [*access.path, *(goal for _, goal in access.goals)]
        goals = (Le(-column), Le(column - most))
        return all(self.solver.implies(facts, goal, patient=True) for goal in goals)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """Two threads: renamings of the first access (None: as it is) and the second."""

    left: Renaming | None
    right: Renaming
    same_block: bool
    facts: tuple[Formula, ...]
    differ: Formula


def _different(places: Sequence[Poly], other: Renaming) -> Formula:
    """Return that two threads, or blocks, are not the same."""
    return disjunction(Ne(place - other.poly(place)) for place in places if place.constant is None)


def _meet(first: Access, second: Access, *, same_block: bool) -> bool:
    """Whether two accesses to one byte would be a race."""
    if first.what != "atomic" or second.what != "atomic":
        return True
    if first.nbytes != second.nbytes:
        return True
    near = any(scope in one.instruction.parts for one in (first, second) for scope in _SCOPED)
    return near and not same_block


def _strides(poly: Poly, blocks: Renaming) -> list[Poly]:
    """Return what may be the length of a row in an offset: products of sizes, the largest first."""
    found: dict[Monomial, None] = {}
    for monomial in poly.terms:
        sizes = [atom for atom in monomial if blocks.atom(atom) == of(atom)]
        for count in range(1, len(sizes) + 1):
            for chosen in itertools.combinations(sizes, count):
                found[tuple(sorted(chosen))] = None
    strides = []
    for monomial in sorted(found, key=len, reverse=True):
        factors = [abs(c) for m, c in poly.terms.items() if contains(m, monomial)]
        common = math.gcd(*factors)
        strides += [Poly({monomial: one}) for one in dict.fromkeys((common, 1)) if one]
    return strides
