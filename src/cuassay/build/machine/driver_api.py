"""The CUDA driver of a process without a GPU, for Python packages that launch kernels through it.

cuda.core, numba-cuda and TileLang call CUDA through cuda.bindings, which looks each function up by
its name. What it finds here are functions of Python. One that is not listed does not exist: the
package says which it misses. NVRTC, as these packages find it, gives PTX for machine code. Work is
done in the order in which it is issued, so streams and events have nothing to wait for. Reference:
CUDA driver API and NVRTC, version 13.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import inspect
import itertools
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cuassay.build.machine.host_memory import HostMemory
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.recording.library_launches import launch_of
from cuassay.build.recording.library_maps import encode_map, map_arguments
from cuassay.build.recording.slots import redirect
from cuassay.build.sources import with_own_lines
from cuassay.errors import MissingToolError

_INVALID_VALUE, _NOT_FOUND, _FAILED, _NOT_SUPPORTED = 1, 500, 719, 801  # CUresult
_VERSION, _CONTEXT, _ALIGNMENT = 13000, 1, 256
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_LOW = (1 << 32) - 1
_WORD, _INT = ctypes.c_uint64, ctypes.c_int
_MOST_ARGUMENTS = 12  # more than any function has: those that it lacks are not looked at
_SUFFIX = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
# What each writes: the place of the address among the arguments, the number, and its type.
_CONSTANTS: dict[str, tuple[tuple[int, int, Any], ...]] = {
    **dict.fromkeys(
        ("cuInit", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuCtxSetCurrent",
         "cuCtxPushCurrent", "cuCtxDestroy", "cuCtxSynchronize", "cuStreamDestroy",
         "cuStreamSynchronize", "cuStreamQuery", "cuStreamWaitEvent", "cuEventSynchronize",
         "cuEventQuery", "cuModuleUnload", "cuLibraryUnload", "cuFuncSetCacheConfig",
         "cuKernelSetCacheConfig", "cuLinkDestroy", "cuProfilerStart", "cuProfilerStop"), ()),
    "cuDriverGetVersion": ((0, _VERSION, _INT),), "cuDeviceGetCount": ((0, 1, _INT),),
    "cuDeviceGet": ((0, 0, _INT),), "cuDeviceTotalMem": ((0, 2**33, _WORD),),
    "cuDeviceGetUuid": ((0, 0, _WORD), (0, 0, _WORD)),
    "cuDevicePrimaryCtxRetain": ((0, _CONTEXT, _WORD),), "cuCtxCreate": ((0, _CONTEXT, _WORD),),
    "cuDevicePrimaryCtxGetState": ((1, 0, _INT), (2, 1, _INT)),
    "cuCtxGetCurrent": ((0, _CONTEXT, _WORD),), "cuCtxPopCurrent": ((0, _CONTEXT, _WORD),),
    "cuCtxGetDevice": ((0, 0, _INT),), "cuCtxGetId": ((1, _CONTEXT, _WORD),),
    "cuCtxGetApiVersion": ((1, 3020, _INT),), "cuCtxGetFlags": ((0, 0, _INT),),
    "cuCtxGetStreamPriorityRange": ((0, 0, _INT), (1, 0, _INT)),
    "cuStreamGetCtx": ((1, _CONTEXT, _WORD),), "cuStreamGetDevice": ((1, 0, _INT),),
    "cuStreamGetFlags": ((1, 1, _INT),), "cuStreamGetPriority": ((1, 0, _INT),),
    "cuStreamIsCapturing": ((1, 0, _INT),), "cuMemGetInfo": ((0, 2**33, _WORD), (1, 2**33, _WORD)),
}  # fmt: skip
# Functions that do what another one does with its first arguments.
_SAME = {
    "cuGetErrorName": "cuGetErrorString", "cuStreamCreateWithPriority": "cuStreamCreate",
    "cuMemAllocAsync": "cuMemAlloc", "cuMemHostAlloc": "cuMemAllocManaged",
    "cuMemFreeAsync": "cuMemFree", "cuMemFreeHost": "cuMemFree", "cuMemcpyHtoD": "cuMemcpy",
    "cuMemcpyDtoH": "cuMemcpy", "cuMemcpyDtoD": "cuMemcpy", "cuMemcpyAsync": "cuMemcpy",
    "cuMemcpyHtoDAsync": "cuMemcpy", "cuMemcpyDtoHAsync": "cuMemcpy",
    "cuMemcpyDtoDAsync": "cuMemcpy", "cuMemsetD8Async": "cuMemsetD8",
    "cuMemsetD16Async": "cuMemsetD16", "cuMemsetD32Async": "cuMemsetD32",
    "cuModuleLoadDataEx": "cuModuleLoadData", "cuLibraryLoadData": "cuModuleLoadData",
    "cuLibraryGetKernel": "cuModuleGetFunction", "cuKernelGetAttribute": "cuFuncGetAttribute",
    "cuFuncGetName": "cuKernelGetName",
    "cuFuncGetParamInfo": "cuKernelGetParamInfo", "cuFuncGetModule": "cuKernelGetLibrary",
}  # fmt: skip


def _put(place: int, value: int, kind: Any = _WORD) -> None:
    if place:
        kind.from_address(place).value = value


@dataclass(slots=True)
class _Devices:
    """One GPU of an architecture, its streams and its events: what they do has been done."""

    arch: int
    multiprocessors: int
    _handles: Any = field(default_factory=lambda: itertools.count(16))
    _recorded_s: dict[int, float] = field(default_factory=dict)
    _texts: dict[int, Any] = field(default_factory=dict)  # native code keeps their addresses

    def cuDeviceGetName(self, name: int, nbytes: int) -> int:
        raw = b"PTX machine (no GPU)"[: (nbytes & _LOW) - 1] + b"\0"
        ctypes.memmove(name, raw, len(raw))
        return 0

    def cuDeviceGetAttribute(self, value: int, attribute: int) -> int:
        from ptxsan import limits

        chip = limits.chip(self.arch)
        known = {  # CUdevice_attribute; what is not here is not supported, which is 0
            1: limits.MOST_THREADS,
            **dict(zip((2, 3, 4), limits.BLOCK_EXTENTS, strict=True)),
            **dict(zip((5, 6, 7), limits.GRID_EXTENTS, strict=True)),
            8: limits.DEFAULT_SHARED, 9: 65536, 10: 32, 12: chip.registers, 13: 1_500_000,
            16: self.multiprocessors, 19: 1, 31: 1, 36: 1_500_000, 37: 1024, 38: 50 << 20,
            39: chip.threads, 41: 1, 75: self.arch // 10, 76: self.arch % 10, 78: 1,
            81: chip.multiprocessor_shared, 82: chip.registers, 95: 1, 97: chip.shared,
            106: chip.blocks, 111: chip.reserved_shared, 120: int(self.arch >= 90),
        }  # fmt: skip
        _put(value, known.get(attribute & _LOW, 0), _INT)
        return 0

    def cuGetErrorString(self, error: int, text: int) -> int:
        number = error & _LOW
        held = self._texts.setdefault(
            number, ctypes.create_string_buffer(f"CUDA error {number}".encode())
        )
        _put(text, ctypes.addressof(held))
        return 0

    def cuStreamCreate(self, stream: int) -> int:
        _put(stream, next(self._handles))
        return 0

    def cuEventCreate(self, event: int) -> int:
        _put(event, next(self._handles))
        return 0

    def cuEventDestroy(self, event: int) -> int:
        self._recorded_s.pop(event, None)
        return 0

    def cuEventRecord(self, event: int) -> int:
        self._recorded_s[event] = time.perf_counter()
        return 0

    def cuEventElapsedTime(self, value_ms: int, start: int, end: int) -> int:
        if not {start, end} <= self._recorded_s.keys():
            return _INVALID_VALUE
        elapsed_s = self._recorded_s[end] - self._recorded_s[start]
        ctypes.c_float.from_address(value_ms).value = elapsed_s * 1e3
        return 0

    def cuLaunchHostFunc(self, _stream: int, function: int, data: int) -> int:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)
        return 0


@dataclass(slots=True)
class _Memory:
    """Memory of the device, which is memory of this process."""

    launcher: MachineLauncher
    held: HostMemory = field(default_factory=HostMemory)
    _arrays: dict[int, Any] = field(default_factory=dict)  # what keeps it, by address

    def cuMemAlloc(self, place: int, nbytes: int) -> int:
        return self._allocate(place, nbytes, initialised=False)

    def cuMemAllocManaged(self, place: int, nbytes: int) -> int:
        return self._allocate(place, nbytes, initialised=True)

    def _allocate(self, place: int, nbytes: int, *, initialised: bool) -> int:
        if not nbytes:
            return _INVALID_VALUE
        data = np.zeros(nbytes + _ALIGNMENT, np.uint8)
        base = -(-data.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self._arrays[base] = data
        self.held.add(base, nbytes, initialised=initialised)
        _put(place, base)
        return 0

    def cuMemFree(self, base: int) -> int:
        self.held.drop(base)
        self.launcher.arena.drop(base)
        return 0 if self._arrays.pop(base, None) is not None else _INVALID_VALUE

    def cuMemGetAddressRange(self, base: int, nbytes: int, address: int) -> int:
        self.held.provide(self.launcher.arena)
        found = self.launcher.arena.pointer(address)
        if found is None:
            return _INVALID_VALUE
        _put(base, address - found.offset)
        _put(nbytes, found.buffer.data.nbytes)
        return 0

    def cuPointerGetAttribute(self, value: int, attribute: int, address: int) -> int:
        known = {  # CUpointer_attribute: context, kind, device and host addresses, managed, ordinal
            1: (_CONTEXT, _WORD), 2: (2, _INT), 3: (address, _WORD), 4: (address, _WORD),
            8: (0, ctypes.c_uint8), 9: (0, _INT),
        }  # fmt: skip
        if attribute & _LOW not in known:
            return _NOT_SUPPORTED
        _put(value, *known[attribute & _LOW])
        return 0

    def cuMemcpy(self, to: int, source: int, nbytes: int) -> int:
        ctypes.memmove(to, source, nbytes)
        self.held.mark(self.launcher.arena, to, nbytes, source=source)
        return 0

    def cuMemsetD8(self, to: int, value: int, count: int) -> int:
        return self._set(to, value, count, element_bytes=1)

    def cuMemsetD16(self, to: int, value: int, count: int) -> int:
        return self._set(to, value, count, element_bytes=2)

    def cuMemsetD32(self, to: int, value: int, count: int) -> int:
        return self._set(to, value, count, element_bytes=4)

    def _set(self, to: int, value: int, count: int, *, element_bytes: int) -> int:
        element = value.to_bytes(8, "little")[:element_bytes]
        ctypes.memmove(to, element * count, element_bytes * count)
        self.held.mark(self.launcher.arena, to, element_bytes * count, source=None)
        return 0


@dataclass(slots=True)
class _Modules:
    """Modules of PTX, their kernels and launches. A handle is a place in a list, from 1."""

    launcher: MachineLauncher
    memory: _Memory
    _modules: list[str] = field(default_factory=list)
    _kernels: list[tuple[int, str]] = field(default_factory=list)  # module, name
    _links: list[Any] = field(default_factory=list)
    _names: list[Any] = field(default_factory=list)  # native code keeps their addresses
    _dynamic_bytes: dict[int, int] = field(default_factory=dict)  # allowed, by kernel
    _maps: dict[bytes, str] = field(default_factory=dict)  # encoded here: why one is not known

    def cuModuleLoadData(self, module: int, image: int) -> int:
        if ctypes.string_at(image, 1) in (b"\x7f", b"\x50"):  # ELF, or a fat binary
            raise MissingToolError(
                "a kernel is loaded as machine code, which the PTX machine does not execute; "
                "compile it to PTX, or judge it on an NVIDIA GPU"
            )
        self._modules.append(ctypes.string_at(image).decode(errors="replace"))
        _put(module, len(self._modules))
        return 0

    def cuLibraryLoadFromFile(self, library: int, path: int) -> int:
        image = Path(os.fsdecode(ctypes.string_at(path))).read_bytes()
        held = ctypes.create_string_buffer(image)
        return self.cuModuleLoadData(library, ctypes.addressof(held))

    def cuModuleGetFunction(self, function: int, module: int, name: int) -> int:
        wanted = ctypes.string_at(name).decode()
        if wanted not in self.launcher.module(self._modules[module - 1]).entries:
            return _NOT_FOUND
        self._kernels.append((module, wanted))
        _put(function, len(self._kernels))
        return 0

    def cuKernelGetFunction(self, function: int, kernel: int) -> int:
        _put(function, kernel)
        return 0

    def cuKernelGetLibrary(self, library: int, kernel: int) -> int:
        _put(library, self._kernels[kernel - 1][0])
        return 0

    def cuKernelGetName(self, name: int, kernel: int) -> int:
        self._names.append(ctypes.create_string_buffer(self._kernels[kernel - 1][1].encode()))
        _put(name, ctypes.addressof(self._names[-1]))
        return 0

    def cuKernelGetParamInfo(self, kernel: int, wanted: int, offset: int, nbytes: int) -> int:
        at = 0
        for index, (size, alignment) in enumerate(self._parameters(kernel)):
            at = -(-at // alignment) * alignment
            if index == wanted:
                _put(offset, at)
                _put(nbytes, size)
                return 0
            at += size
        return _INVALID_VALUE

    def _parameters(self, kernel: int) -> list[tuple[int, int]]:
        """Return bytes and alignment of each of a kernel's parameters."""
        from ptxsan.declarations import size_of

        module, name = self._kernels[kernel - 1]
        declared = self.launcher.module(self._modules[module - 1]).functions[name].params
        return [
            (size_of(one.type) * one.count, max(one.align, size_of(one.type))) for one in declared
        ]

    def cuFuncGetAttribute(self, value: int, attribute: int) -> int:
        # CUfunction_attribute: the most threads of a block, registers; the others are 0
        _put(value, {0: 1024, 4: 32}.get(attribute & _LOW, 0), _INT)
        return 0

    def cuKernelSetAttribute(self, attribute: int, value: int, kernel: int) -> int:
        return self.cuFuncSetAttribute(kernel, attribute, value)

    def cuFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> int:
        if attribute & _LOW == _DYNAMIC_SHARED:
            self._dynamic_bytes[kernel] = value & _LOW
        return 0

    def cuLinkCreate(self, _count: int, _options: int, _values: int, state: int) -> int:
        self._links.append(None)
        _put(state, len(self._links))
        return 0

    def cuLinkAddData(self, state: int, kind: int, data: int, nbytes: int) -> int:
        if kind & _LOW != 1 or self._links[state - 1] is not None:  # one text of PTX
            raise MissingToolError(
                "kernels of several modules are linked, which is not covered without a GPU; judge "
                "it on an NVIDIA GPU"
            )
        text = ctypes.string_at(data, nbytes).rstrip(b"\0")
        self._links[state - 1] = ctypes.create_string_buffer(text)
        return 0

    def cuLinkComplete(self, state: int, image: int, nbytes: int) -> int:
        held = self._links[state - 1]
        _put(image, ctypes.addressof(held))
        _put(nbytes, ctypes.sizeof(held))
        return 0

    def cuTensorMapEncodeTiled(self, place: int, *words: int) -> int:
        return encode_map(self._maps, (place, *words))

    def cuLaunchKernel(self, *words: int) -> int:
        return self._launch("cuLaunchKernel", words[:11])

    def cuLaunchCooperativeKernel(self, *words: int) -> int:
        return self._launch("cuLaunchKernel", (*words[:10], 0))

    def cuLaunchKernelEx(self, *words: int) -> int:
        return self._launch("cuLaunchKernelEx", words[:4])

    def _launch(self, name: str, words: Sequence[int]) -> int:
        from ptxsan.limits import DEFAULT_SHARED

        asked = launch_of(name, words, Path("libcuda.so.1"))
        if asked is None:
            raise MissingToolError(
                "a launch passes its arguments packed (`extra`), which is not covered without a "
                "GPU; judge it on an NVIDIA GPU"
            )
        if asked.shared_bytes > max(self._dynamic_bytes.get(asked.function, 0), DEFAULT_SHARED):
            return _INVALID_VALUE  # nobody asked for that much
        parameters = self._parameters(asked.function)
        sizes, alignments = zip(*parameters, strict=True) if parameters else ((), ())
        given = map_arguments(self._maps, asked.arguments(sizes), alignments)
        self.memory.held.provide(self.launcher.arena)
        module, kernel = self._kernels[asked.function - 1]
        self.launcher(
            self._modules[module - 1], kernel, grid=asked.grid, block=asked.block,
            shared_bytes=asked.shared_bytes, cluster=asked.cluster, arguments=given,
        )  # fmt: skip
        return 0


