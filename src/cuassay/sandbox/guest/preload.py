"""What the zygote does once so that no worker has to: imports, and Triton's slow first steps."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_MODULES = ("numpy", "triton", "triton.language", "cuassay.sandbox.guest.child", "cuassay.build")
# What a first launch in the PTX machine imports: 0.1 s in every worker.
_MACHINE_MODULES = (
    "ptxsan.run",
    "cuassay.build.machine.launch",
    "cuassay.build.machine.memory",
    "cuassay.build.machine.triton_kernels",
    "triton.backends.nvidia.compiler",
    "triton.runtime.autotuner",
)
# (module, function): each hashes files or starts a process, keeps its answer for the process,
# and is called by Triton before a kernel's first launch. `triton_key` alone reads all of
# Triton, 0.4 s. Which module holds it depends on Triton's version.
_TRITON_STEPS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("triton.runtime.cache", "triton_key", ()),
    ("triton.compiler.compiler", "triton_key", ()),
    ("triton.runtime.build", "platform_key", ()),
    ("triton.backends.nvidia.driver", "library_dirs", ()),
)


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
)


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


def preload(device: str, *, machine: bool = False) -> list[str]:
    """Import what workers need; return what could not be imported, with why.

    With `machine` the PTX machine's native runtime is compiled, or loaded from its cache, and
    Triton's compiler is made ready for it.
    """
    missing = []
    with no_garbage_collection():
        for name in _MODULES:
            try:
                importlib.import_module(name)
            except Exception as error:
                missing.append(f"{name}: {error}")
    if device.startswith("cuda"):
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
        if not device.startswith("cuda"):
            prepare_triton()  # its compiler makes the PTX that the machine executes
    return missing


def preload_compiler() -> None:
    """Import torch.compile's modules; what cannot be imported is left to the worker.

    None of them starts CUDA or a thread: workers can be forked afterwards.
    """
    with no_garbage_collection():
        for name in _COMPILER_MODULES:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        with contextlib.suppress(Exception):
            registry: Any = importlib.import_module("torch._dynamo.backends.registry")
            registry.list_backends()


def prepare_triton() -> None:
    """Fill the per-process caches that Triton consults before a first launch, without a GPU.

    A step that this Triton version lacks, or that fails, is left to the worker.
    """
    for module, function, arguments in _TRITON_STEPS:
        with contextlib.suppress(Exception):
            step: Callable[..., object] = getattr(importlib.import_module(module), function)
            step(*arguments)
    with contextlib.suppress(Exception):
        importlib.import_module("triton.compiler.code_generator")
        compiler = importlib.import_module("triton.backends.nvidia.compiler")
        compiler.file_hash(str(Path(str(compiler.__file__)).parent / "lib" / "libdevice.10.bc"))
