"""Safety of a launch for all sizes, blocks, threads and data: proved, refuted or unknown.

Memory: every load, store, atomic and asynchronous copy lies within the allocation that its
address was computed from, and at a multiple of its bytes. Order: no two threads touch one byte
without a barrier between, unless both read or both are atomic, and all threads of a block meet
the same barriers. Written: every byte that is read was written before. A refutation is a size at
which the machine runs into the fault, never the solver's word alone.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ptxsan import isa
from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineFinding
from ptxsan.limits import MOST_SHARED
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.prove import graph
from ptxsan.prove import law as L
from ptxsan.prove.accesses import Access
from ptxsan.prove.execute import Execution, GivenUpError
from ptxsan.prove.machine import MOST_BLOCKS, Allocation, Axes, AxisDomain, Domain, Thread
from ptxsan.prove.races import Order, Parted, Unordered, ordered
from ptxsan.prove.replay import (
    MEMORY_FAULTS,
    MOST_OF_ONE,
    ORDER_FAULTS,
    UNWRITTEN_FAULTS,
    Datum,
    Extent,
    Replayed,
    extent,
    replay,
    risen,
)
from ptxsan.prove.solver import Countered, Discharge, Open, Shown, Solver, closure
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    Atom,
    Atoms,
    Flag,
    Formula,
    Le,
    Symbol,
    atoms_of,
    decided,
    holds,
    literals,
    negated,
    value_of,
)
from ptxsan.prove.threads import Threads
from ptxsan.prove.unwritten import Before, covered
from ptxsan.syntax import SourceLine

NARROWER = (1 << 29,)
_REPLAYS = 6
_MOST_RISING = 1 << 12  # integers of a refutation
_DOUBTED = 10  # lines of the source that are asked about, once one failed
_WHOLE_S = 40.0  # for whole launches at suspected sizes
_GLANCE_S = 2.0  # for one of them at first: what is wrong mostly shows at once
_LARGEST, _LARGEST_S = 4, 6.0  # launches of which some blocks run, and seconds for each
_ALSO = 3
LEAST_CONFIRMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """It holds at all sizes: `accesses`, or pairs of them, were shown.

    `discharged` counts goals by what settled them; tensors have fewer than `limit` elements.
    """

    accesses: int
    discharged: Mapping[str, int]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted:
    """The machine runs into a fault at these sizes, where inputs hold `data`."""

    sizes: Mapping[str, int]
    finding: MachineFinding
    data: tuple[Datum, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Not proved: the first line and reason. `suspects` are sizes that were run without a fault,
    or could not be run.
    """

    line: int
    source: SourceLine | None
    reason: str
    suspects: tuple[Mapping[str, int], ...] = ()


Answer = Proved | Refuted | Unknown
Bounds: TypeAlias = Mapping[int, L.Integers]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAnswer:
    """The answers to one launch: whether it stays within its memory, whether its threads are in
    order wherever they share some, and whether what is read was written. `written` are the
    names of the regions that it may write in some call, None where its memory is not proved.
    `seconds` counts everything.
    """

    kernel: str
    answer: Answer
    races: Answer
    initialized: Answer
    seconds: float
    written: frozenset[str] | None = None
    solver_s: float = 0.0
    questions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Safe:
    """A launch whose memory is safe, as it was followed.

    `in_order` says that it is only if its threads are in order: integers are those of the domain
    because nobody else writes a place before it is read.
    """

    proved: Proved
    execution: Execution
    axes: Axes
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class _Failure:
    access: Access | None
    reason: str
    line: int = 0
    sizes: Mapping[str, int] | None = None
    block: tuple[int, int, int] = (0, 0, 0)
    data: tuple[Datum, ...] = ()
    plain: bool = False  # sizes and the thread's place decide it, no data


