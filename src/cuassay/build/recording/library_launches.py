"""Kernel launches of shared libraries, led through here: counted, and done or not.

The slots of one library (see `slots`) are pointed at functions of ours. A launch then costs a few
microseconds more: it is done for few calls, never where time counts.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuassay.build.recording.slots import FunctionSlot, redirect
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
# cudaLaunchKernel(function, grid, block, parameters, shared bytes, stream) and its like; those
# with a leading __ are what nvcc makes of <<<>>> from CUDA 13 on, and take a cudaKernel_t.
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

    def variables(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return what variables of the kernel's module hold on the GPU.

        Those that CUDA does not find by their names hold what they did when the module was loaded.
        """
        found = {}
        try:
            holder, ask, driver = self._holder()
            for name in names:
                place, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
                if ask(ctypes.byref(place), ctypes.byref(nbytes), holder, name.encode()):
                    continue
                held = ctypes.create_string_buffer(nbytes.value)
                if not driver.cuMemcpyDtoH_v2(held, place, nbytes):
                    found[name] = held.raw
        except (OSError, AttributeError):
            return {}  # an older CUDA
        return found

    def _holder(self) -> tuple[ctypes.c_void_p, Any, ctypes.CDLL]:
        """Return the kernel's library or module, what looks a variable up in it, and the driver."""
        driver, holder = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        kernel = ctypes.c_void_p(self.function)
        if self.names is Names.FUNCTION:
            driver.cuFuncGetModule(ctypes.byref(holder), kernel)
            return holder, driver.cuModuleGetGlobal_v2, driver
        if self.names is Names.STUB:
            runtime = ctypes.CDLL(str(self.library))
            runtime.cudaGetKernel(ctypes.byref(kernel), ctypes.c_void_p(self.function))
        driver.cuKernelGetLibrary(ctypes.byref(holder), kernel)
        return holder, driver.cuLibraryGetGlobal, driver

    def arguments(self, sizes: Sequence[int]) -> list[bytes]:
        """Return the arguments' bytes; `sizes` are those of the kernel's parameters."""
        table = (ctypes.c_uint64 * len(sizes)).from_address(self.parameters) if sizes else ()
        return [ctypes.string_at(place, size) for place, size in zip(table, sizes, strict=True)]


Through = Callable[[Callable[[], int], LibraryLaunch | None], int]
_before: dict[Path, list[FunctionSlot]] = {}  # slots that were pointed here


def lead(library: Path, through: Through) -> int:
    """Lead every launch of a loaded library through `through`; return how many slots it has.

    `through` is given a function that does the launch and returns the runtime's status, and what
    is launched (None where the arguments have another form); it returns a status itself (0 is
    success). 0 where the library launches nothing, is not loaded, or is no 64-bit ELF file.
    """

    def called(name: str, words: Sequence[int], go: Callable[[], int]) -> int:
        return through(go, launch_of(name, words, library))

    slots = redirect(library, _WORDS, called)
    _before.setdefault(library, []).extend(slots)
    return len(slots)


def release(library: Path) -> None:
    """Let a library that `lead` led launch as before."""
    for slot in reversed(_before.pop(library, [])):
        slot.restore()


def launch_of(name: str, words: Sequence[int], library: Path) -> LibraryLaunch | None:
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
