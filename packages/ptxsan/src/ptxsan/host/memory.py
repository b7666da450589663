"""Memory of a program by address: what launches see of it."""

from __future__ import annotations

import bisect
import ctypes
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxsan.launch import Buffer, Pointer

_WORD = struct.Struct("<Q")


@dataclass(slots=True)
class Memory:
    """Allocations at their real addresses."""

    _buffers: dict[int, Buffer] = field(default_factory=dict)
    _count: int = 0

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every allocation, in the order of addresses."""
        return tuple(self._buffers[base] for base in sorted(self._buffers))

    def add(self, base: int, nbytes: int, *, initialised: bool) -> None:
        """Learn of an allocation at `base`, which its owner keeps alive until `remove`."""
        self._count += 1
        data = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))
        flags = None if initialised else np.zeros(nbytes, np.bool_)
        self._buffers[base] = Buffer(
            name=f"allocation {self._count} ({nbytes:,} bytes)", data=data, initialised=flags,
            alignment=min(256, base & -base),
        )  # fmt: skip

    def remove(self, base: int) -> None:
        """Forget an allocation."""
        self._buffers.pop(base, None)

    def pointer(self, address: int) -> Pointer | None:
        """Return where an address points, one past an allocation's end included."""
        bases = sorted(self._buffers)
        place = bisect.bisect_right(bases, address) - 1
        if place < 0:
            return None
        buffer = self._buffers[bases[place]]
        offset = address - bases[place]
        return Pointer(buffer=buffer, offset=offset) if offset <= buffer.data.nbytes else None

    def mark_written(self, base: int, nbytes: int, source: int | None) -> None:
        """Note that the host wrote bytes, copied from `source` where that is known."""
        target = self.pointer(base)
        if target is None or target.buffer.initialised is None:
            return
        flags: Any = True
        origin = self.pointer(source) if source is not None else None
        if origin is not None and origin.buffer.initialised is not None:
            flags = origin.buffer.initialised[origin.offset : origin.offset + nbytes].copy()
        target.buffer.initialised[target.offset : target.offset + nbytes] = flags

    def argument(self, data: bytes) -> Pointer | bytes:
        """Return a parameter as a pointer where its eight bytes are an address of this memory."""
        found = self.pointer(_WORD.unpack(data)[0]) if len(data) == _WORD.size else None
        return found if found is not None else data

    def inside(self, arguments: tuple[bytes, ...]) -> tuple[tuple[int, int, Pointer], ...]:
        """Return the pointers inside of structures among the arguments."""
        return tuple(pointers_in_structures(arguments, self.pointer))

    def stored_pointers(self) -> tuple[tuple[Buffer, int, Pointer], ...]:
        """Return the addresses of this memory that lie in this memory: tables of pointers."""
        if not self._buffers:
            return ()
        low, high = min(self._buffers), max(b + x.data.nbytes for b, x in self._buffers.items())
        found = []
        for buffer in self._buffers.values():
            words = buffer.data[: buffer.data.nbytes & ~7].view(np.uint64)
            for place in np.flatnonzero((words >= low) & (words < high)):
                target = self.pointer(int(words[place]))
                if target is not None:
                    found.append((buffer, int(place) * 8, target))
        return tuple(found)


def pointers_in_structures(arguments: Any, pointer: Any) -> Any:
    """Yield (argument, byte offset, pointer) of addresses inside of structures by value."""
    for index, data in enumerate(arguments):
        if len(data) > _WORD.size:
            for offset in range(0, len(data) - 7, 8):
                found = pointer(_WORD.unpack_from(data, offset)[0])
                if found is not None:
                    yield index, offset, found
