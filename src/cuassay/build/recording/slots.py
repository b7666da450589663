"""Slots through which a shared library calls functions of others, pointed elsewhere.

A library calls what it links through slots that the loader fills (System V ABI, AMD64
supplement, section 5: the global offset table, relocations JUMP_SLOT and GLOB_DAT). The slots
of one library are pointed at functions of ours; other libraries, torch's above all, keep theirs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DYNAMIC, _LOAD = 2, 1  # program header types
_GLOB_DAT, _JUMP_SLOT = (6, 7), (1025, 1026)  # relocation types: x86-64, AArch64
_JMPREL, _PLTRELSZ, _RELA, _RELASZ, _SYMTAB, _STRTAB = 23, 2, 7, 8, 6, 5
_ENTRY, _SYMBOL = 24, 24  # bytes of Elf64_Rela and Elf64_Sym
_READ_WRITE = 3
_kept: list[Any] = []  # callbacks live as long as the process: libraries hold their addresses

Called = Callable[[str, Sequence[int], Callable[[], int]], int]
"""Given a function's name, its arguments as machine words, and what calls it: its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSlot:
    """Where a library keeps the address of a function, and the address that it held."""

    name: str
    address: int
    held: int = 0

    def restore(self) -> None:
        """Let the library call as before."""
        ctypes.c_uint64.from_address(self.address).value = self.held


def redirect(
    library: Path, words: Mapping[str, int], called: Called, *, result: Any = ctypes.c_int
) -> list[FunctionSlot]:
    """Lead calls of functions through `called`; return the slots that a loaded library has.

    `words` says how many machine words the arguments of each function take, `result` is the type
    of what they return. No slots where the library calls none of them, is not loaded, or is no
    64-bit ELF file.
    """
    try:
        base = _base(library)
        slots = list(_slots(library, base, words)) if base is not None else []
    except (OSError, struct.error, ValueError, IndexError):
        return []
    if not slots:
        return []
    names = ctypes.CDLL(str(library))
    return [_point(slot, names, called, words[slot.name], result) for slot in slots]


def _point(
    slot: FunctionSlot, names: ctypes.CDLL, called: Called, words: int, result: Any
) -> FunctionSlot:
    kind = ctypes.CFUNCTYPE(result, *([ctypes.c_uint64] * words))
    real = kind(ctypes.cast(getattr(names, slot.name), ctypes.c_void_p).value or 0)

    def through(*given: int) -> int:
        return called(slot.name, given, lambda: int(real(*given)))

    callback = kind(through)
    # Lift the write protection that the loader puts on slots it has filled for good.
    page = mmap.PAGESIZE
    start = slot.address // page * page
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(page), _READ_WRITE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    place = ctypes.c_uint64.from_address(slot.address)
    before = FunctionSlot(name=slot.name, address=slot.address, held=place.value)
    place.value = ctypes.cast(callback, ctypes.c_void_p).value or 0
    _kept.extend((callback, real))
    return before


def _base(library: Path) -> int | None:
    """Return the address that a loaded library's own addresses count from; None if not loaded."""
    wanted = os.path.realpath(library)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].strip() == wanted and int(fields[2], 16) == 0:
                return int(fields[0].split("-")[0], 16)
    return None


def _slots(library: Path, base: int, wanted: Mapping[str, int]) -> Iterator[FunctionSlot]:
    """Yield the slots of some functions in a loaded library's tables of relocations."""
    table = _dynamic(library)
    for start, size in ((_JMPREL, _PLTRELSZ), (_RELA, _RELASZ)):
        if start not in table or size not in table:
            continue
        entries = ctypes.string_at(base + table[start], table[size])
        for place in range(0, len(entries) - _ENTRY + 1, _ENTRY):
            offset, info, _ = struct.unpack_from("<QQq", entries, place)
            if info & 0xFFFFFFFF not in (*_GLOB_DAT, *_JUMP_SLOT):
                continue
            symbol = ctypes.string_at(base + table[_SYMTAB] + (info >> 32) * _SYMBOL, 4)
            name = ctypes.string_at(base + table[_STRTAB] + struct.unpack("<I", symbol)[0])
            if name.decode(errors="replace") in wanted:
                yield FunctionSlot(name=name.decode(), address=base + offset)


def _dynamic(library: Path) -> dict[int, int]:
    """Return the dynamic section of an ELF file, its addresses relative to where it begins."""
    with open(library, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            raise ValueError(f"{library} is no 64-bit ELF file")
        (headers,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(headers)
        raw = file.read(size * count)
        first = 0
        for number in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", raw, number * size)
            if kind == _LOAD and offset == 0:
                first = address
            if kind == _DYNAMIC:
                file.seek(offset)
                content = file.read(length)
                return {
                    tag: value - first if tag not in (_PLTRELSZ, _RELASZ) else value
                    for tag, value in struct.iter_unpack("<QQ", content[: length // 16 * 16])
                }
    return {}
