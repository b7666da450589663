"""What PTX's memory model allows a small program to do: every outcome, weak ones included.

The machine executes one interleaving after another and says where order is missing; it never shows
a value that no interleaving gives. This module answers the other question for programs of a few
instructions: which final values can occur at all. It enumerates the executions of a program (what
each read reads from, how morally strong writes and `fence.sc` are ordered) and keeps those that the
axioms admit. `data_races` says which accesses of such a program race: tests hold the machine's
answers (runtime/races.py) against it.

Source: PTX ISA 9.0, "Memory Consistency Model" (its terms are used here: morally strong,
observation order, release and acquire patterns, base causality order, proxy-preserved base
causality order, the axioms); Lustig, Sahasrabuddhe and Giroux, "A Formal Analysis of the NVIDIA PTX
Memory Consistency Model", ASPLOS 2019. Addresses of different names overlap completely or not at
all; there are no mixed sizes, no asynchronous operations and no liveness.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Scope(Enum):
    """The threads that a strong operation is strong for."""

    CTA = "cta"
    GPU = "gpu"
    SYS = "sys"


class Proxy(Enum):
    """The way by which a memory operation reaches memory."""

    GENERIC = "generic"
    SURFACE = "surface"
    TEXTURE = "texture"
    CONSTANT = "constant"
    ALIAS = "alias"


class Update(Enum):
    """What becomes of an old value and operands."""

    ADD = "add"
    SUBTRACT = "sub"
    EXCHANGE = "exch"
    SWAP = "cas"  # the second operand, where the old value is the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A load (`target`), a store (`value`) or both, an atomic, of one location.

    `semantics` are those of the opcode: weak, relaxed, acquire, release, acq_rel. The one operand
    of a store is a register's name or a number; of an atomic, `update` says what becomes of the
    old value and the operands.
    """

    location: str
    target: str | None = None
    operands: tuple[str | int, ...] = ()
    writes: bool = False
    update: Update | None = None
    semantics: str = "weak"
    scope: Scope = Scope.SYS
    proxy: Proxy = Proxy.GENERIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """`fence.sc`, `fence.acq_rel`, or a proxy fence."""

    sc: bool = False
    scope: Scope = Scope.SYS
    proxy: Proxy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """`bar.sync` (or, with `waits` False, `bar.arrive`) of a barrier of the block.

    `name` are its number and whatever else has to agree; registers or numbers.
    """

    name: tuple[str | int, ...]
    waits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """`target` becomes the sum or difference of two operands."""

    target: str
    operation: Update
    operands: tuple[str | int, str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A jump to the instruction with this index, if the operands are equal (or differ)."""

    to: int
    operands: tuple[str | int, str | int] = (0, 0)
    equal: bool = True


Step: TypeAlias = Access | Fence | Barrier | Compute | Jump


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread: its block, its GPU, the registers that do not begin with 0, its instructions."""

    block: int
    gpu: int
    steps: tuple[Step, ...]
    registers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Threads, initial values of locations (0 otherwise), and other names of locations."""

    threads: tuple[Thread, ...]
    initial: Mapping[str, int] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """Return the location that a name stands for."""
        while name in self.aliases:
            name = self.aliases[name]
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Final registers of each thread, and final values of each location."""

    registers: tuple[Mapping[str, int], ...]
    memory: Mapping[str, int]


MOST_TURNS = 1
"""How often a thread may jump back: executions that jump more often are left out."""


@dataclass(slots=True, kw_only=True)
class _Event:
    """An event of an execution; `reads` and `writes` are values, None where it does not."""

    thread: int
    step: Access | Fence | Barrier
    reads: int | None = None
    writes: int | None = None
    number: int = -1
    needs: frozenset[int] = frozenset()  # events of its thread, by position, that it depends on
    phase: tuple[tuple[int, ...], int] = ((), 0)  # of a barrier: its name, how often passed before


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """One way through a thread, with the values that its reads return."""

    events: tuple[_Event, ...]
    registers: Mapping[str, int]
    read: frozenset[tuple[str, int]]
    written: frozenset[tuple[str, int]]


def outcomes(
    program: Program, *, limit_s: float = 60.0, races: set[DataRace] | None = None
) -> Iterator[Outcome]:
    """Yield the outcomes of all executions that the model allows (an outcome may come twice).

    The data races of each are added to `races`, where that is given. Raises TimeoutError where
    they are too many to look at in `limit_s` seconds.
    """
    end = time.perf_counter() + limit_s
    values = _values(program)
    paths = [list(_paths(program, index, values)) for index in range(len(program.threads))]
    initial = frozenset((place, program.initial.get(place, 0)) for place in values)
    for chosen in itertools.product(*paths):
        written = initial.union(*(path.written for path in chosen))
        if not all(path.read <= written for path in chosen):
            continue
        yield from _Execution(program, chosen, races).outcomes(end)
        if time.perf_counter() > end:
            raise TimeoutError(f"more executions than can be looked at in {limit_s:g} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRace:
    """Two accesses of one location by different threads, by number, that nothing orders."""

    threads: tuple[int, int]
    accesses: tuple[Access, Access]


def data_races(program: Program, *, limit_s: float = 60.0) -> frozenset[DataRace]:
    """Return the data races of all executions that the model allows.

    Two accesses of which one writes race unless they are morally strong or causality order has
    them in one order: runtime/causality.py says it in words, and is what the machine goes by.
    Raises TimeoutError as `outcomes` does.
    """
    found: set[DataRace] = set()
    for _ in outcomes(program, limit_s=limit_s, races=found):
        pass
    return frozenset(found)


def allows(program: Program, condition: Callable[[Outcome], bool]) -> bool:
    """Whether an execution that the model allows ends so."""
    return any(condition(outcome) for outcome in outcomes(program))


def _values(program: Program) -> dict[str, set[int]]:
    """Return for each location the values that it may hold."""
    found: dict[str, set[int]] = {}
    for thread in program.threads:
        for step in thread.steps:
            if isinstance(step, Access):
                place = program.place(step.location)
                found.setdefault(place, set()).add(program.initial.get(place, 0))
    accesses = [
        step for thread in program.threads for step in thread.steps if isinstance(step, Access)
    ]
    updates = Counter(program.place(step.location) for step in accesses if step.update)
    for _ in range(max(len(program.threads), *updates.values(), 1)):
        before = {place: len(values) for place, values in found.items()}
        for index in range(len(program.threads)):
            for path in list(_paths(program, index, found)):
                for event in path.events:
                    if event.writes is not None:
                        assert isinstance(event.step, Access)
                        found[program.place(event.step.location)].add(event.writes)
        if before == {place: len(values) for place, values in found.items()}:
            break
    return found


def _paths(program: Program, index: int, values: Mapping[str, set[int]]) -> Iterator[_Path]:
    """Yield every way through a thread whose reads return values that may be there."""
    thread = program.threads[index]

    def go(
        at: int,
        registers: dict[str, int],
        needs: dict[str, frozenset[int]],
        control: frozenset[int],
        events: tuple[_Event, ...],
        turns: int,
    ) -> Iterator[_Path]:
        def value(operand: str | int) -> int:
            return operand if isinstance(operand, int) else registers.get(operand, 0)

        def needed(*operands: str | int) -> frozenset[int]:
            return control.union(*(needs.get(str(one), frozenset()) for one in operands))

        while at < len(thread.steps):
            step = thread.steps[at]
            at += 1
            match step:
                case Compute():
                    first, second = (value(one) for one in step.operands)
                    sign = -1 if step.operation is Update.SUBTRACT else 1
                    registers = registers | {step.target: first + sign * second}
                    needs = needs | {step.target: needed(*step.operands) - control}
                case Jump():
                    control = needed(*step.operands)
                    if (value(step.operands[0]) == value(step.operands[1])) == step.equal:
                        turns += step.to < at
                        if turns > MOST_TURNS:
                            return
                        at = step.to
                case Fence():
                    events = (*events, _Event(thread=index, step=step))
                case Barrier():
                    name = tuple(value(one) for one in step.name)
                    passed = sum(
                        isinstance(one.step, Barrier) and one.phase[0] == name for one in events
                    )
                    phase = (name, passed)
                    events = (*events, _Event(thread=index, step=step, phase=phase))
                case Access(target=None):
                    written = value(step.operands[0])
                    if step.update:
                        place = program.place(step.location)
                        for old in sorted(values[place]):
                            new = _updated(step, old, [value(one) for one in step.operands])
                            event = _Event(
                                thread=index, step=step, reads=old, writes=new,
                                needs=needed(*step.operands),
                            )  # fmt: skip
                            yield from go(at, registers, needs, control, (*events, event), turns)
                        return
                    event = _Event(
                        thread=index, step=step, writes=written, needs=needed(*step.operands)
                    )
                    events = (*events, event)
                case Access(target=str()):
                    assert step.target is not None
                    for old in sorted(values[program.place(step.location)]):
                        new = None
                        if step.writes:
                            new = _updated(step, old, [value(one) for one in step.operands])
                        event = _Event(
                            thread=index, step=step, reads=old, writes=new,
                            needs=needed(*step.operands),
                        )  # fmt: skip
                        yield from go(
                            at,
                            registers | {step.target: old},
                            needs | {step.target: frozenset((len(events),))},
                            control,
                            (*events, event),
                            turns,
                        )
                    return
        yield _Path(
            events=events,
            registers=registers,
            read=frozenset(
                (program.place(one.step.location), one.reads)
                for one in events
                if isinstance(one.step, Access) and one.reads is not None
            ),
            written=frozenset(
                (program.place(one.step.location), one.writes)
                for one in events
                if isinstance(one.step, Access) and one.writes is not None
            ),
        )

    yield from go(0, dict(thread.registers), {}, frozenset(), (), 0)


def _updated(step: Access, old: int, operands: Sequence[int]) -> int | None:
    """Return what an atomic writes; None where a compare-and-swap does not."""
    match step.update:
        case Update.ADD:
            return old + operands[0]
        case Update.SUBTRACT:
            return old - operands[0]
        case Update.EXCHANGE:
            return operands[0]
        case Update.SWAP:
            return operands[1] if old == operands[0] else None
        case None:
            raise ValueError("an access that reads and writes needs an update")


class _Relation:
    """A set of pairs of events, as one bit set a row."""

    __slots__ = ("rows",)

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = list(rows)

    def __or__(self, other: _Relation) -> _Relation:
        return _Relation([a | b for a, b in zip(self.rows, other.rows, strict=True)])

    def __and__(self, other: _Relation) -> _Relation:
        return _Relation([a & b for a, b in zip(self.rows, other.rows, strict=True)])

    def then(self, other: _Relation) -> _Relation:
        """Return the pairs (a, c) with (a, b) here and (b, c) in the other."""
        rows = []
        for row in self.rows:
            total = 0
            while row:
                low = row & -row
                total |= other.rows[low.bit_length() - 1]
                row ^= low
            rows.append(total)
        return _Relation(rows)

    def closure(self) -> _Relation:
        """Return the transitive closure."""
        rows = list(self.rows)
        for middle in range(len(rows)):
            bit, reached = 1 << middle, rows[middle]
            for index in range(len(rows)):
                if rows[index] & bit:
                    rows[index] |= reached
                    reached = rows[middle]
        return _Relation(rows)

    def maybe(self) -> _Relation:
        """Return the relation and each event with itself."""
        return _Relation([row | 1 << index for index, row in enumerate(self.rows)])

    def back(self) -> _Relation:
        """Return the pairs the other way around."""
        size = len(self.rows)
        return _Relation(
            [sum(1 << a for a in range(size) if self.rows[a] >> b & 1) for b in range(size)]
        )

    def off(self, other: _Relation) -> _Relation:
        """Return the pairs that are not in the other."""
        return _Relation([a & ~b for a, b in zip(self.rows, other.rows, strict=True)])

    def between(self, first: int, second: int) -> _Relation:
        """Return the pairs from events of one bit set to those of another."""
        return _Relation(
            [row & second if first >> index & 1 else 0 for index, row in enumerate(self.rows)]
        )

    def loops(self) -> bool:
        """Whether an event is related to itself."""
        return any(row >> index & 1 for index, row in enumerate(self.rows))

    def any(self) -> bool:
        """Whether it holds a pair."""
        return any(self.rows)

    def holds(self, first: int, second: int) -> bool:
        """Whether it holds this pair."""
        return bool(self.rows[first] >> second & 1)


class _Execution:
    """One choice of paths: an atomic is a read and a write, a location begins with a write."""

    def __init__(
        self, program: Program, paths: Sequence[_Path], races: set[DataRace] | None = None
    ) -> None:
        self._program, self._paths, self._races = program, paths, races
        self.events: list[_Event] = []
        self._halves: list[tuple[int, int]] = []
        self._needs: list[tuple[int, int]] = []
        starts = []
        for path in paths:
            first_of: list[int] = []
            for event in path.events:
                first_of.append(len(self.events))
                if event.reads is not None and event.writes is not None:
                    self._halves.append((len(self.events), len(self.events) + 1))
                    self._add(event, event.reads, None)
                    self._add(event, None, event.writes)
                else:
                    self._add(event, event.reads, event.writes)
                for needed in event.needs:
                    self._needs.append((first_of[needed], len(self.events) - 1))
                    self._needs.append((first_of[needed], first_of[-1]))
            starts.append(first_of)
        self._needs += self._halves
        self.places = sorted(
            {
                program.place(step.location)
                for thread in program.threads
                for step in thread.steps
                if isinstance(step, Access)
            }
            | {program.place(name) for name in program.initial}
        )
        self._first_initial = len(self.events)
        for place in self.places:
            step = Access(location=place, writes=True, semantics="weak")
            self._add(_Event(thread=-1, step=step), None, program.initial.get(place, 0))
        self.size = len(self.events)

    def _add(self, event: _Event, reads: int | None, writes: int | None) -> None:
        self.events.append(
            _Event(
                thread=event.thread, step=event.step, reads=reads, writes=writes,
                number=len(self.events), phase=event.phase,
            )
        )  # fmt: skip

    def _pairs(self, holds: Callable[[_Event, _Event], bool]) -> _Relation:
        return _Relation(
            [
                sum(1 << b.number for b in self.events if a is not b and holds(a, b))
                for a in self.events
            ]
        )

    def _of(self, holds: Callable[[_Event], bool]) -> int:
        return sum(1 << one.number for one in self.events if holds(one))

    def outcomes(self, end: float) -> Iterator[Outcome]:
        """Yield the outcomes of the executions with these paths; stop at a time."""
        place = {
            one.number: self._program.place(one.step.location)
            if isinstance(one.step, Access)
            else ""
            for one in self.events
        }
        readers = [one for one in self.events if one.reads is not None]
        sources = [
            [
                other.number
                for other in self.events
                if other.writes is not None
                and place[other.number] == place[one.number]
                and other.writes == one.reads
                and other is not one
            ]
            for one in readers
        ]
        if not all(sources):
            return
        self._fixed(place)
        if self._deadlocks():
            return
        for chosen in itertools.product(*sources):
            if time.perf_counter() > end:
                return
            rf = [0] * self.size
            for reader, source in zip(readers, chosen, strict=True):
                rf[source] |= 1 << reader.number
            yield from self._with(_Relation(rf), place)

    def _deadlocks(self) -> bool:
        """Whether threads wait for each other at barriers in different orders."""
        together = self.barrier | self.barrier.back()
        barriers = self._of(lambda one: isinstance(one.step, Barrier))
        order = self.po.between(barriers, barriers)
        return order.then((together | order).closure()).loops()

    def _fixed(self, place: Mapping[int, str]) -> None:
        """Fill in what does not depend on who reads from whom."""
        threads = self._program.threads

        def together(a: _Event, b: _Event, scope: Scope) -> bool:
            one, other = threads[a.thread], threads[b.thread]
            if scope is Scope.SYS:
                return True
            same_gpu = one.gpu == other.gpu
            return same_gpu if scope is Scope.GPU else same_gpu and one.block == other.block

        def same_block(a: _Event, b: _Event) -> bool:
            return a.thread >= 0 and b.thread >= 0 and together(a, b, Scope.CTA)

        def is_strong(one: _Event) -> bool:
            if isinstance(one.step, Access):
                return one.thread >= 0 and one.step.semantics != "weak"
            return isinstance(one.step, Fence) and one.step.proxy is None

        def proxy(one: _Event) -> Proxy:
            if isinstance(one.step, Access):
                return one.step.proxy
            return Proxy.GENERIC

        def morally(a: _Event, b: _Event) -> bool:
            if isinstance(a.step, Access) and isinstance(b.step, Access):
                if place[a.number] != place[b.number] or a.step.proxy is not b.step.proxy:
                    return False
                if a.thread >= 0 and b.thread >= 0 and name(a) != name(b):
                    return False
            if a.thread >= 0 and a.thread == b.thread:
                return proxy(a) is proxy(b)
            if not (is_strong(a) and is_strong(b)):
                return False
            assert isinstance(a.step, Access | Fence)
            assert isinstance(b.step, Access | Fence)
            return together(a, b, a.step.scope) and together(a, b, b.step.scope)

        def name(one: _Event) -> str:
            """The virtual address: an access by a special proxy has that of the name it aliases."""
            assert isinstance(one.step, Access)
            if one.step.proxy is Proxy.GENERIC:
                return one.step.location
            return self._program.aliases.get(one.step.location, one.step.location)

        def same_name(a: _Event, b: _Event) -> bool:
            if not (isinstance(a.step, Access) and isinstance(b.step, Access)):
                return False
            if a.thread < 0 or b.thread < 0:
                return place[a.number] == place[b.number]
            return name(a) == name(b)

        self.po = self._pairs(
            lambda a, b: a.thread >= 0 and a.thread == b.thread and a.number < b.number
        )
        self.loc = self._pairs(
            lambda a, b: bool(place[a.number]) and place[a.number] == place[b.number]
        )
        self.vloc = self._pairs(same_name)
        self.morally = self._pairs(morally)
        self.writes = self._of(lambda one: one.writes is not None)
        self.reads = self._of(lambda one: one.reads is not None)
        self.memory = self._of(lambda one: isinstance(one.step, Access))
        self.generic = self._of(
            lambda one: isinstance(one.step, Access) and one.step.proxy is Proxy.GENERIC
        )
        acquires = self._of(
            lambda one: isinstance(one.step, Access) and one.reads is not None
            and one.step.semantics in ("acquire", "acq_rel")
        )  # fmt: skip
        releases = self._of(
            lambda one: isinstance(one.step, Access) and one.writes is not None
            and one.step.semantics in ("release", "acq_rel")
        )  # fmt: skip
        strong = self._of(is_strong)
        fences = self._of(lambda one: isinstance(one.step, Fence) and one.step.proxy is None)
        po_place = (self.po & self.vloc).maybe()
        strong_writes, strong_reads = strong & self.writes, strong & self.reads
        self.release = po_place.between(releases, strong_writes) | self.po.between(
            fences, strong_writes
        )
        self.acquire = po_place.between(strong_reads, acquires) | self.po.between(
            strong_reads, fences
        )
        rmw = [0] * self.size
        for read, write in self._halves:
            rmw[read] |= 1 << write
        self.rmw = _Relation(rmw)
        self.barrier = self._pairs(
            lambda a, b: isinstance(a.step, Barrier) and isinstance(b.step, Barrier)
            and a.thread != b.thread and same_block(a, b) and a.phase == b.phase and b.step.waits
        )  # fmt: skip
        self.sc_pairs = [
            (a.number, b.number)
            for a, b in itertools.combinations(self.events, 2)
            if isinstance(a.step, Fence) and isinstance(b.step, Fence) and a.step.sc and b.step.sc
            and self.morally.holds(a.number, b.number)
        ]  # fmt: skip
        self.proxied = self._pairs(
            lambda a, b: isinstance(a.step, Fence) and isinstance(b.step, Access)
            and a.step.proxy is b.step.proxy and same_block(a, b)
        )  # fmt: skip
        self.alias_fences = self._of(
            lambda one: isinstance(one.step, Fence) and one.step.proxy is Proxy.ALIAS
        )
        self.same_way = self._pairs(
            lambda a, b: isinstance(a.step, Access) and isinstance(b.step, Access)
            and a.step.proxy is b.step.proxy and same_block(a, b)
        )  # fmt: skip
        needs = [0] * self.size
        for first, second in self._needs:
            if first != second:
                needs[first] |= 1 << second
        self.needs = _Relation(needs)

    def _with(self, rf: _Relation, place: Mapping[int, str]) -> Iterator[Outcome]:
        """Yield the outcomes of the executions with these paths that read so."""
        if (rf | self.needs).closure().loops():
            return  # no value out of thin air
        seen = self.morally & rf
        observation = seen.then(self.rmw.then(seen).closure().maybe())
        sync = self.morally & self.release.then(observation).then(self.acquire)
        for turns in itertools.product((False, True), repeat=len(self.sc_pairs)):
            order = [0] * self.size
            for (first, second), turned in zip(self.sc_pairs, turns, strict=True):
                a, b = (second, first) if turned else (first, second)
                order[a] |= 1 << b
            fences = _Relation(order)
            edges = (sync | fences | self.barrier).then(self.po.maybe())
            base = self.po.maybe().then(edges.closure()) | self.po
            if fences.closure().loops() or self._against(fences, base):
                continue
            yield from self._coherent(rf, observation, base, place)

    def _against(self, fences: _Relation, base: _Relation) -> bool:
        """Whether causality orders two `fence.sc` otherwise than their own order does."""
        return any(
            base.holds(a, b) and not fences.holds(a, b)
            for first, second in self.sc_pairs
            for a, b in ((first, second), (second, first))
        )

    def _coherent(
        self, rf: _Relation, observation: _Relation, base: _Relation, place: Mapping[int, str]
    ) -> Iterator[Outcome]:
        """Yield the outcomes of the executions in which writes can be ordered."""
        cause = self._through_proxies(base)
        cause = cause | observation.then(cause)
        forced = cause.between(self.writes, self.writes) & self.loc
        first = self._first_initial
        for initial in range(first, self.size):
            forced.rows[initial] |= self.loc.rows[initial] & self.writes
        free = [
            (a, b)
            for a, b in itertools.combinations(range(first), 2)
            if self.writes >> a & 1 and self.writes >> b & 1 and self.morally.holds(a, b)
            and not forced.holds(a, b) and not forced.holds(b, a)
        ]  # fmt: skip
        back = rf.back()
        for turns in itertools.product((False, True), repeat=len(free)):
            rows = list(forced.rows)
            for (one, other), turned in zip(free, turns, strict=True):
                a, b = (other, one) if turned else (one, other)
                rows[a] |= 1 << b
            co = _Relation(rows).closure()
            if co.loops():
                continue
            fr = back.then(co).off(_Relation([1 << index for index in range(self.size)]))
            if (rf | fr).then(cause).loops():
                continue
            # No morally strong write comes between the halves of an atomic.
            if ((self.morally & fr).then(self.morally & co) & self.rmw).any():
                continue
            if ((self.morally & (rf | co | fr)) | (self.po & self.vloc)).closure().loops():
                continue
            if self._races is not None:
                self._races.update(self._unordered(cause, place))
            yield from self._final(co, place)

    def _unordered(self, cause: _Relation, place: Mapping[int, str]) -> Iterator[DataRace]:
        """Yield the conflicting accesses that are neither morally strong nor ordered.

        The halves of an atomic are one operation: what one of them is before or after, both are.
        """
        whole = {number: number for number in range(self.size)}
        whole |= {write: read for read, write in self._halves}
        ordered = {
            (whole[a], whole[b]) for a in range(self.size) for b in range(self.size)
            if cause.holds(a, b)
        }  # fmt: skip
        for one, other in itertools.combinations(self.events, 2):
            if not (isinstance(one.step, Access) and isinstance(other.step, Access)):
                continue
            if one.thread < 0 or other.thread < 0 or one.thread == other.thread:
                continue
            if place[one.number] != place[other.number] or (
                one.writes is None and other.writes is None
            ):
                continue
            a, b = whole[one.number], whole[other.number]
            if (a, b) in ordered or (b, a) in ordered:
                continue
            if not self.morally.holds(one.number, other.number):
                yield DataRace(threads=(one.thread, other.thread), accesses=(one.step, other.step))

    def _through_proxies(self, base: _Relation) -> _Relation:
        """Return the proxy-preserved base causality order."""
        generic = self.generic
        leave = base & self.proxied.back()  # from a memory operation to a fence of its proxy
        enter = base & self.proxied  # from such a fence to the operation
        everything = (1 << self.size) - 1
        one = _Relation([1 << index for index in range(self.size)])
        begin = one.between(generic, generic).then(base) | leave.then(base)
        steady = base.between(generic, generic) | (base & self.same_way)
        through = leave.then(base).between(everything, generic)
        through = (
            through | base.between(generic, everything).then(enter) | leave.then(base).then(enter)
        )
        aliased = begin.between(everything, self.alias_fences)
        after = base.between(self.alias_fences, generic) | base.between(
            self.alias_fences, everything
        ).then(enter)
        return ((steady | through) & self.vloc) | (aliased.then(after) & self.loc)

    def _final(self, co: _Relation, place: Mapping[int, str]) -> Iterator[Outcome]:
        last: list[list[int]] = []
        for where in self.places:
            writers = [
                one for one in self.events if one.writes is not None and place[one.number] == where
            ]
            last.append(sorted({one.writes or 0 for one in writers if not co.rows[one.number]}))
        registers = tuple(path.registers for path in self._paths)
        for values in itertools.product(*last):
            yield Outcome(registers=registers, memory=dict(zip(self.places, values, strict=True)))