def prove_launch(
    law: L.LaunchLaw,
    scope: L.Scope,
    domain: Domain,
    *,
    values: Bounds | None = None,
    limit_s: float = 60.0,
    also: Sequence[Mapping[str, int]] = (),
    earlier: Sequence[L.LaunchLaw | None] = (),
) -> LaunchAnswer:
    """Answer whether a launch stays within its memory for all sizes of a domain.

    `values` maps a region's number to the integers in it, where the domain knows them and the
    kernel does not write there. `also` are sizes to run the launch at
    where nothing is proved. `earlier` are the launches of the call before it, None for one whose
    memory was not proved. Raises MachineError where z3 is not installed.
    """
    started = time.perf_counter()
    until = started + limit_s
    solver = Solver(until=until)
    values = values or {}
    why = "not proved, as the launch was not proved to stay within its memory"
    races: Answer = Unknown(line=0, source=None, reason=why)
    initialized: Answer = races
    doubts: list[_Failure] = []
    written: frozenset[str] | None = None
    limits = (domain.limit, *(one for one in NARROWER if domain.listed < one < domain.limit))
    for limit in limits:
        solver.until = until if limit == domain.limit else time.perf_counter() + limit_s
        found = _attempt(law, scope, replace(domain, limit=limit), values, solver)
        if isinstance(found, _Safe):
            answer: Answer = found.proved
            touched = {one.allocation for one in found.execution.accesses if one.what != "read"}
            written = frozenset(
                name
                for number, names in enumerate(law.called)
                if found.execution.thread.region(number) in touched
                for name in names
            )
            solver.until = time.perf_counter() + limit_s
            order, races = _in_order(law, found, solver, also, values)
            if found.in_order and not isinstance(races, Proved):
                answer = Unknown(
                    line=0, source=None,
                    reason="what it reads of an input may have been written by another thread",
                )  # fmt: skip
                races = initialized
                break
            solver.until = time.perf_counter() + limit_s
            initialized = _written(law, found, solver, also, values, order, earlier)
            break
        doubts += found
        if limit == limits[-1]:
            answer = _judged(law, found, also, MEMORY_FAULTS, values, beyond=doubts)
        else:
            answer = _judged(law, found, (), MEMORY_FAULTS, values)
        if isinstance(answer, Refuted):
            break
    else:
        answer = _run_largest(law, scope, domain, values, also) or answer
    return LaunchAnswer(
        kernel=law.kernel,
        answer=answer,
        races=races,
        initialized=initialized,
        written=written if isinstance(answer, Proved) else None,
        seconds=time.perf_counter() - started,
        solver_s=sum(solver.spent_s.values()),
        questions=dict(solver.asked),
    )


def prove_call(
    law: L.CallLaw,
    domain: Domain,
    *,
    values: Mapping[str, L.Integers] | None = None,
    limit_s: float = 60.0,
) -> list[LaunchAnswer]:
    """Answer for every launch of a class of calls, at most `limit_s` seconds each.

    `values` maps the name of an input to the integers in it: used where no earlier launch of the
    call may have written there. Raises MachineError without z3.
    """
    if not is_confirmed(law, domain):
        why = (
            f"its launches were seen at {law.fitted + law.confirmed} sizes only; a law asks for "
            f"{3 * LEAST_CONFIRMED}"
        )
        nothing = Unknown(line=0, source=None, reason=why)
        return [
            LaunchAnswer(
                kernel=one.kernel, answer=nothing, races=nothing, initialized=nothing, seconds=0.0
            )
            for one in law.launches
        ]
    found: list[LaunchAnswer] = []
    for one in law.launches:
        earlier = [
            launch if isinstance(answer.answer, Proved) else None
            for launch, answer in zip(law.launches, found, strict=False)
        ]
        changed = [answer.written for answer in found]
        known = {
            number: values[name]
            for number, name in enumerate(one.names)
            if values is not None and name in values
            and all(names is not None and name not in names for names in changed)
        }  # fmt: skip
        found.append(
            prove_launch(
                one, law.scope, domain, values=known, limit_s=limit_s,
                also=(law.witness.sizes, *law.seen[-_ALSO:]), earlier=earlier,
            )
        )  # fmt: skip
    return found


def is_confirmed(law: L.CallLaw, domain: Domain) -> bool:
    """Whether enough calls confirmed a law to speak of sizes that were not recorded."""
    free = any(axis.low != axis.high for axis in domain.axes.values())
    return not free or law.confirmed >= LEAST_CONFIRMED


def as_recorded(law: L.CallLaw, domain: Domain) -> tuple[L.CallLaw, Domain]:
    """Return the launches at the smallest recorded sizes, as a law and a domain of one point."""
    sizes = law.witness.sizes
    (one,) = L.laws([law.witness])
    axes = {name: AxisDomain(low=sizes[name], high=sizes[name], multiple=1) for name in domain.axes}
    return one, replace(domain, axes=axes)


