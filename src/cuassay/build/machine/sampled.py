"""Some blocks of launches that are too large to run: whether their addresses stay within memory.

The launches come without memory, as a call on hollow tensors made them (`sandbox.guest.observe`).
Buffers of their sizes show the same few megabytes over and over, and a few blocks run: the first
and the last ones, those where a count of elements passes a power of two, and some between. What
this finds counts only for accesses that data has no say in, for there is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuassay.build.machine.launch import prepared
from cuassay.build.machine.memory import StorageArena
from cuassay.build.machine.narrow_products import narrow_product
from cuassay.build.machine.replay import evidence_of, set_variables
from cuassay.errors import CuassayError
from cuassay.model import serial
from cuassay.model.machine import (
    REFUSED,
    WRAPPED,
    LaunchEvidence,
    MachineEvidence,
    MachineFault,
)
from cuassay.model.recording import RecordedLaunch, Recording, decode
from ptxsan import isa, pages
from ptxsan.errors import LaunchError, MachineError
from ptxsan.launch import Pointer
from ptxsan.lines import own_line
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan.run import run
from ptxsan.taint import decided_by_data

_TEXT = 600
_MOST_LAUNCHES = 24
_PARTS = 8  # of a grid, at whose borders blocks run
_POWERS = range(28, 33)  # of counts of elements where 32 bits may wrap
_OUTSIDE, _FAR = "out-of-bounds", 1 << 20  # kind of a fault; bytes
_DATA = "what its addresses are depends on data, which such a call has none of"


def replay(recording: memoryview, request: memoryview) -> bytes:
    """Run some blocks of every launch of a recording; return the evidence as JSON.

    The request is JSON: `limit_s` for one launch and, where a fault is to be seen again, `again`:
    the `kernel`, its `block`, the `line` of its PTX, and `data` that inputs hold.
    """
    asked = json.loads(bytes(request))
    try:
        recorded, limit_s = decode(bytes(recording)), float(asked["limit_s"])
        if "again" in asked:
            seen = _again(recorded, asked["again"], limit_s=limit_s)
        else:
            seen = execute(recorded, limit_s=limit_s)
    except (CuassayError, MachineError) as error:
        seen = MachineEvidence(refused=str(error)[:_TEXT])
    return serial.dumps(seen).encode()


def execute(recording: Recording, *, limit_s: float) -> MachineEvidence:
    """Return what some blocks of every launch show of memory. A launch that comes again is one."""
    modules = [parse(text) for text in recording.modules]
    seen: dict[tuple[object, ...], LaunchEvidence] = {}
    for launch in recording.launches:
        key = (launch.module, launch.kernel, launch.grid, launch.block, launch.arguments)
        if key not in seen and len(seen) < _MOST_LAUNCHES:
            seen[key] = _some_blocks(launch, modules[launch.module], limit_s)
    launches = tuple(seen.values())
    launches += tuple(
        LaunchEvidence(
            kernel=one.kernel[:_TEXT],
            grid=one.grid,
            block=one.block,
            target="",
            faults=(refused_launch(f"a grid of {one.grid} of {one.block} threads: {one.failure}"),),
        )
        for one in recording.refused[:1]
    )
    return MachineEvidence(
        launches=launches,
        notes=tuple(note[:_TEXT] for note in recording.notes[:_MOST_LAUNCHES]),
        left_out=recording.left_out,
    )


def _again(recording: Recording, asked: Mapping[str, Any], *, limit_s: float) -> MachineEvidence:
    """Return what one block of the launches of a kernel runs into at one line.

    Memory is all zeros but for the data that is asked for, and takes the pages that are touched.
    """
    found = []
    for launch in recording.launches:
        x, y, z = asked["block"]
        across, down, _ = launch.grid
        number = x + across * (y + down * z)
        if launch.kernel != asked["kernel"] or not 0 <= number < math.prod(launch.grid):
            continue
        module, arena = parse(recording.modules[launch.module]), StorageArena()
        for region in launch.regions:
            memory = pages.zeros(region.nbytes, reserved=False)
            for name, offset, nbytes, value in asked["data"]:
                inside = name == region.name and 0 <= offset <= region.nbytes - nbytes
                if inside:
                    raw = (value & ((1 << 8 * nbytes) - 1)).to_bytes(nbytes, "little")
                    memory[offset : offset + nbytes] = np.frombuffer(raw, np.uint8)
            arena.place(region.base, region.name, memory, None)
        options = Options(shadow=False, races=False, limit_s=limit_s, blocks=(number,))
        set_variables(module, launch)
        report = run(module, prepared(launch, arena), options=options)
        seen = evidence_of(launch, module, report)
        unknown = set() if asked["data"] else decided_by_data(build(module, launch.kernel))
        kept = tuple(
            fault
            for fault in seen.faults
            for touch in fault.touches[:1]
            if touch.ptx_line == asked["line"] and touch.ptx_line not in unknown
        )
        found.append(replace(seen, faults=kept))
    return MachineEvidence(launches=tuple(found))


def _some_blocks(launch: RecordedLaunch, module: Any, limit_s: float) -> LaunchEvidence:
    arena = StorageArena()
    for place, region in enumerate(launch.regions):
        if place in launch.known:
            memory = np.frombuffer(bytearray(launch.known[place]), np.uint8)
        else:
            memory = pages.mirror(region.nbytes)
        arena.place(region.base, region.name, memory, None)
    options = Options(
        shadow=False, races=False, optimise=False, limit_s=limit_s,
        blocks=blocks_of(launch.grid, launch.block, launch.cluster),
    )  # fmt: skip
    try:
        set_variables(module, launch)
        report = run(module, prepared(launch, arena), options=options)
    except LaunchError as error:
        return LaunchEvidence(
            kernel=launch.kernel[:_TEXT], grid=launch.grid, block=launch.block,
            target=module.target[:40], faults=(refused_launch(str(error)),),
        )  # fmt: skip
    except (MachineError, MemoryError) as error:
        return LaunchEvidence(
            kernel=launch.kernel[:_TEXT], grid=launch.grid, block=launch.block,
            target=module.target[:40], inconclusive=str(error)[:_TEXT],
        )  # fmt: skip
    program = build(module, launch.kernel)
    known = {launch.regions[place].base for place in launch.known}
    pointers: dict[str, bool] = {}
    for parameter, data in zip(program.params, launch.arguments, strict=False):
        inside = [arena.argument(data[at : at + 8]) for at in range(0, len(data) - 7, 8)]
        buffers = [one.buffer for one in inside if isinstance(one, Pointer)]
        held = [region.base for one in buffers for region in arena.regions if region.buffer is one]
        if held:
            pointers[parameter.name] = known.issuperset(held)
    by_data = decided_by_data(program, known=pointers)
    found = evidence_of(launch, module, report)
    kept = tuple(
        one for one in found.faults if by_data.isdisjoint(touch.ptx_line for touch in one.touches)
    )
    touching = [
        one.line
        for one in program.body
        if isa.row(one).memory is not isa.Memory.NONE and isa.space_of(one) == "global"
    ]
    if not kept and touching and by_data.issuperset(touching):
        return replace(found, faults=(), inconclusive=found.inconclusive or _DATA)
    return replace(found, faults=tuple(_with_product(one, program) for one in kept))


def _with_product(fault: MachineFault, program: Program) -> MachineFault:
    """Return an access far outside with the product of 32 bits that its address is made of."""
    # Far before a tensor of such a size lies a wrapped index, however far it wrapped.
    before = fault.kind == _OUTSIDE and (fault.offset or 0) < -_FAR
    if not (before or fault.kind == WRAPPED) or not fault.touches:
        return fault
    product = narrow_product(program, fault.touches[0].ptx_line)
    source = own_line(product.source) if product is not None else None
    if product is None or source is None:
        return fault
    made = replace(
        fault.touches[0],
        what="multiplies in 32 bits",
        ptx_line=product.line,
        file=source.file.rpartition("/")[2][:_TEXT],
        line=source.line,
    )
    return replace(fault, kind=WRAPPED, touches=(*fault.touches, made))


def refused_launch(text: str) -> MachineFault:
    """Return the fault of a launch that no GPU of the architecture accepts."""
    return MachineFault(kind=REFUSED, severity="wrong", text=text[:_TEXT])


def blocks_of(
    grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int]
) -> tuple[int, ...]:
    """Return the numbers of the clusters that run, those most likely to be wrong first."""
    units = math.prod(grid) // math.prod(cluster)
    threads = math.prod(block) * math.prod(cluster)
    ends = {units - 1, units - 2, 0, 1}
    between = {units * part // _PARTS for part in range(1, _PARTS)}
    powers = {(1 << power) // threads + step for power in _POWERS for step in (-1, 0)}
    rows = {grid[0] - 1, grid[0]} if math.prod(cluster) == 1 else set()
    wanted = {one for one in ends | between | powers | rows if 0 <= one < units}
    return tuple(sorted(wanted, reverse=True))
