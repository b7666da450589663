"""Executes recorded launches with every check of the PTX machine on, in a process for that.

The process is sandboxed and bounded, and no candidate's code is ever loaded into it: it gets PTX
and bytes, and returns what the machine saw (see `sandbox.host.call`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cuassay.build.machine.assumptions import false_assumptions
from cuassay.errors import CuassayError
from cuassay.model import serial
from cuassay.model.machine import (
    FloatRange,
    LaunchEvidence,
    LineTrace,
    MachineEvidence,
    MachineFault,
    OrderDependence,
    Outcome,
    Touch,
)
from cuassay.model.recording import RecordedLaunch, Recording, decode
from ptxsan.errors import MachineError
from ptxsan.lines import own_line
from ptxsan.names import readable, source_name

if TYPE_CHECKING:
    import numpy as np

    from cuassay.build.machine.memory import StorageArena
    from ptxsan.findings import MachineFinding, MachineReport
    from ptxsan.syntax import Module

_TEXT, _FAULTS, _LINES, _TRACED, _PRINTED = 600, 64, 20, 4000, 201
_READS = ("ld", "ldu", "ldmatrix", "tex", "atom")  # from memory, parameters among it
_MOST_WORKERS = 8  # host threads of one launch: each has contexts of its own


def replay(recording: memoryview, request: memoryview) -> bytes:
    """Execute a recording (a file's bytes) as the request asks; return the evidence as JSON.

    The request is JSON: `schedules`, a list of [name, seed], and `limit_s` for the launches of one
    call under one schedule.
    """
    asked = json.loads(bytes(request))
    try:
        seen = execute(decode(bytes(recording)), asked)
    except (CuassayError, MachineError) as error:
        seen = MachineEvidence(refused=str(error)[:_TEXT])
    return serial.dumps(seen).encode()


def execute(recording: Recording, asked: dict[str, Any]) -> MachineEvidence:
    """Execute a recording under every schedule asked for; findings are those of the first.

    A finding that only another schedule shows is added, with the schedule's name.
    """
    from ptxsan.parser import parse

    modules = [parse(text) for text in recording.modules]
    limit_s = float(asked.get("limit_s", 60.0))
    launches: list[LaunchEvidence] = []
    left: dict[str, bytes] = {}
    order: list[OrderDependence] = []
    first = ""
    for name, seed in asked.get("schedules") or [["forward", 0]]:
        options = _options(str(name), int(seed), limit_s)
        found, after = _once(recording, modules, options)
        if not launches:
            launches, left, first = found, after, str(name)
            continue
        launches = [_joined(old, new, str(name)) for old, new in zip(launches, found, strict=True)]
        order += _differences(left, after, first, f"{name} {seed}".removesuffix(" 0"))
    return MachineEvidence(
        launches=tuple(launches),
        order=tuple(order),
        device=recording.device[:_TEXT],
        notes=tuple(note[:_TEXT] for note in recording.notes[:_FAULTS]),
        left_out=recording.left_out,
    )


def _options(schedule: str, seed: int, limit_s: float) -> Any:
    from ptxsan.options import Options

    # The judge keeps a core busy, and so may the candidate's worker.
    cores = len(os.sched_getaffinity(0))
    # With shadows and races nearly all time goes to functions that are compiled already: optimised
    # machine code takes seconds to make, and runs no faster.
    return Options(
        schedule=schedule,
        seed=seed,
        shadow=True,
        races=True,
        optimise=False,
        limit_s=limit_s,
        workers=min(max(2, cores // 2), _MOST_WORKERS),
    )


def _once(
    recording: Recording, modules: Sequence[Module], options: Any
) -> tuple[list[LaunchEvidence], dict[str, bytes]]:
    """Execute every launch once; return what was seen and the memory left, by allocation.

    A kernel that tunes itself launches the same on the same memory over and over: that is executed
    once. What has no time left is not executed, and said to be so.
    """
    from cuassay.build.machine.agreement import agreement
    from cuassay.build.machine.launch import prepared
    from cuassay.build.machine.memory import StorageArena
    from ptxsan.run import run

    arena = StorageArena()
    seen: list[LaunchEvidence] = []
    known: dict[object, LaunchEvidence] = {}
    until = time.monotonic() + options.limit_s
    for launch in recording.launches:
        furnish(arena, launch)
        whole = len(launch.contents) == len(launch.regions)
        if not whole:
            key = object()
        else:
            parts = (launch.contents, launch.written, launch.after or {}, launch.variables)
            blobs = (tuple((name, id(data)) for name, data in part.items()) for part in parts)
            shape = (launch.grid, launch.block, launch.cluster, launch.shared_bytes)
            key = (launch.module, launch.kernel, shape, launch.arguments, launch.regions, *blobs)
        if key in known:
            seen.append(known[key])
            continue
        module, left_s = modules[launch.module], until - time.monotonic()
        compared = None
        if left_s <= 0:
            why = f"the {options.limit_s:g} s for the launches of a call were up"
            evidence = _unseen(launch, module, why)
        else:
            try:
                set_variables(module, launch)
                limited = replace(options, limit_s=left_s)
                report = run(module, prepared(launch, arena), options=limited)
            except MachineError as error:
                evidence = _unseen(launch, module, str(error))
            else:
                evidence = evidence_of(launch, module, report)
                compared = None if report.inconclusive else agreement(launch, arena)
        known[key] = replace(evidence, agreement=compared)
        seen.append(known[key])
    left = {region.buffer.name: region.buffer.data.tobytes() for region in arena.regions}
    return seen, left


def _unseen(launch: RecordedLaunch, module: Module, why: str) -> LaunchEvidence:
    """Return what is known of a launch that was not executed, or not to its end for a reason."""
    return LaunchEvidence(
        kernel=launch.kernel[:_TEXT],
        title=source_name(launch.kernel)[:_TEXT],
        grid=launch.grid,
        block=launch.block,
        target=module.target[:40],
        inconclusive=why[:_TEXT],
        failure=launch.failure[:_TEXT],
        order=launch.order,
    )


def set_variables(module: Module, launch: RecordedLaunch) -> None:
    """Give a module's own variables the values that the launch found."""
    from ptxsan.globals import module_memory
    from ptxsan.program import build

    if not launch.variables:
        return
    memory = module_memory(module, build(module, launch.kernel))
    for name, data in launch.variables.items():
        if name in memory and memory[name].nbytes == len(data):
            memory[name][:] = bytearray(data)


def furnish(arena: StorageArena, launch: RecordedLaunch) -> None:
    """Give the launch its memory: what is recorded with it, the rest as the last one left it."""
    import numpy as np

    arena.keep({region.base for region in launch.regions})
    for place, region in enumerate(launch.regions):
        held = launch.contents.get(place)
        if held is None:
            continue
        flags: np.ndarray[Any, Any] | None = None
        if place in launch.written:
            packed = np.frombuffer(launch.written[place], dtype=np.uint8)
            bits = np.unpackbits(packed, count=region.nbytes, bitorder="little")
            flags = bits.astype(np.bool_)
        data = np.frombuffer(bytearray(held), dtype=np.uint8)
        arena.place(region.base, region.name, data, flags)


def evidence_of(launch: RecordedLaunch, module: Module, report: MachineReport) -> LaunchEvidence:
    """Return what the machine saw in a launch, as data for another process."""
    return replace(
        _unseen(launch, module, report.inconclusive or ""),
        faults=(*false_assumptions(launch), *map(_fault, report.findings[:_FAULTS])),
        oblivious=report.oblivious and not report.inconclusive,
        not_covered=tuple(
            text[:_TEXT] for text in (*report.left_out, *report.not_covered)[:_LINES]
        ),
        lane_instructions=int(report.statistics.lane_instructions),
        compile_s=float(report.statistics.compile_s),
        run_s=float(report.statistics.run_s),
        printed=tuple(text[:_TEXT] for text in report.printed[:_PRINTED]),
        lines=_lines(module, launch.kernel, report),
        floats=_floats(module, launch.kernel, report),
        outcomes=_outcomes(module, launch.kernel, report),
    )


def _lines(module: Module, kernel: str, report: MachineReport) -> tuple[LineTrace, ...]:
    """Return, for every source line of a kernel, how much of it ran and how far off it was."""
    executed = report.statistics.executed_lines
    numbers = {one.ptx_line: (one.error, one.made) for one in report.sites}
    rows: dict[tuple[str, int], _Row] = {}
    for name, function in module.functions.items():
        if function.entry and name != kernel:
            continue
        for instruction in function.body:
            source = own_line(instruction.source)
            if source is None or not source.line:
                place = None
            else:
                place = source.file.rpartition("/")[2][:_TEXT], source.line
            if place is not None:
                row = rows.setdefault(place, _Row())
                row.add(instruction.line in executed, *numbers.get(instruction.line, (0.0, 0.0)))
    return tuple(
        LineTrace(file=file, line=line, **dataclasses.asdict(row))
        for (file, line), row in sorted(rows.items())[:_TRACED]
    )


def _outcomes(module: Module, kernel: str, report: MachineReport) -> tuple[Outcome, ...]:
    """Return what a kernel's own lines made of memory and of arguments that are no floats.

    What follows from the launch's own geometry and constants is the same in each launch like it. A
    place that became several instructions of one kind, as an unrolled loop does, is one.
    """
    from ptxsan import isa
    from ptxsan.dataflow import definitions, uses
    from ptxsan.syntax import Address, Symbol

    chosen = report.statistics.outcomes
    floats = {one.ptx_line: one.only for one in report.sites if not one.opcode.endswith("x2")}
    found: dict[tuple[str, int, int, str, bool], set[str]] = {}
    for name, function in module.functions.items():
        if function.entry and name != kernel:
            continue
        numbers = {one.name for one in function.params if one.type.startswith("f")}
        given: set[str] = set()
        before = -1
        while len(given) > before:  # a loop carries values backward
            before = len(given)
            for one in function.body:
                number = any(
                    isinstance(part, Address)
                    and isinstance(part.base, Symbol)
                    and part.base.name in numbers
                    for part in one.operands
                )
                if (one.base in _READS and not number) or not given.isdisjoint(uses(one)):
                    given.update(definitions(one))
        for one in function.body:
            source = one.source
            if source is None or own_line(source) is not source or given.isdisjoint(uses(one)):
                continue
            if one.line in chosen:
                came = {str(held) for held in chosen[one.line]}
            elif one.line in floats:
                only = floats[one.line]
                came = {"one", "another"} if only is None else {f"{only:.6g}"}
            else:
                continue
            # One compiler writes `a < b`, the next `not (a >= b)`.
            compares = isa.row(one).compares
            order = "" if not compares else "eq" if {"eq", "ne"} & {*one.parts} else "order"
            what = f"{one.base} {order} {one.parts[-1]}"
            file = source.file.rpartition("/")[2][:_TEXT]
            key = file, source.line, source.column, what, compares
            found.setdefault(key, set()).update(came)
    return tuple(
        Outcome(
            file=file,
            line=line,
            column=column,
            what=what,
            values=tuple(sorted(came)[:2]),
            compares=compares,
        )
        for (file, line, column, what, compares), came in sorted(found.items())[:_TRACED]
    )


def _floats(module: Module, kernel: str, report: MachineReport) -> tuple[FloatRange, ...]:
    """Return what the float instructions of a kernel gave, in their order."""
    sites = {one.ptx_line: one for one in report.sites if one.largest > 0}
    found: list[FloatRange] = []
    file, line = "", 0
    for name, function in module.functions.items():
        if function.entry and name != kernel:
            continue
        for instruction in function.body:
            site, source = sites.get(instruction.line), own_line(instruction.source)
            if site is None:
                continue
            if source is not None and source.line:
                file, line = source.file.rpartition("/")[2][:_TEXT], source.line
            found.append(
                FloatRange(
                    file=file,
                    line=line,
                    opcode=instruction.opcode[:_TEXT],
                    largest=float(site.largest),
                    smallest=float(site.smallest),
                    stored=instruction.opcode.startswith(("st.global", "red.global")),
                )
            )
    return tuple(found[:_TRACED])


@dataclass(slots=True)
class _Row:
    instructions: int = 0
    executed: int = 0
    error: float = 0.0
    made: float = 0.0

    def add(self, ran: bool, error: float, made: float) -> None:
        self.instructions += 1
        self.executed += ran
        self.error, self.made = max(self.error, float(error)), max(self.made, float(made))


def _fault(finding: MachineFinding) -> MachineFault:
    return MachineFault(
        kind=finding.kind.value,
        severity=finding.severity.value,
        text=readable(finding.text)[:_TEXT],
        touches=tuple(
            Touch(
                what=access.what[:_TEXT],
                ptx_line=int(access.ptx_line),
                file=(access.source_file or "").rpartition("/")[2][:_TEXT],
                line=int(access.source_line or 0),
                block=tuple(map(int, access.block)),
                thread=tuple(map(int, access.thread)),
            )
            for access in finding.accesses[:3]
        ),
        space=finding.space,
        allocation=readable(finding.allocation)[:_TEXT],
        offset=None if finding.offset is None else int(finding.offset),
        nbytes=int(finding.bytes),
        count=int(finding.count),
        measures={name: float(value) for name, value in finding.measures.items()},
    )


def _joined(old: LaunchEvidence, new: LaunchEvidence, schedule: str) -> LaunchEvidence:
    """Add to a launch what only another schedule showed."""
    known = {(fault.kind, _place(fault)) for fault in old.faults}
    fresh = [
        replace(fault, text=f"{fault.text} (schedule: {schedule})")
        for fault in new.faults
        if (fault.kind, _place(fault)) not in known and fault.kind != "precision"
    ]
    return replace(
        old,
        faults=(*old.faults, *fresh)[:_FAULTS],
        oblivious=old.oblivious and new.oblivious,
        inconclusive=old.inconclusive or new.inconclusive,
        run_s=old.run_s + new.run_s,
    )


def _place(fault: MachineFault) -> frozenset[int]:
    return frozenset(touch.ptx_line for touch in fault.touches)


def _differences(
    left: dict[str, bytes], right: dict[str, bytes], first: str, second: str
) -> list[OrderDependence]:
    import numpy as np

    found = []
    for name in left.keys() & right.keys():
        a, b = (np.frombuffer(data, dtype=np.uint8) for data in (left[name], right[name]))
        count = int((a != b).sum()) if a.size == b.size else max(a.size, b.size)
        if count:
            found.append(
                OrderDependence(allocation=name[:_TEXT], first=first, second=second, nbytes=count)
            )
    return sorted(found, key=lambda one: one.allocation)
