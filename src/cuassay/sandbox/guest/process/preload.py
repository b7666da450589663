"""What the zygote does once so that no worker has to: imports, and Triton's slow first steps."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.scenario import Step
from cuassay.model.trace import StepRecord

_MODULES = (
    "numpy",
    "numpy.random",  # every worker seeds it
    "triton",
    "triton.language",
    "cuassay.sandbox.guest.process.child",
    "cuassay.build.python",
    "cuassay.build.unavailable",
    "cuassay.formats.native.declaration",  # what references of the catalogue import
    "encodings.idna",
    "torch.utils._device",
)
# What a first launch in the PTX machine imports: 0.1 s in every worker.
_MACHINE_MODULES = (
    "ptxsan.run",
    "cuassay.build.machine.launch",
    "cuassay.build.machine.memory",
    "cuassay.build.machine.triton_kernels",
    "cuassay.build.cuda_facade",
    "ptxsan.host",
    "ptxsan.parser",
    "triton.runtime.interpreter",
    "triton.tools.tensor_descriptor",
    "triton.backends.nvidia.compiler",
    "triton.runtime.autotuner",
)
# (module, function): each hashes files or starts a process, keeps its answer for the process,
# and is called by Triton before a kernel's first launch.
_TRITON_STEPS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("triton.runtime.build", "platform_key", ()),
    ("triton.backends.nvidia.driver", "library_dirs", ()),
)
# Which module holds `triton_key` depends on Triton's version.
_TRITON_KEYS = ("triton.runtime.cache", "triton.compiler.compiler")

# What torch.compile imports before its first kernel: 5 s of processor time in every worker. Some
# of it is imported only when a graph is lowered, or is not in every version of torch.
_COMPILER_MODULES = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.cudagraph_trees",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.pad_mm",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.backends.cudagraphs",
)
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Import without looking for garbage: what is imported stays, and a sixth of the time goes."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def preload(device: Device, *, machine: bool = False) -> list[str]:
    """Import what workers need; return what could not be imported, with why.

    With `machine` the PTX machine's native runtime is compiled, or loaded from its cache, and
    Triton's compiler is made ready for it. For a GPU `hash_triton` is left to do.
    """
    missing = []
    with no_garbage_collection():
        for name in _MODULES:
            try:
                importlib.import_module(name)
            except Exception as error:
                missing.append(f"{name}: {error}")
    with contextlib.suppress(Exception):  # whatever the worker needs it for will say so
        serial.learn((Candidate, Problem, Step, StepRecord))
        importlib.import_module("cuassay.build.cuda.toolkit").versions()
    if device.on_gpu:
        prepare_triton()
    if machine:
        with contextlib.suppress(Exception):  # a worker that needs it will say what is wrong
            with no_garbage_collection():
                runtime = importlib.import_module("ptxsan.runtime.symbols")
            runtime.warm()
            with no_garbage_collection():
                for name in _MACHINE_MODULES:
                    importlib.import_module(name)
            importlib.import_module("ptxsan.emit.registry").load_families()
            importlib.import_module("ptxsan.compile").prepare()
        if not device.on_gpu:
            prepare_triton()  # its compiler makes the PTX that the machine executes
            hash_triton()
    return missing


def preload_compiler(device: Device, names: Sequence[str] = _COMPILER_MODULES) -> None:
    """Import torch.compile's modules; what cannot be imported is left to the worker.

    A process that is forked after CUDA was started cannot use it. On a GPU the modules are
    therefore imported in a copy of this process first, and here only as far as none of them
    touched CUDA there: that depends on the version of torch.
    """
    with no_garbage_collection(), contextlib.ExitStack() as stack:
        if device.on_gpu:
            # There is one. torch 2.11's compiler asks as it is imported, and the driver, which
            # would answer, starts CUDA: all modules but the first were left to each worker.
            cuda: Any = importlib.import_module("torch.cuda")
            stack.callback(setattr, cuda, "is_available", cuda.is_available)
            cuda.is_available = lambda: True
        for name in names[: _untouched(names) if device.on_gpu else None]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _untouched(names: Sequence[str]) -> int:
    """Return how many of these modules, in order, can be imported without touching CUDA."""
    pid = os.fork()
    if pid:
        return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    count = 0
    try:
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
            if _touches_cuda():
                break
            count += 1
    finally:
        os._exit(count)


def _touches_cuda() -> bool:
    """Whether CUDA was started in this process, or torch knows that its children cannot use it."""
    with contextlib.suppress(OSError, AttributeError):
        started = ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
        if started != _NOT_INITIALIZED:
            return True
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    spoiled = True
    try:
        cuda: Any = importlib.import_module("torch.cuda")
        spoiled = bool(cuda._is_in_bad_fork())
    finally:
        os._exit(int(spoiled))


def prepare_triton() -> None:
    """Fill the per-process caches that Triton consults before a first launch, without a GPU.

    A step that this Triton version lacks, or that fails, is left to the worker. `hash_triton` is
    one more, by far the longest.
    """
    for module, function, arguments in _TRITON_STEPS:
        with contextlib.suppress(Exception):
            step: Callable[..., object] = getattr(importlib.import_module(module), function)
            step(*arguments)
    with contextlib.suppress(Exception):
        importlib.import_module("triton.compiler.code_generator")
        compiler = importlib.import_module("triton.backends.nvidia.compiler")
        compiler.file_hash(str(Path(str(compiler.__file__)).parent / "lib" / "libdevice.10.bc"))


def hash_triton() -> None:
    """Let Triton read all of itself, 0.3 to 0.4 s, once in a process and its forks."""
    for module in _TRITON_KEYS:
        with contextlib.suppress(Exception):
            key: Callable[[], object] = importlib.import_module(module).triton_key
            key()
