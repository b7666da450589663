"""CUDA memory shared between two processes: driver API by ctypes, inter-process handles.

The judge allocates arenas and the worker opens them. A handle shares the whole allocation
under a pointer, so an arena is an allocation of its own, of whole 2 MiB pages, and is cleared
when made: it can hold nothing that the judge computed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Mapping
from typing import Any

import torch

from cuassay.errors import CannotJudgeError
from cuassay.sandbox.guest.memory.placement import cuda_bytes

_PAGE = 2 << 20
_LAZY_PEER_ACCESS = 1


class DeviceMemoryError(CannotJudgeError):
    """A call of the CUDA driver failed; the message names it and gives the driver's reason."""


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_byte * 64)]


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceMemoryError(f"the CUDA driver library cannot be loaded: {error}") from None


def _call(name: str, *arguments: Any) -> None:
    result = getattr(_driver(), name)(*arguments)
    if result:
        text = ctypes.c_char_p()
        _driver().cuGetErrorName(result, ctypes.byref(text))
        why = (text.value or b"unknown").decode()
        raise DeviceMemoryError(f"{name} failed: {why} ({result})")


def _use_torch_context() -> None:
    """Make the primary context of torch's device current in this thread."""
    torch.cuda.init()  # type: ignore[no-untyped-call]
    context = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(context))
    if not context.value:
        torch.zeros(1, device="cuda")  # the runtime then binds the primary context


class Arena:
    """Device memory of the judge that a worker can open."""

    _made = 0

    def __init__(self, size: int) -> None:
        _use_torch_context()
        self.size = max(_PAGE, -(-size // _PAGE) * _PAGE)
        pointer = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(self.size))
        self._pointer = pointer.value
        Arena._made += 1
        self._number = Arena._made
        self.bytes = cuda_bytes(self._pointer, self.size)
        self.bytes.zero_()
        torch.cuda.synchronize()

    def describe(self) -> dict[str, Any]:
        """Return what a worker needs to open the arena. Raises where sharing is refused."""
        handle = _Handle()
        _call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(self._pointer))
        return {"number": self._number, "size": self.size, "handle": bytes(handle).hex()}

    def close(self) -> None:
        """Free the memory; workers must have ended or closed it.

        Where the context was lost the driver frees it with the process: no verdict is lost to it.
        """
        if self._pointer:
            del self.bytes
            pointer, self._pointer = self._pointer, 0
            with contextlib.suppress(DeviceMemoryError):
                _call("cuMemFree_v2", ctypes.c_uint64(pointer))


class OpenedArenas:
    """The worker's side: arenas by number; all stay open until the process ends."""

    def __init__(self) -> None:
        self._open: dict[int, torch.Tensor] = {}

    def open(self, description: Mapping[str, Any]) -> torch.Tensor:
        """Return the arena as a uint8 tensor. Raises DeviceMemoryError where refused."""
        number = int(description["number"])
        if number not in self._open:
            _use_torch_context()
            handle = _Handle.from_buffer_copy(bytes.fromhex(description["handle"]))
            pointer = ctypes.c_uint64()
            _call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), handle, _LAZY_PEER_ACCESS)
            size = int(description["size"])
            self._open[number] = cuda_bytes(pointer.value, size)
        return self._open[number]
