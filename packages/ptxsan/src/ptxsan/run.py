"""Executes one launch: parse tree and buffers in, findings out, buffers changed in place."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxsan import (
    blind,
    budget,
    coalescing,
    contexts,
    describe,
    footprints,
    limits,
    precision,
    printed,
    roles,
    watching,
)
from ptxsan.codegen import Code, decides, generate, outcome_at
from ptxsan.compile import Compiled, compile_code
from ptxsan.deadlines import within
from ptxsan.emit.calls import TOO_DEEP_CODE
from ptxsan.errors import LaunchError, MachineError
from ptxsan.findings import (
    Kind,
    MachineFinding,
    MachineReport,
    Severity,
    Statistics,
    connected,
    joined,
)
from ptxsan.globals import module_memory
from ptxsan.heap import module_heap
from ptxsan.interplay import Interplay, interplay
from ptxsan.launch import Dim3, Launch
from ptxsan.options import Options
from ptxsan.program import CLOCKS, Program, build
from ptxsan.reach import barrier_reach
from ptxsan.record import Record
from ptxsan.records import LaunchState, prepare
from ptxsan.runtime import inflight, symbols
from ptxsan.runtime import layout as L
from ptxsan.syntax import Module
from ptxsan.taint import data_dependent

_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
_Ready = Callable[[LaunchState], None]
_Key = tuple[str, str, str, bool, int, bool]
_STUCK, _WAITS, _MOVED = 2, 4, 5  # what rt_run returns
UNTIL_ALL_WAIT = 0xFFFF_FFFF  # turns of blocks that no launch has
_MOST_LOADED = 512
_SHORT_S = 0.002  # what took less has one host thread the next time
_ROUNDS_OF_CLOCKS, _ROUNDS_OF_CHANCE = 64, 16
_FULL = {
    1: "more synchronisation events than the machine keeps track of",
    2: "more synchronisation of one thread than the machine can count",
    3: "more asynchronous copies (cp.async) of one thread at once than it has room for",
    4: f"more than {L.MOST_MBARRIERS} mbarriers of one block at once",
    5: f"more than {inflight.ENTRIES} asynchronous operations of one block at once",
    6: "more computed values in memory than the algebra keeps residues of",
    TOO_DEEP_CODE: "a function that calls itself more deeply than the machine expands it",
    9: "more memory of device malloc than the machine has room for (freed memory is not reused)",
    L.TOO_MANY_WAIT: (
        "blocks wait for blocks that have not begun, and more do not fit into the machine at once"
    ),
    L.TOO_MANY_STARTED: (
        "more loads and stores of tensor memory, or threads that start operations of the tensor "
        "core, than the machine keeps track of"
    ),
    L.BAD_DESCRIPTOR: (
        "a descriptor of tcgen05 with a base offset, an absolute leading dimension outside of "
        "products of K = 96, or 128-byte swizzling in units of 32 bytes"
    ),
    L.BAD_DESCRIPTOR + 1: (
        "a sparse product of tcgen05 with fewer than 128 rows in a block, metadata from an odd "
        "column on, a selector above 1, small elements of B with scales, or B swizzled by 32 bytes"
    ),
    L.BAD_DESCRIPTOR + 3: (
        "a zero-column mask of tcgen05.mma.ws that begins behind its first span, or a shift of B "
        "within 16 bytes"
    ),
    L.BAD_DESCRIPTOR + 2: (
        "a product of tcgen05 with A in tensor memory and elements of 4 or 6 bits, or fewer than "
        "128 rows where weights are stationary"
    ),
    L.BAD_DESCRIPTOR + 4: (
        "a product of tcgen05 of 4-bit elements whose descriptor asks for a depth above 96, or for "
        "96 with A in tensor memory or turned operands"
    ),
    L.UNKNOWN_MAP: (
        "a tensor map in hardware's own form with interleaving, element strides or an element type "
        "that no public text describes"
    ),
    7: "an im2col copy that begins outside of its bounding box, of which no documentation tells",
}
_ONE_ORDER = "other orders of what atomics ordered: one run took too long for a second"
_ABOUT_ORDER = frozenset((Kind.RACE, Kind.SAME_VALUE_RACE, Kind.UNORDERED, Kind.ACQUIRE_FENCE))
_MEANWHILE = "what the host and other streams do while the kernel waits for them"
_ONE_PASS = "races that a second run would confirm (the kernel waited for the host)"
_LENIENT = "some races between blocks, which release and acquire more than is kept track of"
NOT_COVERED = (
    "weak memory orderings that no execution order shows",
    "what the assembler makes of the PTX",
    "code paths compiled for other architectures",
)
OVERLAP = "what overlaps with this launch (griddepcontrol does nothing within it)"
_USES = (  # (how what reads it begins, what is not looked at)
    (CLOCKS, "time (a clock counts executed instructions)"),
    (("%smid", "%nsmid"), "where blocks run (%smid is 0)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A kernel in machine code, with what is known of it without running it.

    `took_s` are the seconds of its last run by grid and block, times its host threads.
    """

    program: Program
    code: Code
    compiled: Compiled
    dependent: tuple[int, ...]
    interplay: Interplay
    roles: NDArray[np.uint8] | None
    reach: tuple[NDArray[np.uint32], NDArray[np.uint8]]  # see `barrier_reach`; only read
    load_s: float
    took_s: dict[tuple[Dim3, Dim3], float]


