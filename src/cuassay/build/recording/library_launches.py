"""Kernel launches of shared libraries, led through here: counted, and done or not.

A library calls the CUDA runtime through slots that the loader fills (System V ABI, AMD64
supplement, section 5: the global offset table, relocations JUMP_SLOT and GLOB_DAT). The slots
of one library are pointed at functions of ours; other libraries, torch's above all, keep theirs.
A launch then costs a few microseconds more: it is done for few calls, never where time counts.
"""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuassay.errors import MissingToolError

_WORDS = {  # launch functions by how many machine words their arguments take
    **dict.fromkeys(
        (
            *("cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cudaLaunchCooperativeKernel"),
            *("__cudaLaunchKernel", "__cudaLaunchKernel_ptsz"),
        ),
        8,  # a dim3 has 12 bytes and takes two words
    ),
    **dict.fromkeys(("cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz"), 3),
    **dict.fromkeys(("cuLaunchKernel", "cuLaunchKernel_ptsz"), 11),
    **dict.fromkeys(("cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"), 4),
}
_DYNAMIC, _LOAD = 2, 1  # program header types
_GLOB_DAT, _JUMP_SLOT = (6, 7), (1025, 1026)  # relocation types: x86-64, AArch64
_JMPREL, _PLTRELSZ, _RELA, _RELASZ, _SYMTAB, _STRTAB = 23, 2, 7, 8, 6, 5
_ENTRY, _SYMBOL = 24, 24  # bytes of Elf64_Rela and Elf64_Sym
_READ_WRITE = 3
# cudaLaunchKernel(function, grid, block, parameters, shared bytes, stream) and its like; those
# with a leading __ are what nvcc makes of <<<>>> from CUDA 13 on, and take a cudaKernel_t.
_BY_STUB = ("cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cudaLaunchCooperativeKernel")
_BY_HANDLE = ("__cudaLaunchKernel", "__cudaLaunchKernel_ptsz")
_LOW = (1 << 32) - 1
# cudaLaunchConfig_t and CUlaunchConfig have their attributes at the same place: (id, padding, a
# union of 64 bytes) each, of which id 4 is the size of a cluster.
_ATTRIBUTES, _ATTRIBUTE_BYTES, _CLUSTER, _MOST_ATTRIBUTES = 40, 72, 4, 64
Dim3 = tuple[int, int, int]


class Names(enum.Enum):
    """What a launch calls its kernel by."""

    STUB = enum.auto()  # the host's function
    KERNEL = enum.auto()  # a cudaKernel_t or CUkernel
    FUNCTION = enum.auto()  # a CUfunction


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLaunch:
    """One launch as a library asks for it.

    `function` names the kernel to the runtime as `names` says, `parameters` is the address of a
    table of the addresses of its arguments.
    """

    library: Path
    function: int
    names: Names
    grid: Dim3
    block: Dim3
    shared_bytes: int
    parameters: int
    cluster: Dim3 = (1, 1, 1)

    def kernel(self) -> str:
        """Return the kernel's name as PTX has it. Raises MissingToolError."""
        name, status = ctypes.c_char_p(), 0
        try:
            for ask in self._askable():
                status = int(ask(ctypes.byref(name), ctypes.c_void_p(self.function)))
                if not status:
                    break
        except (OSError, AttributeError) as error:
            raise MissingToolError(f"CUDA does not say how a kernel is called: {error}") from None
        if status or not name.value:
            raise MissingToolError(f"CUDA does not say how a kernel is called: error {status}")
        return name.value.decode()

    def _askable(self) -> Iterator[Any]:
        """Yield the functions of CUDA that may know the kernel's name."""
        if self.names is Names.STUB:
            yield ctypes.CDLL(str(self.library)).cudaFuncGetName
            return
        driver = ctypes.CDLL("libcuda.so.1")
        if self.names is Names.FUNCTION:
            yield driver.cuFuncGetName
        yield driver.cuKernelGetName  # a CUkernel may stand for a CUfunction

    def arguments(self, sizes: Sequence[int]) -> list[bytes]:
        """Return the arguments' bytes; `sizes` are those of the kernel's parameters."""
        table = (ctypes.c_uint64 * len(sizes)).from_address(self.parameters) if sizes else ()
        return [ctypes.string_at(place, size) for place, size in zip(table, sizes, strict=True)]


Through = Callable[[Callable[[], int], LibraryLaunch | None], int]
_kept: list[Any] = []  # callbacks live as long as the process: libraries hold their addresses
_before: dict[Path, list[tuple[int, int]]] = {}  # slots that were pointed here, what they held


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """Where a library keeps the address of a launch function."""

    name: str
    address: int