def _attempt(
    law: L.LaunchLaw,
    scope: L.Scope,
    domain: Domain,
    values: Bounds,
    solver: Solver,
    *,
    trusted: bool = True,
) -> _Safe | list[_Failure]:
    """Follow a launch and settle what it has to be.

    Where the kernel writes a region with known integers they are taken to be there (`trusted`)
    only while each place is read before anything is written there; else they are dropped.
    """
    if law.clustered:
        return [_Failure(None, "clusters of blocks are not followed")]
    try:
        program = build(parse(law.module), law.kernel)
    except MachineError as error:
        return [_Failure(None, str(error), error.line)]
    atoms = Atoms()
    axes = Axes(atoms, domain, scope)
    thread = Thread(program=program, atoms=atoms, axes=axes, law=law)
    for number, one in values.items():
        held = thread.region(number)
        held.values, held.value_bytes = (axes.poly(one.low), axes.poly(one.high)), one.nbytes
        held.rising = one.rising and held.length is not None
    execution = Execution(thread, program, solver, until=solver.until)
    try:
        execution.run()
        written = {one.allocation for one in execution.accesses if one.what != "read"}
        changed = {one for one in written if one is not None and one.values is not None}
        if changed and not (trusted and _read_first(execution, changed)):
            kept = {n: v for n, v in values.items() if thread.region(n) not in written}
            return _attempt(law, scope, domain, kept, solver)
    except (GivenUpError, MachineError) as error:
        line = getattr(error, "line", 0)
        return [
            _Failure(None, str(error), line),
            *_checked(execution, axes, solver, values, most=1)[0],
        ]
    most = 1 if changed else _DOUBTED
    failures, discharged = _checked(execution, axes, solver, values, most=most)
    if changed and (failures or execution.gaps):
        return _attempt(law, scope, domain, values, solver, trusted=False)
    gaps = [_Failure(None, why, line) for line, why in sorted(execution.gaps.items())]
    if failures or gaps:
        return [*gaps, *failures]
    proved = Proved(
        accesses=len(execution.accesses), discharged=dict(discharged), limit=domain.limit
    )
    return _Safe(proved=proved, execution=execution, axes=axes, in_order=bool(changed))


def _read_first(execution: Execution, regions: set[Allocation]) -> bool:
    """Whether a thread reads nothing of regions behind a place where it may have written them.

    If its threads are in order as well, and no barrier lets one read what another wrote, then
    every read finds what was there before the launch: the first that did not would have been
    found to race with what was written.
    """
    program = execution.program
    if any(isa.row(one).orders is not isa.Orders.NOTHING for one in program.body):
        return False
    owner = {
        site: number
        for number, block in enumerate(program.blocks)
        for site in range(block.start, block.end)
    }
    read: set[tuple[Allocation, int]] = set()
    behind: set[tuple[Allocation, int]] = set()
    for one in execution.accesses:
        if one.allocation is None or one.allocation not in regions:
            continue
        if one.what != "write":
            if one.what != "read":
                return False
            read.add((one.allocation, one.site))
            continue
        later = graph.behind(program, owner[one.site], one.site)
        behind.update((one.allocation, site) for site in later)
    return read.isdisjoint(behind)


def _in_order(
    law: L.LaunchLaw, safe: _Safe, solver: Solver, also: Sequence[Mapping[str, int]], values: Bounds
) -> tuple[Order | None, Answer]:
    """Answer whether the threads of a launch whose memory is safe are in order."""
    try:
        order = ordered(safe.execution, solver)
    except MachineError as error:
        return None, Unknown(line=error.line, source=None, reason=str(error))
    if not order.failures:
        limit = safe.proved.limit
        return order, Proved(accesses=order.pairs, discharged=order.discharged, limit=limit)
    failures = []
    for one in order.failures:
        sizes = None if one.values is None else safe.axes.sizes(one.values)
        match one:
            case Parted(line=line, reason=reason):
                failures.append(_Failure(None, reason, line, sizes))
            case Unordered(first=first, second=second, same_block=same_block, reason=reason):
                where = "threads of a block" if same_block else "threads of two blocks"
                what = (
                    f"a {first.what} and the {second.what} of line {second.instruction.line} by "
                    f"{where} may touch the same byte of {_name(first)} without order"
                )
                text = f"{what}: {reason}" if reason else what
                failures.append(_Failure(first, text, first.instruction.line, sizes))
    return order, _judged(law, failures, also, ORDER_FAULTS, values)


