"""The records of one launch in memory: allocations, variables, blocks, tables of the runtime.

Everything is numpy memory that stays alive as long as the `LaunchState`; native code sees
addresses. Large tables are zero pages that cost nothing until they are touched.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan import pages, textures
from ptxsan.codegen import Code, outcome_at
from ptxsan.emit.frame import global_address
from ptxsan.errors import MachineError
from ptxsan.heap import Heap
from ptxsan.launch import Buffer, Launch, Pointer, TensorMap
from ptxsan.options import Options
from ptxsan.program import BESIDE, Program, Variable
from ptxsan.runtime import layout as L

_FINDINGS, _VARIABLES, _LOG = 1024, 1 << 20, 1 << 21
_PRINTS = 1024
_REGIONS = 1 << 12
Bytes = NDArray[np.uint8]


@dataclass(slots=True, kw_only=True, eq=False)
class Allocation:
    """Global memory with what is known of each byte; `buffer` is None for module variables."""

    name: str
    buffer: Buffer | None
    data: Bytes
    init: Bytes
    shadow: NDArray[np.float32]
    meta: NDArray[np.uint64]
    base: int
    writable: bool


@dataclass(slots=True, kw_only=True, eq=False)
class LaunchState:
    """A launch laid out for native code."""

    record: Bytes
    allocations: list[Allocation]
    keep: list[Any] = field(default_factory=list)
    findings: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    prints: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    observed: NDArray[np.uint64] | None = None
    covered: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    heap: Heap | None = None
    heap_records: NDArray[np.uint64] | None = None
    stats: list[NDArray[np.float64]] = field(default_factory=list)
    parts: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))

    def address(self) -> int:
        """Return the address of the launch record."""
        return int(self.record.ctypes.data)

    def set32(self, offset: int, value: int) -> None:
        """Set a 32-bit field of the launch record."""
        struct.pack_into("<I", self.record.data, offset, value & 0xFFFFFFFF)

    def set64(self, offset: int, value: int) -> None:
        """Set a 64-bit field of the launch record."""
        struct.pack_into("<Q", self.record.data, offset, value & 0xFFFFFFFFFFFFFFFF)

    def get32(self, offset: int) -> int:
        """Return a 32-bit field of the launch record."""
        return int(struct.unpack_from("<I", self.record.data, offset)[0])

    def get64(self, offset: int) -> int:
        """Return a 64-bit field of the launch record."""
        return int(struct.unpack_from("<Q", self.record.data, offset)[0])

    def ended(self, part: int) -> int:
        """Return how many blocks of one of several launches have ended."""
        return int(struct.unpack_from("<I", self.parts.data, part * L.R_RECORD + L.R_DONE)[0])

    def allocation(self, index: int) -> Allocation:
        """Return the memory of a region of addresses: an allocation, or a block of the heap."""
        if index < L.HEAP_FIRST or self.heap is None:
            return self.allocations[index]
        base, size, start = self.heap.block(index - L.HEAP_FIRST)
        if self.heap_records is None:
            meta = np.zeros(0, np.uint64)
        else:
            shift = self.heap.granule.bit_length() - 1
            meta = self.heap_records[2 * (start >> shift) :]
        return Allocation(
            name=f"block {index - L.HEAP_FIRST + 1} of malloc ({size} bytes)", buffer=None,
            data=self.heap.data[start : start + size], init=self.heap.init[start : start + size],
            shadow=self.heap.shadow, meta=meta, base=base, writable=True,
        )  # fmt: skip

    def holding(self, address: int) -> Allocation:
        """Return the memory whose region holds an address of the machine."""
        return self.allocation((address >> L.REGION_SHIFT) - L.FIRST_REGION)

    def at(self, address: int) -> tuple[Allocation | None, int]:
        """Return the allocation of a launch at an address, and how far behind its first byte."""
        number = (address >> L.REGION_SHIFT) - L.FIRST_REGION
        if number < 0:  # an address of the process
            for one in self.allocations:
                if one.buffer and 0 <= address - one.buffer.address < one.data.size:
                    return one, address - one.buffer.address
        if not 0 <= number < len(self.allocations):
            return None, 0
        return self.allocations[number], address - self.allocations[number].base

    def table(self, offset: int, array: NDArray[Any]) -> None:
        """Keep an array and put its address into the launch record."""
        self.keep.append(array)
        self.set64(offset, int(array.ctypes.data))


def device_addresses(program: Program, launch: Launch) -> dict[int, int]:
    """Return the device address of each buffer (by id) of a launch."""
    first = len(program.globals)
    return {
        id(one): global_address(first + index) + one.alignment % 256
        for index, one in enumerate(buffers_of(launch))
    }


def buffers_of(launch: Launch) -> list[Buffer]:
    """Return the buffers of a launch, each once, in the order of its arguments."""
    found: dict[int, Buffer] = {}
    for one in (*(one.buffer for one in launch.pointers()), *launch.buffers):
        found.setdefault(id(one), one)
    return list(found.values())


def prepare(
    program: Program, code: Code, launch: Launch, options: Options, variables: dict[str, Bytes],
    heap: Heap | None = None,
) -> LaunchState:  # fmt: skip
    """Return the launch laid out; `variables` holds the module's global variables by name.

    `heap` is that of device malloc, where the kernel may use one.

    Raises MachineError where arguments do not fit the kernel's parameters.
    """
    state = LaunchState(record=np.zeros(L.LAUNCH_BYTES, np.uint8), allocations=[])
    for index, declared in enumerate(program.globals):
        writable = declared.space == "global"
        state.allocations.append(
            _allocation(
                declared.name, None, variables[declared.name], global_address(index),
                program, options, writable=writable,
            )
        )  # fmt: skip
    places = device_addresses(program, launch)
    for buffer in buffers_of(launch):
        state.allocations.append(
            _allocation(
                buffer.name, buffer, buffer.data, places[id(buffer)], program, options,
                writable=buffer.writable,
            )
        )  # fmt: skip
    if len(state.allocations) > _REGIONS:
        raise MachineError(f"{len(state.allocations)} buffers are too many (most: {_REGIONS})")
    shift = program.granule["global"].bit_length() - 1
    rows = []
    for one in state.allocations:
        closed = one.buffer.closed_to if one.buffer is not None else ()
        flags = int(not one.writable) | sum(L.A_CLOSED << device for device in closed)
        rows.append(
            struct.pack(
                "<QQQQQQII24x",
                one.base,
                one.data.size,
                one.data.ctypes.data,
                one.init.ctypes.data,
                one.shadow.ctypes.data,
                one.meta.ctypes.data if one.meta.size else 0,
                flags,
                shift,
            )
        )
    table = np.frombuffer(b"".join(rows) or bytes(L.A_RECORD), np.uint8).copy()
    state.table(L.ALLOCATIONS, table)
    state.set32(L.ALLOCATION_COUNT, len(rows))
    own = sorted((one.address, places[id(one)]) for one in buffers_of(launch) if one.address)
    state.table(L.OWN_PLACES, np.array(own or [(0, 0)], np.uint64))
    state.set32(L.OWN_COUNT, len(own))
    _fill_tables(state, program, code, launch, options)
    if launch.parts:
        _fill_parts(state, program, launch, places, options)
    else:
        state.table(L.PARAMS, _arguments(program, launch, places))
    if heap is not None:
        state.heap = heap
        if options.races:
            state.heap_records = heap.race_records(program.granule["global"])
        state.table(L.HEAP, heap.record)
    if launch.textures:
        state.table(L.TEXTURES, textures.table(launch.textures))
    return state


def _allocation(
    name: str,
    buffer: Buffer | None,
    data: Bytes,
    base: int,
    program: Program,
    options: Options,
    *,
    writable: bool,
) -> Allocation:
    size = data.size
    if buffer is not None and buffer.initialised is not None:
        init = buffer.initialised.view(np.uint8)
    elif options.blocks:
        init = pages.mirror(size, 1)
    else:
        init = np.ones(size, np.uint8)
    shadow = buffer.shadow if buffer is not None else None
    if shadow is None:
        whole = options.shadow or program.copies
        count = size // 2 + 4 if whole else 4
        if options.blocks:
            shadow = pages.mirror(4 * count).view(np.float32)
        else:
            shadow = pages.zeros(count, np.float32)
        if buffer is not None and options.shadow:
            buffer.shadow = shadow
    granules = size // program.granule["global"] + 2 if options.races else 0
    return Allocation(
        name=name, buffer=buffer, data=data, init=init, shadow=shadow,
        meta=pages.zeros(2 * granules, np.uint64), base=base, writable=writable,
    )  # fmt: skip


def _fill_tables(
    state: LaunchState, program: Program, code: Code, launch: Launch, options: Options
) -> None:
    state.set32(L.FUEL, options.fuel)
    state.set32(L.MOST_FUEL, options.fuel)
    for offset, dims in (
        (L.BLOCK_DIM, launch.block),
        (L.GRID_DIM, launch.grid),
        (L.CLUSTER_DIM, launch.cluster),
    ):
        for axis, value in enumerate(dims):
            state.set32(offset + 4 * axis, value)
    shared, size = _variables(program.shared, launch.dynamic_shared_bytes)
    state.table(L.SHARED_TABLE, shared)
    state.set32(L.SHARED_COUNT, len(program.shared))
    state.set32(L.SHARED_BYTES, size)
    local, _ = _variables(program.local, 0)
    state.table(L.LOCAL_TABLE, local)
    state.set32(L.LOCAL_COUNT, len(program.local))
    state.set32(L.LOCAL_OFFSET, code.local_offset)
    state.set32(L.LOCAL_BYTES, code.local_bytes)
    state.set32(L.COPY_OFFSET, code.copy_offset)
    state.set32(L.COPY_SLOTS, code.copy_slots)
    state.set32(L.THREAD_BYTES, code.copy_offset)
    state.set32(L.DYNAMIC_BYTES, launch.dynamic_shared_bytes)
    state.set32(L.SHARED_SHIFT, program.granule["shared"].bit_length() - 1)
    state.set32(L.SITE_SHIFT, max(0, (len(program.body) - 1).bit_length() - 13))
    state.set64(L.SEED, options.seed)
    state.set32(L.TOTAL_THREADS, math.prod(launch.grid) * math.prod(launch.block))
    state.set32(L.BLOCK_GIDS, math.prod(launch.block))
    state.set32(L.PARAM_BYTES, program.param_bytes)
    if not isinstance(options.shadow, bool):
        state.table(L.RESIDUES, options.shadow.table)
    state.set32(L.SCHEDULE, ("forward", "reverse", "random").index(options.schedule))
    state.findings = np.zeros(_FINDINGS * L.F_RECORD, np.uint8)
    state.table(L.FINDINGS, state.findings)
    state.set32(L.FINDING_LIMIT, _FINDINGS)
    if program.calls:
        state.prints = pages.zeros(_PRINTS * L.P_RECORD)
        state.table(L.PRINT, state.prints)
        state.set32(L.PRINT_LIMIT, _PRINTS)
    state.covered = np.zeros(outcome_at(program, len(program.body)), np.uint8)
    state.table(L.COVERED, state.covered)
    state.stats = [np.zeros((len(program.body) + 1, 16))]
    scratch = np.zeros(5 * 4096, np.uint8)
    scratch[4096:8192] = 1
    scratch[4 * 4096 :] = 1
    state.table(L.SCRATCH, scratch)
    state.table(L.VARIABLES, pages.zeros(2 * _VARIABLES, np.uint64))
    state.set32(L.VARIABLE_SLOTS, _VARIABLES)
    state.table(L.LOG, pages.zeros(_LOG * L.E_RECORD))
    state.set32(L.LOG_LIMIT, _LOG)
    state.table(L.WALK, np.zeros(L.WALK_LIMIT, np.uint64))


def _variables(variables: tuple[Variable, ...], dynamic_bytes: int) -> tuple[Bytes, int]:
    """Return the table of variables, sorted by address, and the bytes of all of them."""
    rows, offset = [], 0
    for one in sorted(variables, key=lambda one: one.address):
        size = one.bytes or dynamic_bytes
        rows.append(struct.pack("<IIII", one.address, size, offset, 0))
        offset += -(-size // 16) * 16
    return np.frombuffer(b"".join(rows) or bytes(L.V_RECORD), np.uint8).copy(), offset + 16


def _fill_parts(
    state: LaunchState, program: Program, launch: Launch, places: dict[int, int], options: Options
) -> None:
    """Lay out launches that run at once: a record each, and the device of each block."""
    parts = np.zeros(len(launch.parts) * L.R_RECORD, np.uint8)
    kernels, first = program.name.split(BESIDE), 0
    indices = {id(one.buffer): index for index, one in enumerate(state.allocations) if one.buffer}
    for number, part in enumerate(launch.parts):
        at = number * L.R_RECORD
        if part.launch is not None:
            one = part.launch
            state.table(L.PARAMS, _arguments(program, one, places))
            for offset, dims in ((L.BLOCK_DIM, one.block), (L.GRID_DIM, one.grid)):
                for axis, value in enumerate(dims):
                    state.set32(offset + 4 * axis, value)
            table, _ = _variables(program.shared, one.dynamic_shared_bytes)
            state.table(L.SHARED_TABLE, table)
            fields = state.record[L.PARAMS : L.PARAMS + L.R_FIELDS_BYTES]
            parts[at : at + L.R_FIELDS_BYTES] = fields
            struct.pack_into("<I", parts.data, at + L.R_DYNAMIC, one.dynamic_shared_bytes)
            struct.pack_into("<I", parts.data, at + L.R_KERNEL, kernels.index(one.kernel))
        after = np.array(part.after or (0,), np.uint32)
        state.keep.append(after)
        struct.pack_into("<II", parts.data, at + L.R_FIRST, first, part.blocks)
        struct.pack_into("<I", parts.data, at + L.R_DEVICE, part.device)
        struct.pack_into("<QI", parts.data, at + L.R_AFTER, after.ctypes.data, len(part.after))
        if part.freed is not None:
            struct.pack_into("<I", parts.data, at + L.R_FREES, 1 + indices[id(part.freed)])
        first += part.blocks
    state.table(L.PARTS, parts)
    state.parts = parts
    state.set32(L.PART_COUNT, len(launch.parts))
    devices = [np.full(one.blocks, one.device, np.uint8) for one in launch.parts]
    state.table(L.DEVICES, np.concatenate(devices))
    state.set32(L.HELD, sum(1 << one for one in options.held))


def _arguments(program: Program, launch: Launch, places: dict[int, int]) -> Bytes:
    """Return the parameters of a launch of a program, or of one of its kernels, as bytes."""
    params = [one for one in program.params if one.kernel == launch.kernel]
    if len(launch.arguments) != len(params):
        raise MachineError(
            f"kernel '{launch.kernel}' takes {len(params)} arguments, the launch gives "
            f"{len(launch.arguments)}"
        )
    raw = np.zeros(max(16, program.param_bytes + 16), np.uint8)
    for index, (param, given) in enumerate(zip(params, launch.arguments, strict=True)):
        if isinstance(given, Pointer):
            # A number may be as large as an address, and is taken for one as long as its kernel
            # does not say what it is.
            place = given.buffer.address if param.is_number else 0
            text = struct.pack("<Q", (place or places[id(given.buffer)]) + given.offset)
        elif isinstance(given, TensorMap):
            text = given.packed(places[id(given.pointer.buffer)] + given.pointer.offset)
        else:
            text = given
        if len(text) != param.bytes:
            raise MachineError(
                f"argument {index} of kernel '{launch.kernel}' has {len(text)} bytes, "
                f"'{param.name}' takes {param.bytes}"
            )
        raw[param.offset : param.offset + len(text)] = np.frombuffer(text, np.uint8)
    for index, offset, pointer in launch.pointers_inside:
        place = params[index].offset + offset
        text = struct.pack("<Q", places[id(pointer.buffer)] + pointer.offset)
        raw[place : place + 8] = np.frombuffer(text, np.uint8)
    return raw
