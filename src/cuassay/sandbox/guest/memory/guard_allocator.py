"""An allocator under torch: every CUDA allocation is one of the driver, between guard zones.

torch calls two C functions for each allocation; here they are Python. Memory is filled when
it is handed out. Freed memory is kept and, once nothing runs, filled: a write or a read after
free shows. What a stream capture allocates belongs to the graph, whose replays may write to it
after torch freed it: its zones are watched, its content is not.

Out of sight: memory that a kernel takes by itself (cudaMalloc, cudaMallocAsync, VMM), shared
and local memory, and accesses beyond the zones.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from cuassay.sandbox.guest.memory.guard_zones import (
    MOST_AT_ONCE,
    GuardedBlock,
    ZoneLedger,
    guard_bytes,
)

_LEAST, _MULTIPLE = 1 << 14, 512
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: our calls do not end anybody's capture
_NON_BLOCKING = 1
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class _DriverError(Exception):
    """A call of the CUDA driver failed."""


class DeviceAccess:
    """Memory of one device, read and written on a stream of our own."""

    def __init__(self, driver: ctypes.CDLL, device: int) -> None:
        self._driver, self._context = driver, ctypes.c_void_p()
        self._stream = ctypes.c_void_p()
        self._stage = 0  # where bytes arrive that are read
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        with self.current():
            self._call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            raise _DriverError(f"{name}: {code}")

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make the device's context current, and allow what a capture elsewhere would forbid."""
        mode = ctypes.c_int(_RELAXED)
        self._call("cuCtxPushCurrent_v2", self._context)
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        try:
            yield
        finally:
            self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def reserve(self, size: int) -> int:
        """Return the address of new memory. Raises _DriverError."""
        pointer = ctypes.c_uint64()
        with self.current():
            self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return int(pointer.value)

    def captures(self, stream: int | None) -> bool:
        """Whether a stream is being captured."""
        status = ctypes.c_int()
        with self.current():
            self._call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
        return status.value != 0

    def fill(self, address: int, byte: int, size: int) -> None:
        """Fill memory with one byte; it is there once `write` returns, which has to follow.

        On a busy GPU each wait takes milliseconds, and a loop in torch allocates a thousand times.
        """
        with self.current():
            where, count = ctypes.c_uint64(address), ctypes.c_size_t(size)
            self._call("cuMemsetD8Async", where, ctypes.c_ubyte(byte), count, self._stream)

    def read(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Yield the bytes of each (address, size): one wait for as many as are staged at once."""
        staged: list[tuple[int, int]] = []
        total = 0
        for address, size in places:
            if total + size > MOST_AT_ONCE:
                yield from self._staged(staged)
                staged, total = [], 0
            staged.append((address, size))
            total += size
        yield from self._staged(staged)

    def _staged(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        if not places:
            return []
        with self.current():
            if not self._stage:
                # The address of MOST_AT_ONCE bytes of the host's memory, pinned where it can be
                pinned = ctypes.c_void_p()
                with contextlib.suppress(_DriverError):
                    self._call(
                        "cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(MOST_AT_ONCE), 0
                    )
                if pinned.value:
                    self._stage = pinned.value
                else:
                    self._pageable = ctypes.create_string_buffer(MOST_AT_ONCE)
                    self._stage = ctypes.addressof(self._pageable)
            begins = [0, *itertools.accumulate(size for _, size in places)]
            for (address, size), begin in zip(places, begins, strict=False):
                to, where = ctypes.c_void_p(self._stage + begin), ctypes.c_uint64(address)
                self._call("cuMemcpyDtoHAsync_v2", to, where, ctypes.c_size_t(size), self._stream)
            self._call("cuStreamSynchronize", self._stream)
        ends = zip(places, begins, strict=False)
        return [ctypes.string_at(self._stage + begin, size) for (_, size), begin in ends]

    def write(self, places: Iterable[tuple[int, bytes]]) -> None:
        """Write bytes at each address, and wait once for all of them."""
        kept = list(places)  # until they are there
        if not kept:
            return
        with self.current():
            for address, data in kept:
                where, count = ctypes.c_uint64(address), ctypes.c_size_t(len(data))
                self._call("cuMemcpyHtoDAsync_v2", where, data, count, self._stream)
            self._call("cuStreamSynchronize", self._stream)

    def free(self, block: GuardedBlock) -> None:
        """Give a block back to the driver; nothing of the candidate may be running."""
        with contextlib.suppress(_DriverError), self.current():
            self._call("cuMemFree_v2", ctypes.c_uint64(block.address - block.guard))


class CudaAllocator:
    """The two functions that torch calls; they live as long as the process.

    `byte` is what fresh memory holds, None leaves it alone. `exhausted` is set for good where
    an allocation failed: torch then hands out a null pointer.
    """

    def __init__(self, ledger: ZoneLedger) -> None:
        self._ledger = ledger
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._devices: dict[int, DeviceAccess] = {}
        self._lock = threading.RLock()  # torch's threads allocate too
        self._functions = _ALLOCATE(self._allocate), _FREE(self._release)
        self._torch: object | None = None
        self.byte: int | None = None
        self.exhausted = False

    def install(self) -> None:
        """Make torch use it. Raises RuntimeError where CUDA has allocated already."""
        pointers = (ctypes.cast(each, ctypes.c_void_p).value for each in self._functions)
        make, change = (
            getattr(torch._C, name)
            for name in ("_cuda_customAllocator", "_cuda_changeCurrentAllocator")
        )
        self._torch = make(*pointers)
        change(self._torch)

    def _allocate(self, size: int, device: int, stream: int | None) -> int | None:
        try:
            with self._lock:
                nbytes = int(size)
                index = int(device)
                if index not in self._devices:
                    self._devices[index] = DeviceAccess(self._driver, index)
                access = self._devices[index]
                guard = guard_bytes(nbytes, least=_LEAST, multiple=_MULTIPLE)
                room = guard + -(-nbytes // _MULTIPLE) * _MULTIPLE + guard
                address = access.reserve(room) + guard
                if self.byte is not None and nbytes:
                    access.fill(address, self.byte, nbytes)
                pinned = access.captures(stream)
                self._ledger.add(
                    GuardedBlock(
                        address=address, size=nbytes, guard=guard, access=access, pinned=pinned
                    )
                )
                return address
        except _DriverError:
            self.exhausted = True
            return None

    def _release(self, pointer: int | None, size: int, device: int, stream: int | None) -> None:
        with self._lock:
            self._ledger.freed(int(pointer or 0))
