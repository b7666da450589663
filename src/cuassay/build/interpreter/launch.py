"""How Triton's interpreter launches kernels: quiet, fast, without a driver for autotuning."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from cuassay.build.interpreter.libdevice import wrap_library
from cuassay.build.untraced import untraced


def install(module: Any) -> None:
    """Replace what the interpreter does around a kernel's body."""
    # Make tl.sum and its like interpretable where Triton was imported natively before. They are
    # decorated when `triton.language` is first imported, which may have happened before
    # TRITON_INTERPRET was set.
    jit = importlib.import_module("triton.runtime.jit").JITFunction
    made: dict[int, Any] = {}
    for name, holder in list(sys.modules.items()):
        if not name.startswith("triton.language"):
            continue
        for attribute, member in list(vars(holder).items()):
            if isinstance(member, jit):
                fresh = made.setdefault(id(member), module.InterpretedFunction(member.fn))
                setattr(holder, attribute, fresh)
    # Tensor methods such as x.sum() close over the function that they call
    for member in list(vars(module.tl.core.tensor).values()):
        cells = getattr(member, "__closure__", None) or ()
        for cell in cells:
            if isinstance(cell.cell_contents, jit) and id(cell.cell_contents) in made:
                cell.cell_contents = made[id(cell.cell_contents)]
    _patch_language_once(module)
    # Kernels overflow and divide by zero on purpose in masked lanes: no NumPy warnings
    original = module.InterpretedFunction.run

    @functools.wraps(original)
    @untraced()
    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return original(self, *arguments, **options)

    module.InterpretedFunction.run = run
    # Let triton.autotune take its first configuration that survives pruning. Timing needs a driver,
    # and the interpreter's times would mean nothing.
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner

    def bench(self: Any, *arguments: Any, config: Any, **meta: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    autotuner._bench = bench
    # Answer what candidates ask of `triton.runtime.driver.active`: the target and its size
    import torch

    from cuassay.build.cuda_facade import MULTIPROCESSORS

    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    properties = {
        "multiprocessor_count": MULTIPROCESSORS,
        "max_shared_mem": 232448,
        "max_num_regs": 65536,
        "warpSize": 32,
    }
    active = SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_current_stream=lambda device=None: 0,
        get_active_torch_device=lambda: torch.device("cuda", 0),
        get_device_interface=lambda: torch.cuda,
        utils=SimpleNamespace(get_device_properties=lambda device=None: dict(properties)),
    )
    importlib.import_module("triton.runtime").driver.set_active(active)
    # Give both libdevice modules functions that run in the interpreter
    try:
        library = importlib.import_module("triton.language.extra.cuda.libdevice")
        front = importlib.import_module("triton.language.extra.libdevice")
    except ImportError:
        return
    wrapped = wrap_library(library, module.tl.core, module.interpreter_semantic)
    for name, function in wrapped.items():
        setattr(library, name, function)
        setattr(front, name, function)


def _patch_language_once(module: Any) -> None:
    """Patch `triton.language` once a launch instead of once a call of a device function.

    The original walks every member of the module for each tl.sum, which dominates the time
    of a program.
    """
    original = module._patch_lang
    everything = SimpleNamespace(__globals__={"tl": module.tl, "core": module.tl.core})
    active: list[Any] = []

    class Scope:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def restore(self) -> None:
            if self.inner is not None:
                active.clear()
                self.inner.restore()

    def patch(function: Callable[..., Any]) -> Scope:
        if active:
            return Scope(None)
        inner = original(everything)
        # Triton 3.6 asks NumPy for int(array of one element), which new versions refuse
        inner.set_attr(
            module.tl.core.tensor, "__index__", lambda self: int(self.handle.data.item())
        )
        scope = Scope(inner)
        active.append(scope)
        return scope

    module._patch_lang = patch