def answers(launcher: MachineLauncher, *, arch: int, multiprocessors: int) -> dict[str, Any]:
    """Return what each function of the driver does, by its name, on integers and addresses."""
    memory = _Memory(launcher)
    parts = (_Devices(arch, multiprocessors), memory, _Modules(launcher, memory))
    found: dict[str, Any] = {
        name: method
        for part in parts
        for name, method in inspect.getmembers(part, inspect.ismethod)
        if name.startswith("cu")
    }

    def constant(writes: tuple[tuple[int, int, Any], ...]) -> Callable[..., int]:
        def answer(*words: int) -> int:
            for place, value, kind in writes:
                _put(words[place], value, kind)
            return 0

        return answer

    found |= {name: constant(writes) for name, writes in _CONSTANTS.items()}
    return found | {name: found[other] for name, other in _SAME.items()}


_loaded: list[Any] = []  # functions that native code calls stay


def enable(launcher: MachineLauncher, *, arch: int, multiprocessors: int) -> None:
    """Answer for CUDA's driver in this process, for packages that are imported from now on.

    They all call what cuda.bindings has looked up by name: here it finds ours.
    """
    if _loaded:
        return
    try:
        bound: dict[str, Any] = {
            name: importlib.import_module(f"cuda.bindings._internal.{name}")
            for name in ("driver", "nvrtc", "nvjitlink")
        }
        absent = importlib.import_module("cuda.pathfinder").DynamicLibNotFoundError
        real = ctypes.CDLL(bound["nvrtc"].load_nvidia_dynamic_lib("nvrtc").abs_path)
    except (ImportError, RuntimeError):  # not installed: the candidate's packages say so
        return
    driver = answers(launcher, arch=arch, multiprocessors=multiprocessors)
    entries = {name: _entry(method, launcher) for name, method in driver.items()}

    def address(name: int, place: int) -> int:
        found = entries.get(_SUFFIX.sub("", ctypes.string_at(name).decode()))
        _put(place, _address(found))
        return 0 if found is not None else _NOT_FOUND

    entries["cuGetProcAddress"] = _entry(address, launcher)

    def create(program: int, source: int, *others: int) -> int:
        text = ctypes.string_at(source).decode(errors="replace")
        own = with_own_lines(text, launcher.recorder.sources).encode()
        places = map(ctypes.c_void_p, others[:4])  # name, count, headers, their names
        return int(real.nvrtcCreateProgram(ctypes.c_void_p(program), own, *places))

    nvrtc = {
        "nvrtcCreateProgram": _entry(create, launcher),
        "nvrtcCompileProgram": _entry(functools.partial(_compile, real), launcher),
        "nvrtcGetCUBINSize": real.nvrtcGetPTXSize,
        "nvrtcGetCUBIN": real.nvrtcGetPTX,
    }

    def found(_: str, words: Sequence[int], go: Callable[[], int]) -> int:
        name = ctypes.string_at(words[1]).decode()
        if name.startswith("cu"):
            return _address(entries.get(_SUFFIX.sub("", name)))
        return _address(nvrtc[name]) if name in nvrtc else go()

    for name in ("driver", "nvrtc"):
        redirect(Path(bound[name].__file__), {"dlsym": 2}, found, result=_WORD)

    def load(name: str) -> Any:
        if name == "cuda":
            return SimpleNamespace(_handle_uint=ctypes.CDLL(None)._handle)
        raise absent(f"{name} links machine code, and there is no GPU")  # the driver links

    for name in ("driver", "nvjitlink"):
        bound[name].load_nvidia_dynamic_lib = load
    _loaded.extend((*entries.values(), *nvrtc.values()))


