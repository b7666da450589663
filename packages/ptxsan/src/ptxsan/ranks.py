"""Launches of several devices that run at once, and one call for kernels that span GPUs.

symmetric = ranks.Symmetric("data", [np.zeros(64, np.float32) for _ in range(2)])
report = ranks.check("k.cu", [[ranks.Call("all_reduce", grid=1, block=64, args={...})] for ...])
assert report.ok, report.text

The launches of all devices are one launch to the machine, whose blocks take turns: so races,
missing fences and deadlocks between devices are found as those between blocks are, by the scope
that includes both (`.sys` between devices). It is run with each device late, so that all others
come first wherever the kernels let them, and of more than two with each early: once with long
turns, so that a late device finds flags that were raised twice, and once with turns of one
iteration, so that it sees each. Then all take turns of one iteration.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan import isa, multicast, sources
from ptxsan.api import Dim, Fresh, dim, packed
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError, UsageError
from ptxsan.findings import MachineFinding, MachineReport, Severity, strict
from ptxsan.inline import HEAP_CALLS
from ptxsan.launch import Argument, Buffer, Launch, Part, Pointer
from ptxsan.names import source_name
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import BESIDE, WORKSPACE, build, symbols_in
from ptxsan.records import buffers_of
from ptxsan.run import accepted, run
from ptxsan.runtime import layout as L
from ptxsan.schedules import once
from ptxsan.syntax import Module
from ptxsan.watching import snapshot


def together(
    module: Module, parts: Sequence[Part], options: Options, first: Sequence[Buffer] = ()
) -> Launch:
    """Return one launch that stands for launches of several devices.

    Buffers that are `first` come before all others, in their order. Raises MachineError for what
    the machine cannot run at once, LaunchError for a launch that no GPU accepts.
    """
    launches = [one.launch for one in parts if one.launch is not None]
    if not launches:
        raise MachineError("no device has a launch; give one at least")
    if not all(0 <= one.device < L.MOST_DEVICES for one in parts):
        raise MachineError(f"the machine has {L.MOST_DEVICES} devices at most")
    kernels = tuple(dict.fromkeys(one.kernel for one in launches))
    sizes = {math.prod(one.block) for one in launches}
    for one in launches:
        program = build(module, one.kernel)
        if math.prod(accepted(program, one, options).cluster) > 1:
            raise MachineError(
                f"kernel '{one.kernel}' has clusters; the machine runs kernels without clusters "
                "on several devices at once"
            )
        if any(isa.is_call(each) and HEAP_CALLS & set(each.parts) for each in program.body):
            raise MachineError(
                f"kernel '{one.kernel}' calls malloc or free on the device; the machine has one "
                "heap, and several devices have one each: pass it memory"
            )
        # The variables of the module that a program uses and that may differ by device.
        # Strings ($str), tables of virtual functions (_ZTV) and constants with a value are
        # the same.
        named = {one.name for one in symbols_in(program.body)} | {WORKSPACE}
        of_each_device = [
            one.name
            for one in program.globals
            if one.name in named
            and not one.name.startswith(("$", "_ZTV"))
            and (one.space == "global" or (one.initial is None and not one.addresses))
        ]
        for name in of_each_device:
            raise MachineError(
                f"kernel '{one.kernel}' uses the variable '{source_name(name)}', of which each "
                "device has its own and the machine one for all; pass it as memory of each device"
            )
        if program.asynchronous and len(sizes) > 1:
            raise MachineError(
                f"kernel '{one.kernel}' has mbarriers or bulk copies, and blocks of {len(sizes)} "
                "sizes run at once; give all launches blocks of one size"
            )
    buffers = {id(each): each for each in first}
    for one in launches:
        for each in buffers_of(one):
            buffers.setdefault(id(each), each)
    for part in parts:
        if part.freed is not None:
            buffers.setdefault(id(part.freed), part.freed)
    return Launch(
        kernel=BESIDE.join(kernels), grid=(sum(one.blocks for one in parts), 1, 1),
        block=(max(sizes), 1, 1), buffers=tuple(buffers.values()), parts=tuple(parts),
        dynamic_shared_bytes=max(one.dynamic_shared_bytes for one in launches),
        textures=tuple(one for each in launches for one in each.textures),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """Which devices are late, and how many iterations of a loop a turn has (None: thousands)."""

    late: tuple[int, ...] = ()
    turn: int | None = None


def orders(devices: Sequence[int]) -> tuple[Order, ...]:
    """Return the orders in which launches of these devices are run."""
    late = [(one,) for one in devices]
    early = [tuple(other for other in devices if other != one) for one in devices]
    sets = dict.fromkeys([*late, *(early if len(devices) > 2 else ())])
    turns = (None, 1)
    return (*(Order(late=one, turn=turn) for turn in turns for one in sets), Order(turn=1))


def run_parts(
    module: Module,
    parts: Sequence[Part],
    options: Options,
    after: Callable[[Order], None] = lambda order: None,
    *,
    first: Sequence[Buffer] = (),
) -> list[MachineReport]:
    """Run launches of several devices in every order of `orders`; return a report for each.

    Each order starts from the same memory, which stays as the first one leaves it; `after` is
    called while it is as an order leaves it. `first`: see `together`. Raises MachineError and
    LaunchError as it does.
    """
    launch = together(module, parts, options, first)
    before, left, found = snapshot(module, launch), None, []
    for order in orders(sorted({one.device for one in parts if one.launch is not None})):
        before.restore()
        chosen = dataclasses.replace(
            options, held=order.late, fuel=order.turn or options.fuel, predict=False
        )
        found.append(run(module, launch, options=chosen))
        after(order)
        left = left or snapshot(module, launch)
    if left is not None:
        left.restore()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Symmetric:
    """Memory that each rank has and all ranks reach: one array a rank, of any size."""

    name: str
    arrays: Sequence[NDArray[Any] | Fresh]


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """An argument: a pointer to the part of a symmetric buffer that `rank` has."""

    memory: Symmetric
    rank: int
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Pointers:
    """An argument by value: a struct that begins with one pointer a rank."""

    memory: Symmetric


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """An argument: a pointer to a table in device memory that holds one pointer a rank."""

    memory: Symmetric


@dataclass(frozen=True, slots=True, eq=False)
class Multicast:
    """An argument: the address by which multimem reaches the parts of all ranks at once."""

    memory: Symmetric
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One launch of a rank; `args` are in the order of the kernel's parameters.

    Beside what `ptxsan.check` takes they may be Own, Pointers, Table and Multicast. An array
    that several ranks are given is memory of the first one.
    """

    kernel: str
    grid: Dim
    block: Dim
    args: Mapping[str, Any]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """The rank frees its part of a symmetric buffer."""

    memory: Symmetric


