"""Whether memory is written before it is read, at all sizes: shared, local and fresh global memory.

A read is covered where each of its bytes was written before by a write that certainly happens: of
the same thread, of a thread of its block with a barrier between, or of an earlier launch. Which
thread that is, and in which iteration of its loops, is worked out from the two offsets (a number
in mixed radix is taken apart into its digits) and then shown: the thread exists, it runs the
iterations before, its path leads to the write, and the write covers the bytes. What a write's path
depends on that is not known of that thread may be anything.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ptxsan import isa
from ptxsan.isa import Memory
from ptxsan.prove.accesses import Access
from ptxsan.prove.execute import Execution
from ptxsan.prove.graph import Graph, graph_of
from ptxsan.prove.intervals import full_barrier
from ptxsan.prove.machine import Allocation
from ptxsan.prove.renaming import Renaming
from ptxsan.prove.solver import Answer, Countered, Discharge, Open, Shown, Solver, closure
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    ZERO,
    All,
    AnyOf,
    Atom,
    Atoms,
    Flag,
    Formula,
    Le,
    Poly,
    Quotient,
    Remainder,
    Symbol,
    atoms_of,
    conjunction,
    decided,
    disjunction,
    negated,
    of,
)
from ptxsan.prove.threads import Threads

_PIECES, _WRITERS, _WAYS, _THREADS = 16, 24, 12, 4
_LETTERS = "xyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """An earlier launch of the call: its execution, and which of its memory is which of the
    later launch's.
    """

    execution: Execution
    same: Mapping[Allocation, Allocation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A read of bytes that were not shown to be written; `values` are z3's, if any."""

    access: Access
    reason: str
    values: Mapping[Atom, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was found: `reads` were covered. Failures are all that were looked at, at most a few."""

    reads: int
    discharged: Mapping[str, int]
    failures: tuple[Uncovered, ...]


def covered(
    execution: Execution,
    solver: Solver,
    *,
    fresh: Iterable[Allocation],
    alike: frozenset[Atom] | None,
    before: Sequence[Before] = (),
    most: int = 2,
) -> Coverage:
    """Return whether an execution whose memory is safe reads nothing that is not written.

    `fresh` is the global memory that nobody has written in part when the launch begins; all
    shared and local memory is. `alike` are the unknowns of loops that `races.Order` tells;
    without it nothing is known to be behind a barrier. `before` are earlier launches, executed
    with the same atoms and axes, whose memory is safe as well.
    """
    return _Coverage(execution, solver, frozenset(fresh), alike, before, most).result()


@dataclass(slots=True)
class _Flow:
    """Which sites of a program are reached from which."""

    execution: Execution
    graph: Graph = field(init=False)
    block_of: dict[int, int] = field(default_factory=dict)
    barriers: tuple[int, ...] = ()
    _reached: dict[tuple[int, int | None], frozenset[int]] = field(default_factory=dict)
    _unguarded: dict[tuple[int | None, frozenset[int]], dict[int, int]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        program = self.execution.program
        self.graph = graph_of(program)
        for number in self.graph.order:
            for site in range(program.blocks[number].start, program.blocks[number].end):
                self.block_of[site] = number
        self.barriers = tuple(
            site for site in sorted(self.block_of) if full_barrier(program.body[site])
        )

    def loops(self, site: int) -> tuple[int, ...]:
        """Return the headers of the loops around a site, the outermost first."""
        block = self.block_of[site]
        around = [header for header, inside in self.graph.loops.items() if block in inside]
        return tuple(sorted(around, key=lambda header: -len(self.graph.loops[header])))

    def follows(self, site: int, other: int, cut: int | None) -> bool:
        """Whether `other` may run after `site` without passing the block `cut`'s beginning."""
        block, target = self.block_of[site], self.block_of[other]
        if block == target and other > site:
            return True
        return target in self._behind(block, cut)

    def _behind(self, block: int, cut: int | None) -> frozenset[int]:
        key = block, cut
        if key not in self._reached:
            found: set[int] = set()
            waiting = [one for one in self.execution.program.blocks[block].successors if one != cut]
            while waiting:
                one = waiting.pop()
                if one not in found:
                    found.add(one)
                    following = self.execution.program.blocks[one].successors
                    waiting += [each for each in following if each != cut]
            self._reached[key] = frozenset(found)
        return self._reached[key]

    def closed(self, site: int, cut: int) -> bool:
        """Whether each way from a site to the beginning of the block `cut` leads past a barrier."""
        seen: set[int] = set()
        waiting = [(self.block_of[site], site + 1)]
        while waiting:
            block, start = waiting.pop()
            here = self.execution.program.blocks[block]
            if any(start <= one < here.end for one in self.barriers):
                continue
            for following in here.successors:
                if following == cut:
                    return False
                if following not in seen:
                    seen.add(following)
                    waiting.append((following, self.execution.program.blocks[following].start))
        return True

    def guarded(self, site: int, cut: int | None, by: frozenset[int]) -> bool:
        """Whether each way to a site from the beginning of the block `cut` (None: of the program),
        which it does not pass again, leads past one of some barriers.
        """
        key = cut, by
        if key not in self._unguarded:
            # block -> the first of its sites that is reached only past a barrier
            found: dict[int, int] = {}
            waiting = [self.graph.order[0] if cut is None else cut]
            while waiting:
                block = waiting.pop()
                if block in found:
                    continue
                here = self.execution.program.blocks[block]
                stop = next((s for s in range(here.start, here.end) if s in by), None)
                found[block] = here.end if stop is None else stop
                if stop is None:
                    waiting += [one for one in here.successors if one != cut]
            self._unguarded[key] = found
        end = self._unguarded[key].get(self.block_of[site])
        return end is None or site >= end


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How a write may come before a read: which of its thread's unknowns are the reader's.

    `fixed` are unknowns with values, `free` those to be found; `iterations` are loops of which it
    has to be shown that the thread gets as far. `identical`: all of the thread's unknowns are the
    reader's, as they are one thread in one iteration. `first` is what has to hold of the read.
    """

    shared: frozenset[Atom]
    fixed: Mapping[Atom, Poly] = field(default_factory=dict)
    free: tuple[Atom, ...] = ()
    iterations: tuple[int, ...] = ()
    identical: bool = False
    first: tuple[Formula, ...] = ()


@dataclass(slots=True)
class _Coverage:
    execution: Execution
    solver: Solver
    fresh: frozenset[Allocation]
    alike: frozenset[Atom] | None
    before: Sequence[Before]
    most: int
    _flow: _Flow = field(init=False)
    _writes: dict[Allocation, list[Access]] = field(init=False)
    _flows: dict[int, _Flow] = field(default_factory=dict)
    _renamings: dict[object, Renaming] = field(default_factory=dict)
    _threads: Threads = field(init=False)
    _discharged: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._flow = _Flow(self.execution)
        self._threads = Threads(self.execution.thread)
        self._writes = _writes(self.execution)

    @property
    def _atoms(self) -> Atoms:
        return self.execution.thread.atoms

    def result(self) -> Coverage:
        failures: list[Uncovered] = []
        reads = 0
        shown: dict[object, None] = {}
        for access in self.execution.accesses:
            if access.what == "write" or len(failures) >= self.most:
                continue
            where = access.allocation
            if where is None or where.space in ("const", "param"):
                continue
            if where.space == "global" and where not in self.fresh:
                continue
            key = access.site, access.offset, access.path
            if key not in shown:
                failure = self._read(access)
                if failure is not None:
                    failures.append(failure)
                    continue
                shown[key] = None
            reads += 1
        return Coverage(reads=reads, discharged=dict(self._discharged), failures=tuple(failures))

    # ---- one read

    def _read(self, access: Access) -> Uncovered | None:
        """Return None where each byte of a read was written before."""
        assert access.allocation is not None
        facts = [*access.path, *(goal for _, goal in access.goals)]
        if any(decided(fact) == FALSE for fact in facts):
            return None
        if time.perf_counter() > self.solver.until:
            return Uncovered(access=access, reason="the time for this kernel is over")
        if self._one_by_one(access):
            self._discharged[str(Discharge.THREADS)] += 1
            return None
        copies = any(
            one.allocation is access.allocation and one.what == "write"
            for one in self.execution.accesses
            if isa.row(one.instruction).memory is Memory.COPY
        )
        if copies:
            name = access.allocation.name
            why = f"what asynchronous copies have written to {name} is not followed"
            return Uncovered(access=access, reason=why)
        writers = list(self._writers(access))
        least = min((one.nbytes for _, one, _ in writers), default=access.nbytes)
        piece = min(least, access.nbytes)
        if access.nbytes % piece or access.nbytes // piece > _PIECES:
            piece = access.nbytes
        for place in range(0, access.nbytes, piece):
            found = self._piece(facts, access, place, piece, writers)
            if isinstance(found, Shown):
                self._discharged[str(found.by)] += 1
                continue
            why = (
                "may read bytes of it that no thread has written" if writers
                else "reads bytes of it that nothing before writes"
            )  # fmt: skip
            name = access.allocation.name
            text = f"a {access.what} of {access.nbytes} bytes of {name} {why}"
            match found:
                case Countered(values):
                    return Uncovered(access=access, reason=text, values=values)
                case Open(reason):
                    return Uncovered(access=access, reason=f"{text}: {reason}")
        return None

    def _piece(
        self,
        facts: Sequence[Formula],
        access: Access,
        place: int,
        nbytes: int,
        writers: Sequence[tuple[Execution, Access, _Way]],
    ) -> Answer:
        """Answer whether bytes of a read were written before, by one write or some together."""
        target = access.offset + place
        told = list(facts)
        kept: dict[object, dict[Formula, None]] = defaultdict(dict)
        places = set(_places(self.execution, "%tid"))
        found: list[dict[Atom, Poly]] = []
        for execution, write, way in writers:
            if execution is not self.execution or places.isdisjoint(way.free):
                continue
            offset = self._placed(write.offset, way)
            for values in _solved(self._atoms, offset, target, frozenset(way.free)):
                one = {atom: value for atom, value in values.items() if atom in places}
                if one and one not in found:
                    found.append(one)
        threads = found[:_THREADS]
        for execution, write, way in writers:
            cases = self._cases(facts, execution, write, way, target, nbytes, threads)
            for who, condition, more in cases:
                if time.perf_counter() > self.solver.until:
                    return Open("the time for this kernel is over")
                told += [one for one in more if one not in told]
                if condition in kept[who]:
                    continue
                if self.solver.implies(told, condition, quick=True):
                    return Shown(Discharge.LINEAR)
                kept[who][condition] = None
        # Some writes together: those of one thread first.
        every = list(dict.fromkeys(one for some in kept.values() for one in some))
        groups = [list(some)[:_WAYS] for some in kept.values()]
        for some in groups:
            if len(some) > 1 and self.solver.implies(told, disjunction(some)):
                return Shown(Discharge.LINEAR)
        if not every:
            return self.solver.answer(facts, FALSE)
        return self.solver.answer(told, disjunction(every[:_WAYS]))

    # ---- writes before it

    def _writers(self, access: Access) -> Iterator[tuple[Execution, Access, _Way]]:
        """Yield writes to the same memory that may come before, and how: the nearest first."""
        assert access.allocation is not None
        found = self._writes.get(access.allocation, [])
        if isa.reads_constant(access.instruction):
            found = []  # it may give what was there before the launch
        near = sorted(
            (one for one in found if one.site != access.site),
            key=lambda one: abs(one.site - access.site),
        )
        several: list[tuple[Execution, Access, _Way]] = []
        for write in near[:_WRITERS]:
            for way in self._same_thread(access, write):
                yield self.execution, write, way
            if access.allocation.space != "local" and self.alike is not None:
                several += [(self.execution, write, way) for way in self._same_block(access, write)]
        yield from several
        for earlier in self.before:
            where = earlier.same.get(access.allocation)
            if where is None:
                continue
            thread = earlier.execution.thread
            shared = frozenset(thread.axes.symbols.values())
            flow = self._flow_of(earlier.execution)
            for write in _writes(earlier.execution).get(where, [])[:_WRITERS]:
                loops = flow.loops(write.site)
                counters = self._counters(earlier.execution, loops)
                free = (*_places(earlier.execution, "%tid"), *_places(earlier.execution, "%ctaid"))
                yield earlier.execution, write, _Way(
                    shared=shared, free=(*free, *counters), iterations=loops
                )  # fmt: skip

    def _flow_of(self, execution: Execution) -> _Flow:
        if execution is self.execution:
            return self._flow
        if id(execution) not in self._flows:
            self._flows[id(execution)] = _Flow(execution)
        return self._flows[id(execution)]

    @staticmethod
    def _counters(execution: Execution, loops: Iterable[int]) -> tuple[Atom, ...]:
        return tuple(execution.cycles[one].counter for one in loops if one in execution.cycles)

    def _same_thread(self, access: Access, write: Access) -> Iterator[_Way]:
        """Yield how a write of the reading thread comes before it."""
        flow, execution = self._flow, self.execution
        outer = flow.loops(write.site)
        common = [one for one in flow.loops(access.site) if one in outer]
        cut = common[-1] if common else None
        inner = tuple(one for one in outer if one not in common)
        if any(one not in execution.cycles for one in outer):
            return
        free = self._counters(execution, inner)
        places = (*_places(execution, "%tid"), *_places(execution, "%ctaid"))
        own = execution.thread.common() | frozenset(places)
        if not flow.follows(access.site, write.site, cut):
            if not inner:
                yield _Way(shared=own, identical=True)
            else:
                shared = own | frozenset(self._counters(execution, common))
                yield _Way(shared=shared, free=free, iterations=inner)
        if cut is not None:
            counter = execution.cycles[cut].counter
            yield _Way(
                shared=own | frozenset(self._counters(execution, common[:-1])),
                fixed={counter: of(counter) - 1}, free=free, iterations=inner,
                first=(Le(of(1) - of(counter)),),
            )  # fmt: skip

    def _same_block(self, access: Access, write: Access) -> Iterator[_Way]:
        """Yield how a write of any thread of the block comes before a barrier before a read."""
        assert self.alike is not None
        flow, execution = self._flow, self.execution
        outer = flow.loops(write.site)
        common = [one for one in flow.loops(access.site) if one in outer]
        cut = common[-1] if common else None
        inner = tuple(one for one in outer if one not in common)
        if any(one not in execution.cycles for one in outer):
            return
        counters = self._counters(execution, common)
        if not self.alike.issuperset(counters):
            return  # a loop without barriers: none lies between in an iteration
        shared = execution.thread.common()
        free = (*_places(execution, "%tid"), *self._counters(execution, inner))
        behind = self._behind(write.site, cut)
        if behind and flow.guarded(access.site, cut, behind):
            assert self.alike is not None
            carried = {
                atom for atom, one in self.execution.carried.items()
                if one.header in common and atom in self.alike
            }  # fmt: skip
            together = frozenset((*self._counters(self.execution, common), *carried))
            yield _Way(shared=shared | together, free=free, iterations=inner)
        if cut is not None and (
            flow.guarded(access.site, cut, frozenset(flow.barriers)) or flow.closed(write.site, cut)
        ):
            yield _Way(
                shared=shared | frozenset(counters[:-1]),
                fixed={counters[-1]: of(counters[-1]) - 1}, free=free, iterations=inner,
                first=(Le(of(1) - of(counters[-1])),),
            )  # fmt: skip

    def _behind(self, site: int, cut: int | None) -> frozenset[int]:
        """Return the barriers behind which a site does not run again in an iteration of `cut`."""
        return frozenset(
            one for one in self._flow.barriers if not self._flow.follows(one, site, cut)
        )

    # ---- what a write has to be

    def _cases(
        self,
        facts: Sequence[Formula],
        execution: Execution,
        write: Access,
        way: _Way,
        target: Poly,
        nbytes: int,
        threads: Sequence[Mapping[Atom, Poly]],
    ) -> Iterator[tuple[object, Formula, tuple[Formula, ...]]]:
        """Yield (thread, condition, facts): where the condition holds, a write of this thread
        certainly covers bytes at `target`.
        """
        if way.identical:
            cover = _covers(write.offset, write.nbytes, target, nbytes)
            found = conjunction((*cover, *write.path))
            if found != FALSE:
                yield (), found, ()
            return
        places = _places(execution, "%tid")
        for values in self._witnesses(execution, write.offset, target, way, threads):
            renaming = self._renaming(way.shared, {**way.fixed, **values})
            bounds = _within({**way.fixed, **values})
            cover = _covers(renaming.poly(write.offset), write.nbytes, target, nbytes)
            path = (_sure(renaming.formula(one), FALSE) for one in write.path)
            condition = conjunction((*way.first, *bounds, *cover, *path))
            if condition == FALSE:
                continue
            wanted = closure(
                {*write.offset.atoms, *(a for one in write.path for a in atoms_of(one))}
            )
            more = tuple(
                self._left(execution, write.site, renaming, bounds, wanted, way.iterations)
            )
            if all(
                self._gets_to((*facts, condition), execution, way, values, place)
                for place in range(len(way.iterations))
            ):
                yield tuple(values.get(one) for one in places), condition, more

    def _renaming(self, shared: frozenset[Atom], values: Mapping[Atom, Poly]) -> Renaming:
        key = shared, tuple(values.items())
        if key not in self._renamings:
            self._renamings[key] = Renaming(atoms=self._atoms, shared=shared, replaced=values)
        return self._renamings[key]

    def _placed(self, offset: Poly, way: _Way) -> Poly:
        """Return a write's offset in the iterations that are known."""
        if not way.fixed:
            return offset
        return self._renaming(way.shared | frozenset(way.free), way.fixed).poly(offset)

    def _left(
        self,
        execution: Execution,
        site: int,
        renaming: Renaming,
        bounds: Sequence[Formula],
        wanted: set[Atom],
        within: Sequence[int],
    ) -> Iterator[Formula]:
        """Yield what is known of a thread that has left loops: how the last iteration ended.

        Nothing is known of loops inside of those that the thread was not shown to get to.
        """
        flow = self._flow_of(execution)
        block = flow.block_of[site]
        unsure = {one for header in within for one in flow.graph.loops[header]}
        for header, cycle in execution.cycles.items():
            if block in flow.graph.loops[header] or header in unsure or not cycle.leaves:
                continue
            own = {atom for atom, one in execution.carried.items() if one.header == header}
            if wanted.isdisjoint(own | {cycle.counter}):
                continue
            entered = conjunction((*bounds, *map(renaming.formula, cycle.entry)))
            ended = disjunction(conjunction(map(renaming.formula, one)) for one in cycle.out)
            yield _sure(disjunction((negated(entered), ended)), TRUE)

    def _gets_to(
        self,
        facts: Sequence[Formula],
        execution: Execution,
        way: _Way,
        values: Mapping[Atom, Poly],
        place: int,
    ) -> bool:
        """Whether a thread begins the iteration of a loop that it is said to write in."""
        header = way.iterations[place]
        cycle = execution.cycles[header]
        last = values[cycle.counter]
        if last == ZERO:
            return True
        inner = {execution.cycles[one].counter for one in way.iterations[place:]}
        earlier = self._atoms.symbol(f"{cycle.counter.name} before", 0)
        known = {atom: one for atom, one in {**way.fixed, **values}.items() if atom not in inner}
        known[cycle.counter] = of(earlier)
        renaming = self._renaming(way.shared, known)
        again = [
            conjunction(_sure(renaming.formula(one), FALSE) for one in path)
            for path in cycle.again
        ]  # fmt: skip
        wanted = closure({atom for path in cycle.again for one in path for atom in atoms_of(one)})
        start = execution.program.blocks[header].start
        more = self._left(execution, start, renaming, _within(known), wanted, ())
        told = (*facts, Le(of(earlier) + 1 - last), *more)
        return self.solver.implies(told, disjunction(again))

    def _witnesses(
        self,
        execution: Execution,
        offset: Poly,
        target: Poly,
        way: _Way,
        threads: Sequence[Mapping[Atom, Poly]],
    ) -> Iterator[dict[Atom, Poly]]:
        """Yield values of a thread's unknowns at which an offset may be a target."""
        own = execution is self.execution
        offset = self._placed(offset, way)
        tid, ctaid = _places(execution, "%tid"), _places(execution, "%ctaid")
        found = _solved(self._atoms, offset, target, frozenset(way.free)) or [{}]
        if own and not set(tid).isdisjoint(way.free):
            counters = frozenset(one for one in way.free if one not in tid)
            for thread in threads:  # the thread that another write tells
                place = {one: thread.get(one, of(one)) for one in tid}
                there = self._renaming(way.shared | counters, place).poly(offset)
                more = _solved(self._atoms, there, target, counters) or [{}]
                found += [{**place, **one} for one in more]
        seen: set[tuple[tuple[Atom, Poly], ...]] = set()
        for partial in found:
            missing = [one for one in way.free if one not in partial]
            for others in (
                (True, False) if own and not {*tid, *ctaid}.isdisjoint(missing) else (False,)
            ):
                values = dict(partial)
                for one in missing:
                    values[one] = of(one) if others and one in (*tid, *ctaid) else ZERO
                key = tuple(sorted(values.items(), key=lambda item: item[0].number))
                if key not in seen:
                    seen.add(key)
                    yield values

    # ---- threads one by one

    def _one_by_one(self, access: Access) -> bool:
        """Whether writes whose place follows from the thread's alone cover a read, by trying all.

        Only those that certainly happen in all threads of a block of a known size, or in those
        of which their number in the block says so.
        """
        threads = self._threads
        if access.allocation is None or access.allocation.space == "global":
            return False
        reads = threads.offsets(access.offset)
        if reads is None:
            return False
        rest = threads.rest(access.offset)
        symbols = {one for one in closure(rest.atoms) if isinstance(one.meaning, Symbol)}
        active = threads.admitted(access.path)
        own: list[tuple[list[int | None], int]] = []
        every: set[int] = set()
        for write in self._writes.get(access.allocation, []):
            if write.site == access.site or threads.rest(write.offset) != rest:
                continue
            block = access.allocation.space == "shared" and self.alike is not None
            ways = [*self._same_thread(access, write)]
            ways += self._same_block(access, write) if block else ()
            ways = [one for one in ways if not one.iterations and not one.fixed]
            table = threads.offsets(write.offset) if ways else None
            if table is None or not self._certain(access, write):
                continue
            runs = threads.admitted(write.path)
            starts = [at if here else None for at, here in zip(table, runs, strict=True)]
            if any(not one.identical and symbols <= one.shared for one in ways):
                every.update(
                    at + byte for at in starts if at is not None for byte in range(write.nbytes)
                )
            if any(one.identical for one in ways):
                own.append((starts, write.nbytes))
        for number, at in enumerate(reads):
            for byte in range(at, at + access.nbytes) if active[number] else ():
                mine = (
                    (starts[number], size) for starts, size in own if starts[number] is not None
                )
                if byte not in every and not any(
                    start is not None and start <= byte < start + size for start, size in mine
                ):
                    return False
        return True

    def _certain(self, access: Access, write: Access) -> bool:
        """Whether a write happens in all threads that its path admits by their places alone."""
        execution, flow = self.execution, self._flow
        conditions = [one for one in write.path if not self._threads.tell(one)]
        outer = flow.loops(write.site)
        common = [one for one in flow.loops(access.site) if one in outer]
        shared = execution.thread.common() | frozenset(self._counters(execution, common))
        renaming = self._renaming(shared, {})
        wanted = closure({atom for one in conditions for atom in atoms_of(one)})
        facts = [
            *access.path, *map(renaming.formula, execution.thread.facts),
            *self._left(execution, write.site, renaming, (), wanted, ()),
        ]  # fmt: skip
        return all(
            self.solver.implies(facts, _sure(renaming.formula(one), FALSE), quick=True)
            for one in conditions
        )


def _writes(execution: Execution) -> dict[Allocation, list[Access]]:
    """Return the plain stores to each allocation: those of which it is known what they write."""
    found: dict[Allocation, list[Access]] = defaultdict(list)
    for one in execution.accesses:
        row = isa.row(one.instruction)  # what others take part in, or ends later, is not followed
        plain = row.memory is Memory.WRITE and not (row.joins or row.objects or row.steers)
        if one.what == "write" and plain and one.allocation is not None and not one.why:
            found[one.allocation].append(one)
    return found


def _places(execution: Execution, word: str) -> tuple[Atom, ...]:
    """Return the symbols of `%tid` or `%ctaid` along x, y and z."""
    special = execution.thread.special
    return tuple(atom for letter in _LETTERS for atom in special[f"{word}.{letter}"].atoms)


def _covers(offset: Poly, size: int, target: Poly, nbytes: int) -> tuple[Formula, ...]:
    """Return that `size` bytes at an offset hold `nbytes` bytes at a target."""
    return Le(offset - target), Le(target + nbytes - offset - size)


def _within(values: Mapping[Atom, Poly]) -> tuple[Formula, ...]:
    """Return that values lie within the bounds of what they are values of."""
    found: list[Formula] = []
    for atom, value in values.items():
        found += [Le(of(atom.low) - value)] if atom.low is not None else []
        found += [Le(value - atom.high)] if atom.high is not None else []
    return tuple(found)


def _sure(formula: Formula, unknown: Formula) -> Formula:
    """Return a formula with `unknown` for truth values of which another thread's are not known.

    With FALSE it is stronger than the formula, with TRUE weaker.
    """
    match formula:
        case Flag():
            return unknown
        case All(items):
            return conjunction(_sure(one, unknown) for one in items)
        case AnyOf(items):
            return disjunction(_sure(one, unknown) for one in items)
        case _:
            return formula


def _solved(
    atoms: Atoms, offset: Poly, target: Poly, free: frozenset[Atom]
) -> list[dict[Atom, Poly]]:
    """Return values of free atoms at which an offset may be a target: its digits, mixed radix.

    What comes out is a guess that is shown, or not, by whoever asks.
    """
    rest = ZERO
    factors: dict[Atom, Poly] = {}
    for monomial, factor in offset.terms.items():
        moving = [atom for atom in monomial if not free.isdisjoint(closure({atom}))]
        if not moving:
            rest = rest + Poly({monomial: factor})
            continue
        if len(moving) > 1:
            return []
        others = list(monomial)
        others.remove(moving[0])
        factors[moving[0]] = factors.get(moving[0], ZERO) + Poly({tuple(others): factor})
    found: list[dict[Atom, Poly]] = []
    for order in _orders(factors):
        left, digits = target - rest, {}
        for atom in order:
            step = factors[atom]
            low, high = step.interval()
            if low is not None and low > 0:
                digits[atom] = atoms.quotient(left, step)
            elif high is not None and high < 0 and len(factors) == 1:
                digits[atom] = atoms.quotient(-left, -step)
            else:
                return found
            left = left - step * digits[atom]
        found += [one for one in _inside(atoms, digits, free) if one not in found]
    return found


def _orders(factors: Mapping[Atom, Poly]) -> list[tuple[Atom, ...]]:
    """Return orders in which digits may follow, the largest steps first."""

    def size(atom: Atom) -> tuple[int, int]:
        step = factors[atom]
        return max(map(len, step.terms), default=0), abs(step.interval()[0] or 0)

    first = tuple(sorted(factors, key=size, reverse=True))
    return list(dict.fromkeys((first, first[::-1]))) if len(first) == 2 else [first]


def _inside(
    atoms: Atoms, digits: Mapping[Atom, Poly], free: frozenset[Atom]
) -> Iterator[dict[Atom, Poly]]:
    """Yield values of free atoms, of which others are quotients and remainders."""
    plain = {atom: value for atom, value in digits.items() if atom in free}
    wholes: dict[tuple[Poly, int], list[Poly]] = {}
    for atom, value in digits.items():
        match atom.meaning:
            case Quotient(dividend, divisor) if divisor.constant is not None:
                number = divisor.constant
                held = wholes.pop((dividend, number), None)
                rests = held or [ZERO, of(number - 1)]
                wholes[dividend, number] = [value * number + rest for rest in rests]
            case Remainder(dividend, number):
                held = wholes.pop((dividend, number), None)
                wholes[dividend, number] = [held[0] + value] if held else [value]
            case _:
                if atom not in free:
                    return
    if not wholes:
        yield plain
        return
    options = [
        [one for value in values for one in _solved(atoms, dividend, value, free)]
        for (dividend, _), values in wholes.items()
    ]
    for chosen in itertools.islice(itertools.product(*options), 4):
        merged = dict(plain)
        for one in chosen:
            merged = {**one, **merged}
        yield merged
