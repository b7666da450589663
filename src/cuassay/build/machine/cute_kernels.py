"""CuTe DSL kernels of an unmodified wrapper, compiled by the DSL itself, launched in the machine.

`nvidia-cutlass-dsl` compiles device code to PTX and host code to native code without a GPU. That
host code calls its runtime by name: load this binary, get that kernel, launch it. Those functions
are answered here, before the host code is linked. Tensor maps come as hardware has them, and are
read (`cuda.tile_maps.hardware_map`). Interface: cutlass/base_dsl/compiler.py and jit_executor.py,
cutlass/cutlass_dsl/cuda_jit_executor.py and tvm_ffi_provider.py of 4.8.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cuassay.build.machine.triton_kernels import TritonLaunch
from cuassay.build.recording.library_launches import launch_of
from cuassay.build.recording.library_maps import encode_map, map_arguments
from cuassay.errors import MissingToolError

_PATCHED = "__cuassay_ptx__"
_FAILED = 719  # cudaErrorLaunchFailure
_SHARED_LIMIT = 232448  # bytes that a block may ask for
_PLACE, _INT, _WORD = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64
# What the host code calls, by how it calls it; all return a cudaError_t.
_SIGNATURES = {
    "_cudaLibraryLoadData": (*(_PLACE,) * 4, _INT, _PLACE, _PLACE, _INT),
    "_cudaLibraryGetKernel": (_PLACE,) * 3,
    "_cudaLaunchKernelEx": (_PLACE,) * 3,
    "_cudaGetDevice": (_PLACE,),
    "_cudaDeviceGetAttribute": (_PLACE, _INT, _INT),
    "_cuKernelGetAttribute": (_PLACE, _INT, _PLACE, _INT),
    "_cudaFuncSetAttribute": (_PLACE, _INT, _INT),
    "_cudaKernelSetAttributeForDevice": (_PLACE, _INT, _INT, _INT),
    "_cudaSetDevice": (_INT,),
    "_cuTensorMapEncodeTiled": (_PLACE, *(_WORD,) * 11),
    "cuda_dialect_init_library_once": (_PLACE,) * 4,
}
_TVM_ENTRY = ctypes.CFUNCTYPE(
    _INT, _PLACE, _PLACE, _INT, _PLACE
)  # handle, arguments, count, result
_CUDA = 2  # kDLCUDA
# Where a DLPack capsule of a name has its device: behind the address of the data, and behind what
# a version has before it.
_DEVICE_AT = {b"dltensor": 8, b"dltensor_versioned": 40}


@dataclass(slots=True)
class _Runtime:
    """Answers host code: `loading` is the PTX whose kernels are asked for now."""

    launch: TritonLaunch
    loading: str = ""
    kernels: list[tuple[str, str]] = field(default_factory=list)  # PTX and name, by handle - 1
    maps: dict[bytes, str] = field(default_factory=dict)  # encoded here: why one is not known
    failure: Exception | None = None
    callbacks: dict[str, Any] = field(default_factory=dict)
    entries: list[Any] = field(default_factory=list)  # what native code calls stays

    def cuda_dialect_init_library_once(
        self, library: int, init: int, load: int, _failure: int
    ) -> int:
        """Load a library before its first launch, as host code called through TVM-FFI asks."""
        if ctypes.c_uint64.from_address(library).value:
            return 0
        failed = ctypes.CFUNCTYPE(_INT, _PLACE)(init)(library)
        return int(failed or ctypes.CFUNCTYPE(_INT, _PLACE, _INT)(load)(library, 0))

    def _cudaLibraryLoadData(self, library: int, *_: int) -> int:
        ctypes.c_uint64.from_address(library).value = 1
        return 0

    def _cudaLibraryGetKernel(self, kernel: int, _library: int, name: int) -> int:
        self.kernels.append((self.loading, ctypes.string_at(name).decode()))
        ctypes.c_uint64.from_address(kernel).value = len(self.kernels)
        return 0

    def _cudaGetDevice(self, device: int) -> int:
        _INT.from_address(device).value = 0
        return 0

    def _cudaDeviceGetAttribute(self, value: int, _attribute: int, _device: int) -> int:
        _INT.from_address(value).value = _SHARED_LIMIT  # the one attribute that host code asks for
        return 0

    def _cuKernelGetAttribute(self, value: int, *_: int) -> int:
        _INT.from_address(value).value = 0  # static shared memory, which the limit counts too
        return 0

    def _cuTensorMapEncodeTiled(self, place: int, *words: int) -> int:
        return encode_map(self.maps, (place, *words))

    def _cudaSetDevice(self, _device: int) -> int:
        return 0

    def _cudaFuncSetAttribute(self, *_: int) -> int:
        return 0

    def _cudaKernelSetAttributeForDevice(self, *_: int) -> int:
        return 0

    def _cudaLaunchKernelEx(self, config: int, kernel: int, parameters: int) -> int:
        from ptxsan.declarations import size_of
        from ptxsan.parser import parse

        try:
            found = launch_of("cudaLaunchKernelExC", (config, kernel, parameters), Path("cutlass"))
            assert found is not None
            ptx, name = self.kernels[kernel - 1]
            declared = parse(ptx).functions[name].params
            sizes = [size_of(one.type) * one.count for one in declared]
            given = map_arguments(
                self.maps, found.arguments(sizes), [one.align for one in declared]
            )
            self.launch(
                ptx, name, grid=found.grid, block=found.block, shared_bytes=found.shared_bytes,
                cluster=found.cluster, arguments=given, tensors=(), assumes="",
            )  # fmt: skip
        except Exception as error:  # nothing can be raised through the DSL's native code
            self.failure = error
            return _FAILED
        return 0


def enable(launch: TritonLaunch, *, arch: int, multiprocessors: int, folder: Path) -> None:
    """Make this process's CuTe DSL compile for `arch` and launch through `launch`.

    PTX files of what it compiles go to `folder`. Must run before the candidate is imported. Raises
    MissingToolError where the installed CuTe DSL has another interface; none is no error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "CUTE_DSL_ARCH": f"sm_{arch}{'a' if arch >= 90 else ''}",
        "CUTE_DSL_KEEP": "ptx",
        "CUTE_DSL_LINEINFO": "1",
        "CUTE_DSL_DUMP_DIR": str(folder),
        "QUACK_CACHE_ENABLED": "0",  # objects that quack-kernels keeps on disk hold no PTX
    }
    if importlib.util.find_spec("cutlass") is None:
        return  # importing the candidate says so
    try:
        compiler = importlib.import_module("cutlass.base_dsl.compiler").Compiler
        executor = importlib.import_module("cutlass.base_dsl.jit_executor").JitExecutor
        function = importlib.import_module(
            "cutlass.cutlass_dsl.cuda_jit_executor"
        ).CudaDialectJitCompiledFunction
        hardware = importlib.import_module("cutlass.utils.hardware_info").HardwareInfo
        tensor = importlib.import_module("cutlass.cute.runtime")._Tensor
        read_tensor = tensor.load_dltensor
        wanted = (compiler.jit, executor.run_compiled_program, function._load_cuda_library)
    except (ImportError, AttributeError) as error:
        raise MissingToolError(
            f"this CuTe DSL has another interface ({error}); install nvidia-cutlass-dsl 4.8"
        ) from error
    if hasattr(compiler, _PATCHED):
        return
    setattr(compiler, _PATCHED, True)
    runtime = _Runtime(launch=launch)
    for name, types in _SIGNATURES.items():
        runtime.callbacks[name] = ctypes.CFUNCTYPE(_INT, *types)(getattr(runtime, name))
    jit, run, load = wanted
    compiler.jit = _answered(jit, runtime)
    executor.run_compiled_program = _failing(run, runtime)

    # What loads a compiled function's kernels, its PTX known meanwhile
    @functools.wraps(load)
    def call(self: Any) -> Any:
        runtime.loading = self.__ptx__ or ""
        return load(self)

    function._load_cuda_library = call
    function.num_devices = 1

    # Let tensors of a CPU lie in global memory, by whose address space the DSL chooses instructions
    @functools.wraps(read_tensor)
    def on_device(self: Any) -> None:
        if self._dltensor_wrapper is None:
            _say_device(self._dlpack_data)
        read_tensor(self)

    tensor.load_dltensor = on_device

    # Answer what persistent kernels ask of the device before they choose a grid
    def begin(self: Any, device_id: int = 0) -> None:
        self.device_id, self.device = device_id, SimpleNamespace()

    def clusters(_self: Any, cluster_size: int, stream: Any = None) -> int:
        return max(1, multiprocessors // cluster_size)

    hardware.__init__ = begin
    hardware.get_max_active_clusters = clusters
    hardware.get_device_multiprocessor_count = lambda _self: multiprocessors
    hardware.get_l2_cache_size_in_bytes = lambda _self: 50 << 20
    if importlib.util.find_spec("tvm_ffi") is not None:
        _answer_tvm(runtime)


def _answered(jit: Callable[..., Any], runtime: _Runtime) -> Callable[..., Any]:
    """Return what links host code with our functions in place of the DSL's."""

    @functools.wraps(jit)
    def call(self: Any, *given: Any, **options: Any) -> Any:
        engine = jit(self, *given, **options)
        for name, callback in runtime.callbacks.items():
            engine.raw_register_runtime(name, ctypes.cast(callback, _PLACE))
        return engine

    return call


def _say_device(capsule: Any) -> None:
    """Make a DLPack capsule, if it is one, say that its tensor lies on a GPU."""
    name, place = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    place.restype, place.argtypes = _PLACE, (ctypes.py_object, ctypes.c_char_p)
    if type(capsule).__name__ == "PyCapsule" and (at := _DEVICE_AT.get(name(capsule))) is not None:
        _INT.from_address(place(capsule, name(capsule)) + at).value = _CUDA


def _answer_tvm(runtime: _Runtime) -> None:
    """Let functions that are compiled for TVM-FFI take tensors of a CPU, and launch through us.

    The DSL would put such a function into an engine of its own, which finds CUDA's runtime by
    itself; here it stays in the one whose names are answered. That one gives packed functions:
    one argument, an array of the places of all others and of the result.
    """
    provider: Any = importlib.import_module("cutlass.cutlass_dsl.tvm_ffi_provider")
    made: Any = importlib.import_module("tvm_ffi").Function

    def create(self: Any) -> Any:
        if self.engine is None:
            return None
        packed = ctypes.CFUNCTYPE(None, _PLACE)(
            self.engine.raw_lookup(f"__tvm_ffi_{self.function_name}")
        )

        def call(handle: int, arguments: int, count: int, result: int) -> int:
            runtime.loading = self.__ptx__ or ""
            failed = _INT(0)
            given = (_PLACE(handle), _PLACE(arguments), _INT(count), _PLACE(result), failed)
            places = (_PLACE * len(given))(*map(ctypes.addressof, given))
            packed(ctypes.addressof(places))
            return failed.value

        runtime.entries.append(_TVM_ENTRY(call))
        place = ctypes.cast(runtime.entries[-1], _PLACE).value
        return made.__from_extern_c__(place, keep_alive_object=self.engine)

    provider.TVMFFIJitCompiledFunctionBase._create_tvm_ffi_function = create
    for kind in (provider.TVMFFIJitCompiledFunction, provider.TVMFFIJitCompiledFunctionWithKwargs):
        kind.__call__ = _failing(kind.__call__, runtime)
    names: Any = importlib.import_module("cutlass.base_dsl.tvm_ffi_builder.tvm_ffi_builder")
    names.TVMFFIBuilder.load_dltensor_device_type = lambda self, _tensor: self.i32(_CUDA)


def _failing(run: Callable[..., Any], runtime: _Runtime) -> Callable[..., Any]:
    """Return what runs host code and raises what a launch in it raised."""

    @functools.wraps(run)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        runtime.failure = None
        try:
            return run(self, *arguments, **named)
        except Exception:
            if runtime.failure is not None:
                raise runtime.failure from None
            raise

    return call
