"""The heap of device malloc: it lives as long as the module, over many launches."""

from __future__ import annotations

import struct
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan import pages
from ptxsan.inline import HEAP_CALLS
from ptxsan.program import Program
from ptxsan.runtime import layout as L
from ptxsan.syntax import Module

_MOST_BLOCKS = 1 << 16
_ARENA_BYTES = 1 << 26  # in all, freed blocks too
_GRANTED_BYTES = 8 << 20  # CUDA's default, cudaLimitMallocHeapSize
_KEPT = slice(L.H_COUNT, L.H_DATA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a heap held: counts of its record, the table of its blocks, bytes and flags."""

    record: bytes
    table: bytes
    data: bytes
    init: bytes


class Heap:
    """Memory that device code asks for. Bytes that nobody freed stay between launches."""

    def __init__(self, granted_bytes: int = _GRANTED_BYTES) -> None:
        self.granule = 4  # bytes of a race record
        self.record = np.zeros(L.H_RECORD, np.uint8)
        self.table = pages.zeros(_MOST_BLOCKS * L.A_RECORD)
        self.data = pages.zeros(_ARENA_BYTES)
        self.init = pages.zeros(_ARENA_BYTES)
        self.shadow: NDArray[Any] = pages.zeros(_ARENA_BYTES // 2 + 4, np.float32)
        self.set64(L.H_TABLE, self.table.ctypes.data)
        struct.pack_into("<I", self.record.data, L.H_LIMIT, _MOST_BLOCKS)
        self.set64(L.H_BYTES, _ARENA_BYTES)
        self.set64(L.H_MOST, granted_bytes)
        for offset, array in (
            (L.H_DATA, self.data), (L.H_INIT, self.init), (L.H_SHADOW, self.shadow)
        ):  # fmt: skip
            self.set64(offset, array.ctypes.data)

    def set64(self, offset: int, value: int) -> None:
        """Set a 64-bit field of the record."""
        struct.pack_into("<Q", self.record.data, offset, value)

    @property
    def count(self) -> int:
        """How many blocks malloc gave out, freed ones too."""
        return int(struct.unpack_from("<I", self.record.data, L.H_COUNT)[0])

    def race_records(self, granule: int) -> NDArray[np.uint64]:
        """Point the heap at new race records for a launch whose granule has so many bytes."""
        meta = pages.zeros(2 * (_ARENA_BYTES // granule), np.uint64)
        self.granule, shift = granule, granule.bit_length() - 1
        self.set64(L.H_META, meta.ctypes.data)
        struct.pack_into("<I", self.record.data, L.H_SHIFT, shift)
        rows = self.table.view(np.uint64).reshape(-1, L.A_RECORD // 8)[: self.count]
        start = rows[:, L.A_DATA // 8] - np.uint64(self.data.ctypes.data)
        records = (start >> np.uint64(shift)) * np.uint64(16)
        rows[:, L.A_META // 8] = records + np.uint64(meta.ctypes.data)
        self.table.view(np.uint32).reshape(-1, L.A_RECORD // 4)[: self.count, L.A_SHIFT // 4] = (
            shift
        )
        return meta

    def block(self, index: int) -> tuple[int, int, int]:
        """Return address, bytes and offset in the arena of a block."""
        base, size, data = struct.unpack_from("<QQQ", self.table.data, index * L.A_RECORD)
        return base, size, data - int(self.data.ctypes.data)

    def keep(self) -> Kept:
        """Return what the heap holds."""
        used = self._used()
        return Kept(
            record=self.record[_KEPT].tobytes(),
            table=self.table[: self.count * L.A_RECORD].tobytes(),
            data=self.data[:used].tobytes(), init=self.init[:used].tobytes(),
        )  # fmt: skip

    def restore(self, kept: Kept) -> None:
        """Put back what the heap held; memory given out since counts as never written."""
        used = self._used()
        self.init[:used] = 0
        self.record[_KEPT] = np.frombuffer(kept.record, np.uint8)
        for array, text in (
            (self.table, kept.table), (self.data, kept.data), (self.init, kept.init)
        ):  # fmt: skip
            array[: len(text)] = np.frombuffer(text, np.uint8)

    def holds(self, kept: Kept) -> bool:
        """Whether the heap holds what it held then."""
        now = self.keep()
        return now.record == kept.record and now.data == kept.data and now.init == kept.init

    def forget_marks(self) -> None:
        """Keep of each byte's flags whether it was written: the others are the machine's own."""
        self.init[: self._used()] &= 1

    def _used(self) -> int:
        return int(struct.unpack_from("<Q", self.record.data, L.H_USED)[0])


_HEAPS: weakref.WeakKeyDictionary[Module, Heap] = weakref.WeakKeyDictionary()


def module_heap(module: Module, program: Program) -> Heap | None:
    """Return the heap of a module once one of its kernels has asked for memory; else None."""
    if not program.calls.isdisjoint(HEAP_CALLS) and module not in _HEAPS:
        _HEAPS[module] = Heap()
    return _HEAPS.get(module)


def share(module: Module, other: Module) -> None:
    """Give a second module the heap of a first one, whichever of them has one."""
    for one, twin in ((module, other), (other, module)):
        if one in _HEAPS:
            _HEAPS[twin] = _HEAPS[one]