_LOADED: dict[_Key, Loaded] = {}


def load(module: Module, kernel: str, options: Options) -> Loaded:
    """Return a kernel compiled for these options; kept for the life of the process.

    Raises MachineError with the PTX line of what cannot be executed.
    """
    compiled_for = (options.kind, options.races, options.arch, options.optimise)
    key = (module.text, kernel, *compiled_for)
    found = _LOADED.get(key)
    if found is not None:
        return found
    started = time.perf_counter()
    program = build(module, kernel)
    code = generate(program, options)
    compiled = compile_code(code, symbols.addresses(code.calls), optimise=options.optimise)
    if len(_LOADED) >= _MOST_LOADED:
        _LOADED.clear()
    _LOADED[key] = Loaded(
        program=program, code=code, compiled=compiled, dependent=data_dependent(program),
        interplay=interplay(program), roles=roles.table_of(program) if options.races else None,
        reach=barrier_reach(program), load_s=time.perf_counter() - started, took_s={},
    )  # fmt: skip
    return _LOADED[key]


class Meanwhile(Protocol):
    """Others who may change a launch's memory while it runs.

    `waited` says whether its blocks ever waited for them, `beside` whether they go on beside it.
    They have a turn once all blocks wait for memory, and after `turns` turns of blocks.
    """

    waited: bool
    beside: bool

    @property
    def turns(self) -> int:
        """After how many turns of blocks they have theirs."""

    def wait(self, *, moved: bool) -> bool:
        """Let them have their turn; return whether to look at memory again.

        `moved` says that blocks got on since the last time.
        """

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Return what keeps others from the launch's memory while blocks run: atomics are not
        atomic beside other processes.
        """


def run(
    module: Module,
    launch: Launch,
    *,
    options: Options | None = None,
    meanwhile: Meanwhile | None = None,
) -> MachineReport:
    """Execute a launch; the buffers are changed in place, also when it is inconclusive.

    With `meanwhile` a launch whose blocks all wait for memory is no deadlock until that says so.

    Raises MachineError where the launch does not fit the kernel or the machine's memory, and
    LaunchError where no GPU of `options.arch` accepts it. What the
    kernel contains that the machine cannot execute makes the report inconclusive.
    """
    options = options or Options()
    least = int("".join(filter(str.isdigit, module.target)) or 0)  # an older GPU cannot load it
    options = replace(options, arch=max(options.arch, least))
    if options.blocks:
        options = replace(options, shadow=False, races=False)
    try:
        loaded = load(module, launch.kernel, options)
    except MachineError as error:
        if error.line == 0:
            raise
        return MachineReport(
            findings=(),
            statistics=Statistics(),
            oblivious=False,
            schedule=options.schedule,
            inconclusive=str(error),
            not_covered=NOT_COVERED,
        )
    if not launch.parts:
        launch = accepted(loaded.program, launch, options)
    budget.demand(loaded.program, loaded.code, launch, options)
    run_ = _Run(module, loaded, launch, options, meanwhile)
    return run_.report()


def accepted(program: Program, launch: Launch, options: Options) -> Launch:
    """Return the launch with its cluster; raise LaunchError where no GPU accepts it."""
    launch = clustered(program, launch)
    refused = limits.refusal(
        program.name, program.directives, grid=launch.grid, block=launch.block,
        cluster=launch.cluster, static_bytes=sum(one.bytes for one in program.shared),
        dynamic_bytes=launch.dynamic_shared_bytes, arch=options.arch,
    )  # fmt: skip
    if refused is not None:
        raise LaunchError(refused.text)
    return launch


def clustered(program: Program, launch: Launch) -> Launch:
    """Return the launch with the cluster that the kernel demands (`.reqnctapercluster`).

    Raises MachineError where the grid is no multiple of the cluster.
    """
    demanded = (*program.directives.get("reqnctapercluster", ()), 1, 1, 1)[:3]
    if launch.cluster == (1, 1, 1) and demanded != (1, 1, 1):
        launch = replace(launch, cluster=(demanded[0], demanded[1], demanded[2]))
    if any(size % one for size, one in zip(launch.grid, launch.cluster, strict=True)):
        raise MachineError(
            f"kernel '{program.name}': the grid {launch.grid} is no multiple of the cluster "
            f"{launch.cluster}; choose a grid that is"
        )
    return launch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One execution of a launch: the state that it left, its seconds, and why it has no end.

    With `lenient` more was acquired than is kept track of.
    """

    state: LaunchState
    run_s: float
    inconclusive: str | None
    lenient: bool