def _written(
    law: L.LaunchLaw,
    safe: _Safe,
    solver: Solver,
    also: Sequence[Mapping[str, int]],
    values: Bounds,
    order: Order | None,
    earlier: Sequence[L.LaunchLaw | None],
) -> Answer:
    """Answer whether what a launch whose memory is safe reads was written before."""
    thread = safe.execution.thread
    try:
        before = list(_before(law, safe, solver, earlier))
        seen = covered(
            safe.execution, solver,
            fresh=[thread.region(number) for number in law.unwritten],
            alike=order.alike if order is not None else None, before=before,
        )  # fmt: skip
    except (GivenUpError, MachineError) as error:
        return Unknown(line=getattr(error, "line", 0), source=None, reason=str(error))
    if not seen.failures:
        return Proved(accesses=seen.reads, discharged=seen.discharged, limit=safe.proved.limit)
    failures = [
        _Failure(
            one.access, one.reason, one.access.instruction.line,
            None if one.values is None else safe.axes.sizes(one.values),
        )
        for one in seen.failures
    ]  # fmt: skip
    return _judged(law, failures, also, UNWRITTEN_FAULTS, values)


def _before(
    law: L.LaunchLaw, safe: _Safe, solver: Solver, earlier: Sequence[L.LaunchLaw | None]
) -> Iterator[Before]:
    """Yield the earlier launches that were given memory which nobody else wrote."""
    given = {number for launches in law.unwritten.values() for number, _ in launches}
    for number in sorted(given):
        one = earlier[number] if number < len(earlier) else None
        if one is None:
            continue
        program = build(parse(one.module), one.kernel)
        thread = Thread(program=program, atoms=safe.axes.atoms, axes=safe.axes, law=one)
        execution = Execution(thread, program, solver, until=solver.until)
        execution.run()
        same = {
            safe.execution.thread.region(region): thread.region(other)
            for region, launches in law.unwritten.items()
            for launch, other in launches
            if launch == number
        }
        if not execution.gaps:
            yield Before(execution=execution, same=same)


def _name(access: Access) -> str:
    return access.allocation.name if access.allocation is not None else "memory"


def _checked(
    execution: Execution, axes: Axes, solver: Solver, values: Bounds, *, most: int
) -> tuple[list[_Failure], Counter[str]]:
    """Return failures of the first `most` lines that have some, and what settled other goals."""
    failures: list[_Failure] = []
    discharged: Counter[str] = Counter()
    threads = Threads(execution.thread)
    places: set[object] = set()  # the lines of the source that failed: an unrolled loop has one
    for access in execution.accesses:
        place = access.instruction.source or access.instruction.line
        if place in places:
            continue
        if len(places) >= most:
            break
        failed = len(failures)
        if access.why:
            lawless = "; ".join(f"{k}: {v}" for k, v in execution.thread.lawless.items())
            why = f"{access.why}{f' ({lawless})' if lawless else ''}"
            failures.append(_Failure(access, why, access.instruction.line))
            places.add(place)
            continue
        for word, goal in access.goals:
            if decided(goal) != TRUE and threads.hold(access.path, goal):
                discharged[str(Discharge.THREADS)] += 1
                continue
            match solver.answer(access.path, goal):
                case Shown(by):
                    discharged[str(by)] += 1
                case Countered(counter):
                    held = _accepted(
                        execution, axes, solver, (*access.path, negated(goal)), counter
                    )
                    sizes = axes.sizes(held)
                    reason = (
                        f"a {access.what} of {access.nbytes} bytes {word} {_name(access)}, says z3"
                    )
                    line, block = access.instruction.line, execution.thread.block(held)
                    data = _data(execution, access, held, values, sizes)
                    plain = not any(one.data for one in closure(_deciding(access)))
                    failures.append(_Failure(access, reason, line, sizes, block, data, plain))
                    break
                case Open(reason):
                    text = f"a {access.what} of {access.nbytes} bytes: {reason}"
                    failures.append(_Failure(access, text, access.instruction.line))
                    break
        if len(failures) > failed:
            places.add(place)
    return failures, discharged


