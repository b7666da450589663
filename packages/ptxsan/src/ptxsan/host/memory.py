"""Memory of a program by address: what launches see of it, who wrote it, and whether it lives."""

from __future__ import annotations

import bisect
import ctypes
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan.addresses import led_to, reached
from ptxsan.launch import Buffer, Launch, Pointer

_WORD = struct.Struct("<Q")
_NO_BYTES = np.zeros(0, np.uint8)


@dataclass(slots=True)
class Memory:
    """Allocations at their real addresses, and those that are gone."""

    _buffers: dict[int, Buffer] = field(default_factory=dict)
    _bases: list[int] = field(default_factory=list)
    _gone: dict[int, tuple[int, Buffer]] = field(default_factory=dict)  # bytes, and a stand-in
    _gone_bases: list[int] = field(default_factory=list)
    _count: int = 0

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every allocation, in the order of addresses."""
        return tuple(self._buffers[base] for base in self._bases)

    def add(self, base: int, nbytes: int, *, initialised: bool) -> Buffer:
        """Learn of an allocation at `base`, which its owner keeps alive until `remove`."""
        self._count += 1
        data = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))
        flags = None if initialised else np.zeros(nbytes, np.bool_)
        gone_in = [
            old
            for old in self._gone_bases
            if old < base + nbytes and base < old + self._gone[old][0]
        ]
        for old in gone_in:
            del self._gone[old]
            self._gone_bases.remove(old)
        if base not in self._buffers:
            bisect.insort(self._bases, base)
        self._buffers[base] = Buffer(
            name=f"allocation {self._count} ({nbytes:,} bytes)", data=data, initialised=flags,
            alignment=min(256, base & -base), address=base,
        )  # fmt: skip
        return self._buffers[base]

    def remove(self, base: int, how: str = "freed") -> Buffer | None:
        """Note that an allocation is gone, and `how`; return what it was.

        Its addresses belong to a buffer without bytes from then on, whose name says so.
        """
        buffer = self._buffers.pop(base, None)
        if buffer is None:
            return None
        self._bases.remove(base)
        stand_in = Buffer(
            name=f"{buffer.name}, {how}", data=_NO_BYTES, alignment=buffer.alignment, address=base
        )
        self._gone[base] = buffer.data.nbytes, stand_in
        bisect.insort(self._gone_bases, base)
        return buffer

    def is_gone(self, name: str) -> bool:
        """Whether a name is that of an allocation that is gone."""
        return any(buffer.name == name for _, buffer in self._gone.values())

    def pointer(self, address: int) -> Pointer | None:
        """Return where an address points, one past an allocation's end included."""
        place = bisect.bisect_right(self._bases, address) - 1
        if place >= 0:
            base = self._bases[place]
            buffer, offset = self._buffers[base], address - base
            if offset < buffer.data.nbytes:
                return Pointer(buffer=buffer, offset=offset)
        gone = bisect.bisect_right(self._gone_bases, address) - 1
        if gone >= 0:
            base = self._gone_bases[gone]
            nbytes, stand_in = self._gone[base]
            if address < base + nbytes:
                return Pointer(buffer=stand_in, offset=address - base)
        if place >= 0 and offset == buffer.data.nbytes:
            return Pointer(buffer=buffer, offset=offset)
        return None

    def unwritten(self, base: int, nbytes: int) -> NDArray[np.bool_] | None:
        """Return which of these bytes nobody wrote; None where all of them were, or none is known.

        Bytes of no allocation count as written.
        """
        found = self.pointer(base)
        if found is None or found.buffer.initialised is None:
            return None
        flags = found.buffer.initialised[found.offset : found.offset + nbytes]
        return None if flags.all() else ~flags

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

    def all_buffers(self) -> tuple[Buffer, ...]:
        """Return every allocation, and the stand-ins of those that are gone to which words lead."""
        gone = [self._gone[base][1] for base in self._gone_bases]
        found = {id(one): one for each in self._buffers.values() for one in led_to(each, gone)}
        return (*self.buffers, *found.values())


@dataclass(slots=True)
class Unknown:
    """Allocations whose contents are not what a GPU would have left there, and since when.

    A launch that was not executed to its end was to write them; what depends on that is not known.
    """

    _since: dict[int, tuple[Buffer, str]] = field(default_factory=dict)  # by the buffer's identity

    def of(self, launch: Launch) -> str:
        """Return the launch that left unknown what another one may reach; empty where none did."""
        return next((self._since[id(b)][1] for b in reached(launch) if id(b) in self._since), "")

    def left_by(self, launch: Launch, name: str) -> None:
        """Note that a launch of this name did not write what it was to write."""
        for buffer in reached(launch):
            self._since.setdefault(id(buffer), (buffer, name))
            if buffer.initialised is not None:
                buffer.initialised[...] = True

    def copied(self, target: Buffer, source: Buffer | None, *, whole: bool) -> None:
        """Note that the host wrote a buffer, the `whole` of it or a part, from another one."""
        if source is not None and id(source) in self._since:
            self._since.setdefault(id(target), (target, self._since[id(source)][1]))
        elif whole:
            self.forget(target)

    def forget(self, buffer: Buffer) -> None:
        """Forget a buffer: its contents are known, or nobody's."""
        self._since.pop(id(buffer), None)


def pointers_in_structures(arguments: Any, pointer: Any) -> Any:
    """Yield (argument, byte offset, pointer) of addresses inside of structures by value."""
    for index, data in enumerate(arguments):
        if len(data) > _WORD.size:
            for offset in range(0, len(data) - 7, 8):
                found = pointer(_WORD.unpack_from(data, offset)[0])
                if found is not None:
                    yield index, offset, found


def may_be_padding(unwritten: NDArray[np.bool_]) -> bool:
    """Whether bytes that nobody wrote may be the padding of an array of structures.

    All gaps are as long, and as far from each other: multiples of an alignment that the gap fills
    up to, which some member of the structure has.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], unwritten, [False]]).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    if starts.size < 2:
        return False
    gap = int(ends[0] - starts[0])
    alignment = 1 << gap.bit_length()  # the least power of two above the gap
    if alignment > 16 or ((ends - starts) != gap).any() or (ends % alignment).any():
        return False
    steps = np.unique(np.diff(starts))
    whole = steps.size == 1 and unwritten.size // int(steps[0]) == starts.size
    return bool(whole and steps[0] % alignment == 0 and steps[0] >= 2 * alignment)