class _Run:
    """One launch from its buffers to its report; `_passes` are its executions so far."""

    def __init__(
        self,
        module: Module,
        loaded: Loaded,
        launch: Launch,
        options: Options,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        self._module, self._loaded, self._launch = module, loaded, launch
        self._options, self._meanwhile = options, meanwhile
        self._helped = False  # whether others changed memory that blocks waited for
        self._variables = module_memory(module, loaded.program)
        self._heap = module_heap(module, loaded.program)
        self._one_by_one = (
            loaded.interplay is Interplay.UPDATES and options.schedule != "random"
            and math.prod(launch.cluster) == 1 and not options.blocks and not launch.parts
            # What others wrote meanwhile would be lost where it has to be run again.
            and not (meanwhile is not None and meanwhile.beside)
        )  # fmt: skip
        again = options.races or self._one_by_one
        self._watch = watching.Snapshot(launch, self._variables, self._heap) if again else None
        self._passes: list[_Pass] = []

    def report(self) -> MachineReport:
        """Execute, look again at suspected races, and describe what was found."""
        first = self._execute(None, one_by_one=self._one_by_one)
        if self._watch is not None and self._one_by_one and _depends_on_order(first.state):
            self._watch.restore()
            first = self._execute(None)
        touched: tuple[footprints.Touched, ...] = ()
        if self._options.footprints:
            touched = footprints.touched(self._loaded.program, self._launch, first.state)
        meanwhile, self._meanwhile = self._meanwhile, None
        program = self._loaded.program
        # What a kernel uses may have a meaning here, and not all of that on a GPU.
        left_out = [
            text for words, text in _USES if any(name.startswith(words) for name in program.special)
        ]
        left_out += [OVERLAP] if program.overlaps else []
        # What memory was when others wrote it is not known for another run.
        if self._helped or (meanwhile is not None and meanwhile.beside):
            self._watch = None
            left_out.append(_MEANWHILE)
        runs = [(first, list(describe.records(first.state)))]
        suspects = [one for one in runs[0][1] if one.kind == L.K_SUSPECT]
        if suspects and self._watch is None:
            left_out.append(_ONE_PASS)
        if suspects and self._watch is not None and first.inconclusive is None:
            again = self._again(self._watch, suspects)
            runs.append((again, list(describe.records(again.state))))
        stopped = next((one.inconclusive for one, _ in runs if one.inconclusive), None)
        every = [one for _, records in runs for one in records]
        unused = self._unused_loads(every, first.state) if stopped is None else frozenset()
        findings = []
        for one, records in runs:
            describer = describe.Describer(program, self._launch, one.state, unused)
            findings += [found for one in records for found in describer.findings(one)]
        findings += coalescing.advice(self._loaded.program, self._launch, first.state)
        left_out += [_LENIENT] if any(one.lenient for one in self._passes) else []
        run_s = sum(one.run_s for one in self._passes)
        # Accesses may be in order only because of who came first at an atomic: then the same
        # synchronization allows the other order, in which others are first.
        chosen = any(one.state.get32(L.CHOSEN) for one, _ in runs)
        if chosen and self._options.predict and self._watch is not None:
            if run_s > self._options.limit_s / 4:
                left_out.append(_ONE_ORDER)
            elif stopped is None:
                other = self._other_order(self._watch)
                run_s += other.statistics.run_s
                findings += other.findings
        worst_first = sorted(
            filter(None, findings), key=lambda one: one.severity is not Severity.WRONG
        )
        unique = sorted(
            connected(joined(worst_first)),
            key=lambda one: (one.severity is not Severity.WRONG, one.ptx_line, one.kind),
        )
        return self._summary(
            first.state, unique, inconclusive=stopped, left_out=tuple(left_out),
            run_s=run_s, touched=touched,
        )  # fmt: skip

    def _other_order(self, before: watching.Snapshot) -> MachineReport:
        """Return what the launch shows when those who came last come first; keep memory."""
        after = watching.Snapshot(self._launch, self._variables, self._heap)
        before.restore()
        schedule = "forward" if self._options.schedule == "reverse" else "reverse"
        options = replace(
            self._options, schedule=schedule, predict=False, advice=False, footprints=False
        )
        other = _Run(self._module, self._loaded, self._launch, options).report()
        after.restore()
        findings = tuple(
            replace(one, text=f"{one.text} (when others come first: schedule {schedule})")
            for one in other.findings
            if one.kind in _ABOUT_ORDER
        )
        return replace(other, findings=findings)

    def _unused_loads(self, found: list[Record], state: LaunchState) -> frozenset[int]:
        """Return the racing loads whose values reach nothing, by running the launch without."""
        loads = blind.racing_loads(self._loaded.program, found)
        if not loads or self._watch is None:
            return frozenset()
        if blind.bytes_needed(state) > self._options.memory_bytes:
            return frozenset()
        after = watching.Snapshot(self._launch, self._variables, self._heap)
        unused = self._nothing_differs(loads, found, state, before=self._watch, after=after)
        after.restore()
        return loads if unused else frozenset()

    def _nothing_differs(
        self,
        loads: frozenset[int],
        found: list[Record],
        state: LaunchState,
        *,
        before: watching.Snapshot,
        after: watching.Snapshot,
    ) -> bool:
        writers = blind.writers(state)
        learnt = self._again(before, [], functools.partial(blind.learn, writers=writers))
        said = printed.lines(self._launch, state)
        stopped = learnt.inconclusive is not None
        take_away = functools.partial(blind.take_away, loads=loads, writers=writers)
        for given in blind.givens(learnt.state):
            without = self._again(before, [], functools.partial(take_away, given=given))
            new = blind.others(describe.records(without.state)) - blind.others(found)
            stopped = stopped or without.inconclusive is not None
            if stopped or not blind.decide(new) or not after.is_now():
                return False
            if printed.lines(self._launch, without.state) != said:
                return False
            if not new:  # no branch depends on the number that is given
                break
        return True

    def _again(
        self, before: watching.Snapshot, suspects: list[Record], ready: _Ready = lambda state: None
    ) -> _Pass:
        """Run the launch once more as the first time, with these granules watched."""
        before.restore()
        return self._execute(suspects, ready)

    def _execute(
        self,
        suspects: list[Record] | None,
        ready: _Ready = lambda state: None,
        *,
        one_by_one: bool = False,
    ) -> _Pass:
        loaded, launch, options = self._loaded, self._launch, self._options
        state = prepare(loaded.program, loaded.code, launch, options, self._variables, self._heap)
        records = np.zeros((len(loaded.code.collectives) + 1) * L.C_RECORD, np.uint8)
        view = records.view(np.uint32)
        for index, collective in enumerate(loaded.code.collectives):
            start = index * L.C_RECORD
            wide = records[start : start + L.C_RECORD].view(np.int64)
            wide[0] = symbols.handler(collective.handler)
            view[start // 4 + L.C_INPUTS // 4] = collective.inputs
            view[start // 4 + L.C_OUTPUTS // 4] = collective.outputs
            wide[L.C_IMMEDIATE // 8] = collective.immediate
        state.table(L.COLLECTIVES, records)
        if loaded.program.asynchronous:
            state.set64(L.ENDING, symbols.addresses(("rt_end_block",))["rt_end_block"])
        rows, matrix = loaded.reach
        state.table(L.REACH_ROWS, rows)
        state.table(L.REACH, matrix)
        state.set32(L.REACH_WIDTH, matrix.shape[1])
        parallel = one_by_one or (
            loaded.interplay is Interplay.APART
            and options.schedule != "random"
            and suspects is None
            and not launch.parts
        )
        # A thread takes longer to start and to join than a short launch takes. Who looks for races
        # has as many each time: what is watched would depend on the clock.
        shape = (launch.grid, launch.block)
        is_short = not options.races and loaded.took_s.get(shape, _SHORT_S) < _SHORT_S
        workers = options.workers if parallel and not is_short else 1
        places = contexts.make(
            loaded.program, loaded.code, launch, options, state, workers=workers,
            one_by_one=one_by_one,
        )  # fmt: skip
        state.set32(L.APART, int(one_by_one))
        gives_way = (loaded.interplay is Interplay.ANY or bool(launch.parts)) and workers == 1
        state.set32(L.GIVES_WAY, int(gives_way))
        state.set32(L.IDLE_ROUNDS, _idle_rounds(loaded.program, options, workers=workers))
        state.set32(L.READS_CLOCKS, int(loaded.program.reads_clocks))
        state.set64(L.CARRY_OUT, loaded.compiled.carry_out)
        if options.advice and suspects is None:
            state.observed = coalescing.table(loaded.program)
            state.table(L.OBSERVE, state.observed)
        state.set32(L.RACES, int(options.races) | (2 if workers > 1 else 0))
        if loaded.roles is not None:
            state.table(L.ROLES, loaded.roles)
        if suspects:
            watching.fill(state, suspects, places)
        ready(state)
        run_s = self._start(state, places)
        loaded.took_s[shape] = run_s * workers
        if self._heap is not None:
            self._heap.forget_marks()
        for one in state.allocations:
            if one.buffer is not None and one.buffer.initialised is not None:
                one.init &= 1  # flags beside "written" are the machine's own
        inconclusive = None
        if state.get32(L.STOP) == 3:
            inconclusive = f"stopped after {options.limit_s:g} s without an end"
        elif (full := state.get32(L.OVERFLOW)) != 0:
            inconclusive = _FULL[full]
        made = _Pass(
            state=state,
            run_s=run_s,
            inconclusive=inconclusive,
            lenient=bool(state.get32(L.LENIENT)),
        )
        self._passes.append(made)
        return made

    def _start(self, state: LaunchState, places: list[contexts.Contexts]) -> float:
        """Run all blocks; return the seconds that it took, without those spent waiting."""
        size = self._launch.cluster[0] * self._launch.cluster[1] * self._launch.cluster[2]
        grid = self._launch.grid
        units = grid[0] * grid[1] * grid[2] // size
        order = _order([one.blocks for one in self._launch.parts] or [units], self._options)
        units = len(order)
        state.keep.append(order)
        function = _RUN(symbols.run_address())

        def work(place: contexts.Contexts) -> int:
            return int(
                function(
                    self._loaded.compiled.step, state.address(), place.blocks.ctypes.data,
                    place.groups, order.ctypes.data, units,
                )
            )  # fmt: skip

        run_s, paused = 0.0, False
        while True:
            turns = self._meanwhile.turns if self._meanwhile and len(places) == 1 else 0
            state.set32(L.PAUSES, turns)
            left_s = max(0.0, self._options.limit_s - run_s)
            stop = functools.partial(state.set32, L.STOP, 3)
            alone = self._meanwhile.alone() if self._meanwhile else contextlib.nullcontext()
            with alone, within(left_s, stop):
                started = time.perf_counter()
                ended = _side_by_side([functools.partial(work, one) for one in places], stop)
            run_s += time.perf_counter() - started
            moved = ended == _MOVED
            if ended == _STUCK and self._meanwhile is None:
                return run_s
            self._helped = self._helped or (paused and ended != _WAITS)
            if ended not in (_WAITS, _MOVED) or self._meanwhile is None:
                return run_s
            paused = True
            if not self._meanwhile.wait(moved=moved):
                self._meanwhile = None

    def _summary(
        self,
        state: LaunchState,
        findings: list[MachineFinding],
        *,
        inconclusive: str | None,
        left_out: tuple[str, ...],
        run_s: float,
        touched: tuple[footprints.Touched, ...],
    ) -> MachineReport:
        loaded = self._loaded
        lines = frozenset(
            one.line
            for index, block in enumerate(loaded.program.blocks)
            if state.covered[index]
            for one in loaded.program.body[block.start : block.end]
        )
        outcomes: dict[int, frozenset[bool]] = {}
        for site, one in enumerate(loaded.program.body):
            if decides(one):  # a function that is called twice has each of its lines twice
                at = outcome_at(loaded.program, site)
                came = frozenset(held for held in (False, True) if state.covered[at + held])
                outcomes[one.line] = outcomes.get(one.line, frozenset()) | came
        need = budget.of(loaded.program, loaded.code, self._launch, self._options)
        statistics = Statistics(
            lane_instructions=state.get64(L.EXECUTED),
            compile_s=loaded.load_s,
            run_s=run_s,
            state_bytes=need.state_bytes,
            kernel_bytes=need.kernel_bytes,
            executed_lines=lines,
            outcomes=outcomes,
        )
        schedule = self._options.schedule
        if schedule == "random":
            schedule += f" {self._options.seed}"
        if self._options.held:
            many = "s" if len(self._options.held) > 1 else ""
            schedule += f", device{many} {', '.join(map(str, self._options.held))} late"
        if self._options.fuel == 1:
            schedule += ", short turns"
        sites: tuple[precision.SiteNumbers, ...] = ()
        if self._options.kind == "float64":
            table = precision.merged(state.stats)
            findings += precision.blame(loaded.program, table)
            sites = precision.numbers(loaded.program, table)
        return MachineReport(
            findings=tuple(findings), statistics=statistics, oblivious=not loaded.dependent,
            data_dependent=loaded.dependent, schedule=schedule, inconclusive=inconclusive,
            not_covered=NOT_COVERED, left_out=left_out, sites=sites,
            printed=printed.lines(self._launch, state), output=printed.output(state),
            touched=touched,
            unended=tuple(
                n for n, one in enumerate(self._launch.parts) if state.ended(n) < one.blocks
            ),
        )  # fmt: skip


def _side_by_side(works: Sequence[Callable[[], int]], stop: Callable[[], None]) -> int:
    """Return what the first of several host threads' work returns, once all of them have ended.

    Their memory goes with the caller: an exception on the way (a signal's) ends them first.
    """
    others = [threading.Thread(target=one) for one in works[1:]]
    try:
        for thread in others:
            thread.start()
        found = works[0]()
        for thread in others:
            thread.join()
    except BaseException:
        stop()
        for thread in others:
            if thread.ident is not None:
                thread.join()
        raise
    return found


def _depends_on_order(state: LaunchState) -> bool:
    """Whether a run of blocks one by one may differ from one in which they take turns.

    It stopped (but not for its time), somebody looked at what was updated, or blocks race for
    global memory.
    """
    table = next(one for one in state.keep if one.ctypes.data == state.get64(L.ALLOCATIONS))
    words = table.view(np.uint32).reshape(-1, L.A_RECORD // 4)
    marks = words[:, [L.A_SEEN // 4, L.A_UPDATED // 4]]
    raced = any(one.kind == L.K_RACE and one.space == L.S_GLOBAL for one in describe.records(state))
    return bool(marks.all(axis=1).any()) or state.get32(L.STOP) not in (0, 3) or raced


def _idle_rounds(program: Program, options: Options, *, workers: int) -> int:
    """Return how many turns in which no block gets on mean that none ever will.

    One, where a block that is what it was does what it did. A random order does something else
    now and then, another host thread changes memory unseen, and a clock may end a loop: with each
    of those rounds twice as much time has passed.
    """
    if program.reads_clocks:
        return _ROUNDS_OF_CLOCKS
    return _ROUNDS_OF_CHANCE if options.schedule == "random" or workers > 1 else 1


def _order(counts: Sequence[int], options: Options) -> Any:
    """Return the clusters in the order in which they begin, those of each launch for themselves."""
    units, found, first = sum(counts), [], 0
    if options.blocks:
        return np.array([one for one in options.blocks if one < units], np.uint32)
    generator = np.random.default_rng(options.seed)
    for count in counts:
        order = np.arange(first, first + count, dtype=np.uint32)
        if options.schedule == "reverse":
            order = order[::-1].copy()
        elif options.schedule == "random":
            order = generator.permutation(order)
        found.append(order)
        first += count
    return np.concatenate(found)
