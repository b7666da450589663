"""The few calls of the CUDA driver that launching a cubin needs, through ctypes.

Reference: CUDA driver API, modules cuModuleLoadData, cuFuncSetAttribute and cuLaunchKernel.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias

from cuassay.errors import MissingToolError

if TYPE_CHECKING:
    from cuassay.build.cuda.tile_maps import Encoded
    from ptxsan.syntax import Function

OUT_OF_MEMORY, NOT_FOUND = 2, 500  # CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_FOUND
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DEFAULT_SHARED = 48 * 1024  # bytes that a launch may take without asking
_NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_PORTABLE_CLUSTER = 8  # blocks of a cluster that every device takes
_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
ELEMENT_NUMBERS = {  # CUtensorMapDataType
    "u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8,
    "bf16": 9, "tf32": 11, "b4x16": 13, "b4x16_p64": 14, "b6x16_p32": 15,
}  # fmt: skip
Parameter: TypeAlias = (
    "ctypes._SimpleCData[int] | ctypes._SimpleCData[float] | ctypes.Array[ctypes.c_uint64]"
)


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id, padding to 8 bytes, and a value of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class DriverError(RuntimeError):
    """A driver call failed while the candidate's kernel was loaded or launched.

    `status` is the CUresult that it returned.
    """

    def __init__(self, message: str, *, status: int) -> None:
        self.status = status
        super().__init__(message)


def parameter_bytes(kernel: Function, arguments: Sequence[Parameter]) -> list[bytes]:
    """Return what a kernel gets of each argument: as many bytes as its parameter has.

    The driver is given addresses alone and copies that many, of a 64-bit integer the low half
    where the kernel declares an int. An argument that is shorter than its parameter stays short.
    """
    from ptxsan.declarations import size_of

    given = [bytes(argument) for argument in arguments]
    sizes = [size_of(one.type) * one.count for one in kernel.params]
    if len(sizes) != len(given):
        return given  # who launches says so
    return [raw[:size] for raw, size in zip(given, sizes, strict=True)]


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
        arguments: Sequence[Parameter],
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> None:
        """Launch on `stream` (a CUstream handle) and return at once."""

    def tensor_map(self, one: Encoded) -> bytes:
        """Return the 128 bytes of a tensor map parameter."""


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
        arguments: Sequence[Parameter],
        cluster: tuple[int, int, int] = (1, 1, 1),
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
        if cluster == (1, 1, 1):
            self._check("cuLaunchKernel", handle, *sizes, ctypes.c_void_p(stream), parameters, None)
            return
        if math.prod(cluster) > _PORTABLE_CLUSTER:
            self._check("cuFuncSetAttribute", handle, _NON_PORTABLE_CLUSTER, 1)
        attribute = _Attribute(_CLUSTER_DIMENSION, b"", (ctypes.c_uint * 16)(*cluster))
        config = _Config(*(size.value for size in sizes), stream, ctypes.pointer(attribute), 1)
        self._check("cuLaunchKernelEx", ctypes.byref(config), handle, parameters, None)

    def tensor_map(self, one: Encoded) -> bytes:
        """Return the 128 bytes of a tensor map (cuTensorMapEncode...). Raises DriverError."""
        self._enter_context()
        rank = len(one.sizes)
        room = ctypes.create_string_buffer(128 + 64)
        place = -(-ctypes.addressof(room) // 64) * 64
        shape: tuple[object, ...] = ((ctypes.c_uint32 * rank)(*one.box),)
        if one.columns is not None:
            shape = (
                (ctypes.c_int * (rank - 2))(*one.columns.lower),
                (ctypes.c_int * (rank - 2))(*one.columns.upper),
                ctypes.c_uint(one.columns.channels), ctypes.c_uint(one.columns.pixels),
            )  # fmt: skip
        self._check(
            "cuTensorMapEncodeTiled" if one.columns is None else "cuTensorMapEncodeIm2col",
            ctypes.c_void_p(place), ELEMENT_NUMBERS[one.element],
            ctypes.c_uint(rank), ctypes.c_void_p(one.address),
            (ctypes.c_uint64 * rank)(*one.sizes),
            (ctypes.c_uint64 * max(rank - 1, 1))(*one.strides),
            *shape,
            (ctypes.c_uint32 * rank)(*(one.steps or [1] * rank)),
            0, (0, 32, 64, 128).index(one.swizzle), 0, int(one.nan_fill),
        )  # fmt: skip
        return ctypes.string_at(place, 128)

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Return base and bytes of the device allocation around an address, if there is one."""
        self._enter_context()
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        status = self._library.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
        )
        return (base.value, size.value) if status == 0 else None

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
            raise DriverError(f"CUDA error: {call} returned {status}: {reason}", status=status)


@cache
def load_driver(device: int) -> Driver:
    """Return the driver for a device's index. Raises MissingToolError without libcuda."""
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"), device)
    except OSError as error:
        raise MissingToolError(
            f"raw CUDA kernels need the NVIDIA driver and libcuda.so.1 cannot be loaded: {error}"
        ) from None
