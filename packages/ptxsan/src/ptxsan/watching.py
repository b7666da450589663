"""The second run for suspected races."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ptxsan import pages
from ptxsan.contexts import Contexts
from ptxsan.globals import module_memory
from ptxsan.heap import Heap, module_heap
from ptxsan.launch import Launch
from ptxsan.program import build
from ptxsan.record import Record
from ptxsan.records import LaunchState, buffers_of
from ptxsan.runtime import layout as L
from ptxsan.syntax import Module

_SLOTS, _NODES = 1 << 14, 1 << 20


class Snapshot:
    """The contents of all memory before a launch, to run it again."""

    def __init__(
        self, launch: Launch, variables: dict[str, NDArray[np.uint8]], heap: Heap | None
    ) -> None:
        self._heap = heap
        self._heap_before = None if heap is None else heap.keep()
        self._kept = [
            (one, one.data.copy(), None if one.initialised is None else one.initialised.copy())
            for one in buffers_of(launch)
        ]
        self._shadows = [
            (one, None if one.shadow is None else one.shadow.copy()) for one in buffers_of(launch)
        ]
        self._variables = [(one, one.copy()) for one in variables.values()]

    @property
    def nbytes(self) -> int:
        """How many bytes it keeps."""
        flags = [one for _, _, one in self._kept if one is not None]
        shadows = [one for _, one in self._shadows if one is not None]
        total = sum(data.nbytes for _, data, _ in self._kept)
        total += sum(one.nbytes for one in flags) + sum(one.nbytes for one in shadows)
        return total + sum(one.nbytes for _, one in self._variables)

    def is_now(self) -> bool:
        """Whether all memory holds what it held then, and the same bytes count as written."""
        flags = [(one.initialised, before) for one, _, before in self._kept]
        pairs = [(one.data, before) for one, before, _ in self._kept] + self._variables
        heap, before = self._heap, self._heap_before
        if heap is not None and before is not None and not heap.holds(before):
            return False
        return all(np.array_equal(now, before) for now, before in pairs) and all(
            np.array_equal(now, before)
            for now, before in flags
            if now is not None and before is not None
        )

    def restore(self) -> None:
        """Put everything back."""
        if self._heap is not None and self._heap_before is not None:
            self._heap.restore(self._heap_before)
        for buffer, data, initialised in self._kept:
            buffer.data[...] = data
            if buffer.initialised is not None and initialised is not None:
                buffer.initialised[...] = initialised
        for buffer, shadow in self._shadows:
            buffer.shadow = None if shadow is None else shadow.copy()
        for memory, before in self._variables:
            memory[...] = before


def snapshot(module: Module, launch: Launch) -> Snapshot:
    """Return the contents of all memory before a launch of one of a module's kernels."""
    program = build(module, launch.kernel)
    return Snapshot(launch, module_memory(module, program), module_heap(module, program))


def fill(state: LaunchState, suspects: list[Record], places: list[Contexts]) -> None:
    """Watch the granules of suspected races; those in shared memory in every context."""
    wanted: set[int] = set()
    for one in suspects:
        if one.space == L.S_GLOBAL:
            found = state.holding(one.address)
            table = next(
                array for array in state.keep if array.ctypes.data == state.get64(L.ALLOCATIONS)
            )
            shift = int(struct.unpack_from("<I", table.data, L.A_SHIFT)[0])
            wanted.add(int(found.meta.ctypes.data) + 16 * ((one.address - found.base) >> shift))
        else:
            wanted.update(_shared_granules(state, one, places))
    table = np.zeros(L.W_TABLE + 16 * _SLOTS, np.uint8)
    nodes = pages.zeros(L.W_NODE * _NODES)
    struct.pack_into("<III", table.data, 0, _SLOTS, 1, _NODES)
    struct.pack_into("<Q", table.data, L.W_NODES, nodes.ctypes.data)
    for place in sorted(wanted)[: _SLOTS // 2]:
        at = (place >> 4) & (_SLOTS - 1)
        while struct.unpack_from("<Q", table.data, L.W_TABLE + 16 * at)[0]:
            at = (at + 1) & (_SLOTS - 1)
        struct.pack_into("<Q", table.data, L.W_TABLE + 16 * at, place)
    state.keep.append(nodes)
    state.table(L.WATCH, table)


def _shared_granules(state: LaunchState, one: Record, places: list[Contexts]) -> Iterator[int]:
    """Yield the record of the same granule in each context."""
    table = next(array for array in state.keep if array.ctypes.data == state.get64(L.SHARED_TABLE))
    place, offset = one.address & ((1 << 27) - 1), 0
    for index in range(state.get32(L.SHARED_COUNT)):
        address, _, start, _ = struct.unpack_from("<IIII", table.data, index * L.V_RECORD)
        if address <= place:
            offset = start + place - address
    shift = state.get32(L.SHARED_SHIFT)
    for context in places:
        for start in range(0, context.blocks.size, L.BLOCK_BYTES):
            meta = struct.unpack_from("<Q", context.blocks.data, start + L.SHARED_META)[0]
            for byte in range(0, max(1, one.bytes), 1 << shift):
                yield meta + 16 * ((offset + byte) >> shift)