@dataclass(frozen=True, slots=True)
class Barrier:
    """All ranks wait, on the host, until what all of them have launched so far has ended."""


Step = Call | Free | Barrier


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in the launches of several ranks: `reports` has one a order."""

    kernel: str
    reports: tuple[MachineReport, ...]
    findings: tuple[MachineFinding, ...]
    inconclusive: str = ""
    ptx: str = field(default="", repr=False)

    @property
    def wrong(self) -> tuple[MachineFinding, ...]:
        """The findings that reject."""
        return tuple(one for one in self.findings if one.severity is Severity.WRONG)

    @property
    def ok(self) -> bool:
        """Whether all launches ran to their end in every order and nothing is wrong."""
        return not self.wrong and not self.inconclusive

    @property
    def text(self) -> str:
        """The report in words."""
        from ptxsan.reporting import ranks_text

        return ranks_text(self)


def check(
    source: str | Path,
    steps: Sequence[Sequence[Step]],
    *,
    peers: bool = True,
    arch: str = "",
    flags: Sequence[str] = (),
    strict_order: bool = False,
    options: Options | None = None,
    after: Callable[[Order], None] = lambda order: None,
) -> Report:
    """Execute what each rank does, `steps[rank]` in order, with all ranks at once.

    `source` is a path (.cu, .ptx), CUDA C++ or PTX text. Without `peers` a rank has no access to
    another one's part of symmetric memory. Arrays hold what the first order left; `after` is called
    after each order, while they hold what that one left. With `strict_order`, missing order of
    strong accesses is an error (`findings.ORDER`).
    Raises UsageError for steps that do not fit, CompileError, and MachineError for launches that
    the machine cannot run at once.
    """
    calls = [one for each in steps for one in each if isinstance(one, Call)]
    if len({sum(isinstance(one, Barrier) for one in each) for each in steps}) != 1 or not calls:
        raise UsageError("the ranks have different numbers of Barrier(), or no Call at all")
    found = sources.of_source(source, kernel=calls[0].kernel, arch=arch, flags=flags)
    module = multicast.spread(parse(found.ptx), len(steps))
    layout = _Layout(module, found.names, len(steps), peers=peers)
    chosen = dataclasses.replace(options or Options(shadow=False), workers=1)
    parts = layout.parts(steps)
    reports = run_parts(module, parts, chosen, after, first=layout.side_by_side)
    findings = once(reports)
    return Report(
        kernel=" and ".join(dict.fromkeys(source_name(one.kernel) for one in calls)),
        reports=tuple(reports), findings=strict(findings) if strict_order else findings,
        inconclusive=next((one.inconclusive for one in reports if one.inconclusive), None) or "",
        ptx=found.ptx,
    )  # fmt: skip


class _Layout:
    """Steps of ranks as launches: one buffer for each array, one table for each Table."""

    def __init__(
        self, module: Module, names: Mapping[str, str], ranks: int, *, peers: bool
    ) -> None:
        self._module, self._names, self._ranks, self._peers = module, names, ranks, peers
        self._buffers: dict[tuple[int, int], Buffer] = {}
        self._tables: dict[tuple[int, int], Buffer] = {}
        self.side_by_side: list[Buffer] = []  # parts of multicast objects, in the order of ranks

    def parts(self, steps: Sequence[Sequence[Step]]) -> list[Part]:
        """Return the steps of all ranks, phase after phase of what barriers part."""
        found: list[Part] = []
        waiting = [list(each) for each in steps]
        phase: tuple[int, ...] = ()  # the last steps of all ranks before the barrier
        numbers = [0] * self._ranks
        while any(waiting):
            last: list[tuple[int, ...]] = [phase] * self._ranks
            for rank, rest in enumerate(waiting):
                while rest and not isinstance(rest[0], Barrier):
                    step = rest.pop(0)
                    numbers[rank] += isinstance(step, Call)
                    found.append(self._part(step, rank, numbers[rank], last[rank]))
                    last[rank] = (len(found) - 1,)
                if rest:
                    rest.pop(0)
            phase = tuple(sorted({one for each in last for one in each}))
        return found

    def _part(self, step: Step, rank: int, number: int, after: tuple[int, ...]) -> Part:
        match step:
            case Call():
                launch = self._launch(step, rank)
                return Part(device=rank, launch=launch, number=number, after=after)
            case Free(memory=memory):
                freed = self._buffer(memory.name, memory.arrays[rank], rank)
                return Part(device=rank, launch=None, after=after, freed=freed)
            case Barrier():
                raise AssertionError("barriers part the steps")

    def _launch(self, step: Call, rank: int) -> Launch:
        entry = sources.entry(self._module, step.kernel, self._names)
        if len(step.args) != len(entry.params):
            raise UsageError(
                f"kernel '{step.kernel}' takes {len(entry.params)} arguments, {len(step.args)} are "
                f"given on rank {rank}; give one for each parameter, in their order"
            )
        arguments: list[Argument] = []
        inside: list[tuple[int, int, Pointer]] = []
        led_to: list[Buffer] = []  # by tables
        pairs = zip(step.args.items(), entry.params, strict=True)
        for index, ((name, value), parameter) in enumerate(pairs):
            match value:
                case Own(memory=memory, rank=other, offset=offset):
                    buffer = self._buffer(memory.name, memory.arrays[other], other)
                    arguments.append(Pointer(buffer=buffer, offset=offset))
                case Pointers(memory=memory):
                    arguments.append(bytes(parameter.count * size_of(parameter.type)))
                    each = self._pointers(memory)
                    inside += [(index, 8 * number, one) for number, one in enumerate(each)]
                case Table(memory=memory):
                    key = id(memory), rank
                    if key not in self._tables:
                        addresses = [one.buffer.address for one in self._pointers(memory)]
                        data = np.array(addresses, np.uint64).view(np.uint8)
                        self._tables[key] = Buffer(
                            name=f"pointers to {memory.name} on rank {rank}",
                            data=data,
                            closed_to=self._closed(rank),
                        )
                    arguments.append(Pointer(buffer=self._tables[key]))
                    led_to += [one.buffer for one in self._pointers(memory)]
                case Multicast(memory=memory, offset=offset):
                    arguments.append(self._multicast(memory, offset))
                case _:
                    arguments.append(
                        Pointer(buffer=self._buffer(name, value, rank))
                        if isinstance(value, np.ndarray | Fresh)
                        else packed(name, value, parameter)
                    )
        return Launch(
            kernel=entry.name, grid=dim(step.grid), block=dim(step.block),
            arguments=tuple(arguments), dynamic_shared_bytes=step.shared_bytes,
            pointers_inside=tuple(inside), buffers=tuple(led_to),
        )  # fmt: skip

    def _pointers(self, memory: Symmetric) -> list[Pointer]:
        if len(memory.arrays) != self._ranks:
            raise UsageError(
                f"'{memory.name}' has {len(memory.arrays)} arrays for {self._ranks} ranks"
            )
        return [
            Pointer(buffer=self._buffer(memory.name, one, rank))
            for rank, one in enumerate(memory.arrays)
        ]

    def _multicast(self, memory: Symmetric, offset: int) -> Pointer:
        parts = [one.buffer for one in self._pointers(memory)]
        if parts[0] not in self.side_by_side:
            if len({len(one.data) for one in parts}) > 1:
                raise UsageError(
                    f"'{memory.name}' has arrays of different sizes; a multicast object has parts "
                    "of one size"
                )
            self.side_by_side += parts
        return Pointer(buffer=parts[0], offset=multicast.AT + offset)

    def _closed(self, rank: int) -> tuple[int, ...]:
        return () if self._peers else tuple(one for one in range(self._ranks) if one != rank)

    def _buffer(self, name: str, value: NDArray[Any] | Fresh, rank: int) -> Buffer:
        array = value.array if isinstance(value, Fresh) else value
        if not array.flags.c_contiguous:
            raise UsageError(f"'{name}' of rank {rank} is not contiguous; pass a copy")
        key = int(array.ctypes.data), array.nbytes
        if key not in self._buffers:
            fresh = np.zeros(array.nbytes, np.bool_) if isinstance(value, Fresh) else None
            self._buffers[key] = Buffer(
                name=f"{name} of rank {rank}", data=array.reshape(-1).view(np.uint8),
                initialised=fresh, closed_to=self._closed(rank), address=key[0],
            )  # fmt: skip
        return self._buffers[key]
