"""Large tables as pages that the system hands out zeroed, and that cost nothing until touched.

`numpy.zeros` gives the same where the C library maps what is large. A worker tells it not to
(sandbox/guest/memory/placement.py: a freed address is to come back); there half a gigabyte of
tables that hardly any kernel touches was cleared for every launch.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import weakref
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_SMALL_BYTES = 1 << 18  # below, the system call costs more than clearing
_MIRRORED_BYTES = 1 << 24  # that a mirror shows over and over
_MIRRORS = 4096  # mappings of one array: a process may have 65,530
_NO_ACCESS, _NORESERVE, _FIXED = 0, 0x4000, 0x10  # mmap(2) on Linux


def zeros(
    shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8, *, reserved: bool = True
) -> NDArray[Any]:
    """Return a writable array of zeros of this shape and dtype, alive as long as it is used.

    One that is not `reserved` may be larger than memory, and than a worker's limit of private
    memory: only what is touched takes room. Raises MemoryError where the system has no room.
    """
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    size = count * np.dtype(dtype).itemsize
    if size < _SMALL_BYTES:
        return np.zeros(shape, dtype)
    flags = mmap.MAP_ANONYMOUS | (mmap.MAP_PRIVATE if reserved else mmap.MAP_SHARED | _NORESERVE)
    try:
        memory = mmap.mmap(-1, size, flags=flags)
    except OSError as error:
        raise MemoryError(f"no room for a table of {size} bytes: {error}") from None
    return np.frombuffer(memory, dtype, count).reshape(shape)


def mirror(size: int, value: int = 0) -> NDArray[np.uint8]:
    """Return `size` bytes of addresses that all show the same few megabytes, filled with `value`.

    What is written at one place appears at others too: memory for threads whose addresses are
    looked at, and whose data is not. Small arrays are plain memory. Raises MemoryError where the
    system refuses the mappings.
    """
    if size <= _MIRRORED_BYTES:
        return np.full(size, value, np.uint8)
    step = max(_MIRRORED_BYTES, -(-size // _MIRRORS // _MIRRORED_BYTES) * _MIRRORED_BYTES)
    whole = -(-size // step) * step
    readable = mmap.PROT_READ | mmap.PROT_WRITE
    file = os.memfd_create("mirror", os.MFD_CLOEXEC)
    try:
        os.ftruncate(file, step)
        base = _map(0, whole, _NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, -1)
        bytes_ = (ctypes.c_uint8 * size).from_address(base)
        weakref.finalize(bytes_, _libc().munmap, ctypes.c_void_p(base), ctypes.c_size_t(whole))
        for place in range(base, base + whole, step):
            _map(place, step, readable, mmap.MAP_SHARED | _FIXED, file)
    finally:
        os.close(file)
    found: NDArray[np.uint8] = np.ctypeslib.as_array(bytes_)
    if value:
        found[:step] = value
    return found


def _map(place: int, size: int, access: int, flags: int, file: int) -> int:
    found = _libc().mmap(place or None, size, access, flags, file, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise MemoryError(f"no room for {size} bytes of addresses: errno {ctypes.get_errno()}")
    return int(found)


@cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library