def enable_numba() -> None:
    """Let numba-cuda take the driver that is answered for, though it finds no file of that name.

    Raises MissingToolError where it is not installed: what numba has of its own calls no bindings.
    """
    if importlib.util.find_spec("numba_cuda") is None:
        raise MissingToolError(
            "kernels by numba's cuda.jit run without a GPU through the package numba-cuda, which "
            "is not installed: pip install numba-cuda, or judge them on an NVIDIA GPU"
        )
    try:
        driver: Any = importlib.import_module("numba.cuda.cudadrv.driver").driver
    except ImportError as error:  # a package that numba-cuda needs
        raise MissingToolError(
            f"kernels by numba's cuda.jit need all of numba-cuda: {error}; pip install numba-cuda"
        ) from error
    driver.is_initialized, driver.initialization_error = False, None


def _address(function: Any) -> int:
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def _compile(nvrtc: ctypes.CDLL, program: int, count: int, options: int) -> int:
    """Compile a program to PTX with lines, whatever GPU's machine code is asked for.

    A toolkit's headers are looked for where pip puts them too.
    """
    from ptxsan.nvrtc import include_folders

    places = (_WORD * (count & _LOW)).from_address(options) if count & _LOW else ()
    given = [ctypes.string_at(place) for place in places]
    given = [
        one.replace(b"sm_", b"compute_") if b"arch" in one or one.startswith(b"sm_") else one
        for one in given
        if one.lstrip(b"-") not in (b"pch", b"lineinfo", b"generate-line-info")
    ]
    given += [b"-lineinfo", *(f"-I{one}".encode() for one in include_folders())]
    texts = (ctypes.c_char_p * len(given))(*given)
    return int(nvrtc.nvrtcCompileProgram(ctypes.c_void_p(program), len(given), texts))


def _entry(method: Callable[..., int], launcher: MachineLauncher) -> Any:
    """Return a function for native code; what it raises is kept for who called the candidate."""
    parameters = inspect.signature(method).parameters.values()
    variadic = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    count = _MOST_ARGUMENTS if variadic else len(parameters)

    def call(*words: int) -> int:
        try:
            return method(*words)
        except Exception as error:
            launcher.failure = launcher.failure or error
            return _NOT_SUPPORTED if isinstance(error, MissingToolError) else _FAILED

    return ctypes.CFUNCTYPE(_INT, *(_WORD,) * count)(call)
