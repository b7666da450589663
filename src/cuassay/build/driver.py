"""The few calls of the CUDA driver that launching a cubin needs, through ctypes.

Reference: CUDA driver API, modules cuModuleLoadData, cuFuncSetAttribute and cuLaunchKernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from cuassay.errors import MissingToolError

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DEFAULT_SHARED = 48 * 1024  # bytes that a launch may take without asking


class DriverError(RuntimeError):
    """A driver call failed while the candidate's kernel was loaded or launched."""


class Launcher(Protocol):
    """What `raw_kernel` needs of a driver."""

    def function(self, cubin: bytes, name: str) -> int:
        """Load the cubin (once) and return a handle of its kernel `name`."""

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        shared_bytes: int,
        stream: int,
        arguments: Sequence[ctypes._SimpleCData[int] | ctypes._SimpleCData[float]],
    ) -> None:
        """Launch on `stream` (a CUstream handle) and return at once."""


class Driver:
    """libcuda, in the primary context of one device: the context that torch uses."""

    def __init__(self, library: ctypes.CDLL, device: int = 0) -> None:
        self._library, self._device = library, device
        self._modules: dict[bytes, ctypes.c_void_p] = {}
        self._shared: dict[int, int] = {}

    def function(self, cubin: bytes, name: str) -> int:
        """Load the cubin (once) and return a handle of its kernel `name`."""
        self._enter_context()
        module = self._modules.get(cubin)
        if module is None:
            module = ctypes.c_void_p()
            self._check("cuModuleLoadData", ctypes.byref(module), cubin)
            self._modules[cubin] = module
        handle = ctypes.c_void_p()
        self._check("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
        return handle.value or 0

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        shared_bytes: int,
        stream: int,
        arguments: Sequence[ctypes._SimpleCData[int] | ctypes._SimpleCData[float]],
    ) -> None:
        """Launch on `stream` (a CUstream handle) and return at once."""
        self._enter_context()
        handle = ctypes.c_void_p(function)
        if shared_bytes > max(self._shared.get(function, 0), _DEFAULT_SHARED):
            self._check("cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED, shared_bytes)
            self._shared[function] = shared_bytes
        parameters = (ctypes.c_void_p * max(len(arguments), 1))(
            *(ctypes.addressof(argument) for argument in arguments)
        )
        sizes = [ctypes.c_uint(size) for size in (*grid, *block, shared_bytes)]
        self._check("cuLaunchKernel", handle, *sizes, ctypes.c_void_p(stream), parameters, None)

    def _enter_context(self) -> None:
        """Make the context current on this thread, unless one is."""
        current = ctypes.c_void_p()
        if self._library.cuCtxGetCurrent(ctypes.byref(current)) == 0 and current.value:
            return
        self._check("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check("cuDeviceGet", ctypes.byref(device), self._device)
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._check("cuCtxSetCurrent", context)

    def _check(self, call: str, *arguments: object) -> None:
        status = getattr(self._library, call)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            reason = (text.value or b"unknown error").decode(errors="replace")
            raise DriverError(f"CUDA error: {call} returned {status}: {reason}")


@cache
def load_driver(device: int) -> Driver:
    """Return the driver for a device's index. Raises MissingToolError without libcuda."""
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"), device)
    except OSError as error:
        raise MissingToolError(
            f"raw CUDA kernels need the NVIDIA driver and libcuda.so.1 cannot be loaded: {error}"
        ) from None