def _accepted(
    execution: Execution,
    axes: Axes,
    solver: Solver,
    doubt: Sequence[Formula],
    held: Mapping[Atom, int],
) -> Mapping[Atom, int]:
    """Return values for which a doubt holds and a GPU has the shared memory that the launch asks.

    `held` where there are none: then nothing is launched.
    """
    thread = execution.thread
    if thread.law.shared_bytes is None:
        return held
    asked = axes.poly(thread.law.shared_bytes) + sum(one.bytes for one in thread.program.shared)
    fits = Le(asked - MOST_SHARED)
    if holds(fits, _Values(held), {}):
        return held
    other = solver.answer((*doubt, fits), FALSE)
    return other.values if isinstance(other, Countered) else held


def _data(
    execution: Execution,
    access: Access,
    held: Mapping[Atom, int],
    values: Bounds,
    sizes: Mapping[str, int],
) -> tuple[Datum, ...]:
    """Return what inputs hold in a counterexample, where nothing else that is read decides it.

    What memory holds that is neither free nor rising is not known, nor what a float makes a
    branch do. Of rising integers all are returned.
    """
    thread = execution.thread
    regions = {
        thread.region(number): number for number, one in values.items() if one.free or one.rising
    }
    if any(isinstance(one, Flag) for formula in access.path for one in literals(formula)):
        return ()
    read = [
        one for one in closure(_deciding(access)) if one.data and isinstance(one.meaning, Symbol)
    ]
    known = _Values(held)
    found: dict[tuple[int, int], Datum] = {}
    for atom in read:
        allocation, offset = execution.loads.get(atom, (None, None))
        if allocation not in regions or offset is None or atom not in held:
            return ()
        number = regions[allocation]
        try:
            place = value_of(offset, known, {})
        except (KeyError, ZeroDivisionError):
            return ()
        nbytes = values[number].nbytes
        value = (held[atom] + (1 << 8 * nbytes - 1)) % (1 << 8 * nbytes) - (1 << 8 * nbytes - 1)
        found[number, place] = Datum(
            region=number, name=allocation.name, offset=place, nbytes=nbytes, value=value
        )
    for allocation, number in regions.items():
        one, length = values[number], thread.law.regions[number]
        here = {place: datum for (at, place), datum in found.items() if at == number}
        if not one.rising or not here or length is None:
            continue
        count = L.evaluated(length, sizes) // one.nbytes
        known_ones = {place // one.nbytes: datum.value for place, datum in here.items()}
        bounds = L.evaluated(one.low, sizes), L.evaluated(one.high, sizes)
        whole = risen(count, *bounds, known_ones) if count <= _MOST_RISING else None
        if whole is None or any(place % one.nbytes for place in here):
            return ()
        for place, value in enumerate(whole):
            found[number, place * one.nbytes] = Datum(
                region=number, name=allocation.name, offset=place * one.nbytes,
                nbytes=one.nbytes, value=value,
            )  # fmt: skip
    return tuple(found[key] for key in sorted(found))


def _deciding(access: Access) -> set[Atom]:
    """Return what decides whether an access is made, and where."""
    return set(access.offset.atoms).union(*map(atoms_of, access.path))


class _Values(dict[Atom, int]):
    """Values of symbols; what a model leaves out is as small as it may be."""

    def __missing__(self, atom: Atom) -> int:
        return max(atom.low or 0, 0)


def _doubtful(one: _Failure) -> int:
    """Order suspects: what sizes decide, what known data decides, what other memory decides."""
    return 0 if one.plain else 1 if one.data else 2


def _run_largest(
    law: L.LaunchLaw,
    scope: L.Scope,
    domain: Domain,
    values: Bounds,
    also: Sequence[Mapping[str, int]],
) -> Refuted | None:
    """Run some blocks at sizes that are as large as they may be, along one axis at a time.

    What an integer of 32 bits does that wraps shows there, also where it is a loop's: of that the
    solver knows too little to name sizes.
    """
    tried: list[Mapping[str, int]] = []
    for small, (name, axis) in itertools.product(also[:1], domain.axes.items()):
        low, high = small[name], (axis.high or domain.limit)
        if not _runs_alone(law, domain, small):
            continue
        while high - low > axis.multiple:  # extents and lengths rise with sizes
            middle = (low + high) // 2 // axis.multiple * axis.multiple
            if middle <= low:
                break
            if _runs_alone(law, domain, {**small, name: middle}):
                low = middle
            else:
                high = middle
        tried.append({**small, name: low})
    for sizes in [one for one in tried if scope.holds(one)][:_LARGEST]:
        across, down, deep = (L.evaluated(one, sizes) for one in law.grid if one is not None)
        blocks = tuple(
            ((across - 1) // part, (down - 1) // part, (deep - 1) // part) for part in (1, 2, 4)
        )
        ran = replay(law, sizes, MEMORY_FAULTS, blocks=blocks, values=values, limit_s=_LARGEST_S)
        if ran.faults:
            return Refuted(sizes=sizes, finding=ran.faults[0])
    return None


def _runs_alone(law: L.LaunchLaw, domain: Domain, sizes: Mapping[str, int]) -> bool:
    """Whether sizes are the domain's, a GPU launches them, and blocks of them can run here."""
    known = (*law.grid, *law.block, *law.regions)
    if any(one is None for one in known):
        return False
    numbers = [L.evaluated(one, sizes) for one in known if one is not None]
    return (
        all(0 < L.evaluated(one, sizes) < domain.limit for one in domain.elements)
        and all(0 < one <= most for one, most in zip(numbers, MOST_BLOCKS, strict=False))
        and all(0 <= length <= MOST_OF_ONE for length in numbers[6:])
    )


def _extent(law: L.LaunchLaw, one: _Failure) -> Extent | None:
    return None if one.sizes is None else extent(law, one.sizes)


def _judged(
    law: L.LaunchLaw,
    failures: list[_Failure],
    also: Sequence[Mapping[str, int]],
    faults: frozenset[Kind],
    values: Bounds,
    *,
    beyond: Sequence[_Failure] = (),
) -> Refuted | Unknown:
    """Run what was suspected; a fault that the machine shows refutes.

    Small launches come first, as they are easier to look at. A fault of memory is then looked for
    in the suspected blocks by themselves, those of `beyond` too, whose launches may be too large
    to run; then in launches that take long.
    """
    suspects = sorted((one for one in failures if one.sizes is not None), key=_doubtful)[:_REPLAYS]
    whole = [*suspects, *(_Failure(None, "", sizes=sizes) for sizes in also)]
    small: list[_Failure] = []
    alone: list[_Failure] = []
    if faults is MEMORY_FAULTS:
        small = [one for one in whole if _extent(law, one) is Extent.SMALL]
        alone = [one for one in suspects if _extent(law, one) is Extent.WHOLE]
        large = [one for one in beyond if _extent(law, one) is Extent.LARGE]
        alone += sorted(large, key=_doubtful)[:_REPLAYS]
    ran: dict[object, Replayed] = {}  # what doubts of the same sizes share
    for one in small:
        found = _shown(law, one, faults, values, ran)
        if found is not None:
            return found
    for one in alone:
        found = _shown(law, one, faults, values, ran, blocks=(one.block,))
        if found is not None:
            return found
    until = time.perf_counter() + _WHOLE_S
    for one in whole:
        if one not in small and time.perf_counter() < until:
            found = _shown(law, one, faults, values, ran)
            if found is not None:
                return found
    first = failures[0]
    source = first.access.instruction.source if first.access is not None else None
    return Unknown(
        line=first.line, source=source, reason=first.reason,
        suspects=tuple(one.sizes for one in suspects if one.sizes is not None),
    )  # fmt: skip


def _shown(
    law: L.LaunchLaw,
    doubt: _Failure,
    kinds: frozenset[Kind],
    values: Bounds,
    ran: dict[object, Replayed],
    *,
    blocks: tuple[tuple[int, int, int], ...] = (),
) -> Refuted | None:
    """Return the fault that the machine runs into at a doubt's sizes, with its data and without.

    `ran` holds what was run before, and what is run now.

    With data it has to be the fault of that very line: nothing else is known not to depend on
    what other memory holds.
    """
    assert doubt.sizes is not None
    for seed in (None, 1) if kinds is ORDER_FAULTS else (None,):
        for data in dict.fromkeys((doubt.data, ())):
            key = tuple(sorted(doubt.sizes.items())), seed, blocks, data
            if key not in ran:
                again = partial(
                    replay, law, doubt.sizes, kinds, seed=seed, blocks=blocks, values=values,
                    data=data,
                )  # fmt: skip
                glance = again(limit_s=_GLANCE_S)
                # A thread that has lost its way may run on for long after its fault.
                ran[key] = glance if glance.faults or not glance.why else again()
            for fault in ran[key].faults:
                if not data or fault.ptx_line == doubt.line:
                    return Refuted(sizes=doubt.sizes, finding=fault, data=data)
    return None