def lead(library: Path, through: Through) -> int:
    """Lead every launch of a loaded library through `through`; return how many slots it has.

    `through` is given a function that does the launch and returns the runtime's status, and what
    is launched (None where the arguments have another form); it returns a status itself (0 is
    success). 0 where the library launches nothing, is not
    loaded, or is no 64-bit ELF file.
    """
    try:
        base = _base(library)
        slots = list(_slots(library, base)) if base is not None else []
    except (OSError, struct.error, ValueError, IndexError):
        return 0
    if not slots:
        return 0
    names = ctypes.CDLL(str(library))
    for slot in slots:
        _point(slot, names, through, library)
    return len(slots)


def _point(slot: _Slot, names: ctypes.CDLL, through: Through, library: Path) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_uint64] * _WORDS[slot.name]))
    real = kind(ctypes.cast(getattr(names, slot.name), ctypes.c_void_p).value or 0)

    def called(*words: int) -> int:
        return through(lambda: int(real(*words)), _read(slot.name, words, library))

    callback = kind(called)
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    # Lift the write protection that the loader puts on slots it has filled for good.
    page = mmap.PAGESIZE
    start = slot.address // page * page
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(page), _READ_WRITE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    held = ctypes.c_uint64.from_address(slot.address)
    _before.setdefault(library, []).append((slot.address, held.value))
    held.value = address
    _kept.extend((callback, real))


def release(library: Path) -> None:
    """Let a library that `lead` led launch as before."""
    for address, value in reversed(_before.pop(library, [])):
        ctypes.c_uint64.from_address(address).value = value


def _read(name: str, words: Sequence[int], library: Path) -> LibraryLaunch | None:
    """Return what is launched; None where arguments come in another form than a table."""
    match name.removesuffix("_ptsz"):
        case "cudaLaunchKernelExC":
            config, function, parameters = words
            whole = (ctypes.c_uint * 6).from_address(config)
            return LibraryLaunch(
                library=library, function=function, names=Names.STUB,
                grid=_dim3(whole[0:3]), block=_dim3(whole[3:6]),
                shared_bytes=ctypes.c_size_t.from_address(config + 24).value,
                parameters=parameters, cluster=_cluster(config),
            )  # fmt: skip
        case "cuLaunchKernelEx":
            config, function, parameters, extra = words
            whole = (ctypes.c_uint * 7).from_address(config)
            return None if extra else LibraryLaunch(
                library=library, function=function, names=Names.FUNCTION,
                grid=_dim3(whole[0:3]), block=_dim3(whole[3:6]), shared_bytes=whole[6],
                parameters=parameters, cluster=_cluster(config),
            )  # fmt: skip
        case "cuLaunchKernel":
            function, *extents, shared_bytes, _, parameters, extra = words
            return None if extra else LibraryLaunch(
                library=library, function=function, names=Names.FUNCTION,
                grid=_dim3(extents[0:3]), block=_dim3(extents[3:6]),
                shared_bytes=shared_bytes & _LOW, parameters=parameters,
            )  # fmt: skip
        case _:
            function, grid, grid_z, block, block_z, parameters, shared_bytes, _ = words
            return LibraryLaunch(
                library=library, function=function,
                names=Names.KERNEL if name in _BY_HANDLE else Names.STUB,
                grid=(grid & _LOW, grid >> 32, grid_z & _LOW),
                block=(block & _LOW, block >> 32, block_z & _LOW), shared_bytes=shared_bytes,
                parameters=parameters,
            )  # fmt: skip


def _dim3(values: Sequence[int]) -> Dim3:
    return values[0] & _LOW, values[1] & _LOW, values[2] & _LOW


def _cluster(config: int) -> Dim3:
    """Return the cluster that a launch's attributes ask for."""
    attributes = ctypes.c_uint64.from_address(config + _ATTRIBUTES).value
    count = ctypes.c_uint.from_address(config + _ATTRIBUTES + 8).value
    for number in range(min(count, _MOST_ATTRIBUTES) if attributes else 0):
        place = attributes + number * _ATTRIBUTE_BYTES
        if ctypes.c_uint.from_address(place).value == _CLUSTER:
            return _dim3(list((ctypes.c_uint * 3).from_address(place + 8)))
    return 1, 1, 1


def _base(library: Path) -> int | None:
    """Return the address that a loaded library's own addresses count from; None if not loaded."""
    wanted = os.path.realpath(library)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].strip() == wanted and int(fields[2], 16) == 0:
                return int(fields[0].split("-")[0], 16)
    return None


def _slots(library: Path, base: int) -> Iterator[_Slot]:
    """Yield the slots of launch functions in a loaded library's tables of relocations."""
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
            if name.decode(errors="replace") in _WORDS:
                yield _Slot(name=name.decode(), address=base + offset)


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
