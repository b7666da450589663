"""Exported functions as one piece of machine code, in which LLVM sees every function once.

numba optimizes and compiles a function together with all that it calls, and all of it again in
each caller: most of the runtime's compile time, with the same code in dozens of copies. Here
numba only types and lowers. LLVM then gets one module of the exports and all that they call. A
process that has lowered functions this way can no longer call them: it is for nothing else.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import cgutils, codegen, registry
from numba.core.caching import NullCache

from ptxsan.runtime.native import declared, helpers

_LEVEL = 3
_PASSES = 2  # kernels run up to 15 % faster than after one, which is four seconds of 13 quicker
_NOWHERE = 1  # where the code of a function would be that nobody calls
_codegen: Any = codegen
_cgutils: Any = cgutils


class _Lowered(_codegen.JITCodeLibrary):  # type: ignore[misc]
    """A function as numba lowered it, with what it calls beside it."""

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__(owner, name)
        self.texts: list[str] = []

    def add_ir_module(self, ir_module: Any) -> None:
        """Keep what was lowered."""
        self.texts.append(_cgutils.normalize_ir_text(str(ir_module)))

    def finalize(self) -> None:
        """Neither link nor optimize."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return an address that is never called."""
        self._finalized = True
        return _NOWHERE

    def reached(self, seen: dict[int, Any]) -> None:
        """Add this library and all that it calls."""
        for library in self._linking_libraries:
            if id(library) not in seen:
                seen[id(library)] = library
                if isinstance(library, _Lowered):
                    library.reached(seen)


class _Lowering(_codegen.JITCPUCodegen):  # type: ignore[misc]
    _library_class = _Lowered

    def set_env(self, env_name: str, env: Any) -> None:
        """Leave the environment unset: it is for exceptions, and nobody calls the function."""


def object_of(names: Sequence[str], processor: str) -> tuple[bytes, dict[str, str]]:
    """Return machine code for a processor with these exports, and the symbol of each."""
    gc.disable()  # a sixth of the time; a process of this kind holds 300 MB and ends soon
    context = registry.cpu_target.target_context
    context.refresh()
    context._internal_codegen = _Lowering("numba.exec")
    for helper in helpers():
        helper._cache = NullCache()
        for wrapper in ("no_cpython_wrapper", "no_cfunc_wrapper"):  # only Python would call it
            helper.targetoptions[wrapper] = True
    symbols, seen = {}, dict[int, Any]()
    for name in names:
        signature, function = declared(name)
        made: Any = numba.cfunc(signature, error_model="numpy")(function)
        symbols[name] = made.native_name
        seen[id(made._library)] = made._library
        made._library.reached(seen)
    # One module of all that was lowered; only the exported functions are seen outside
    libraries = seen.values()
    exported = set(symbols.values())
    layout = registry.cpu_target.target_context.codegen()._data_layout
    whole = llvm.parse_assembly("")
    whole.data_layout = layout
    for library in libraries:
        ready = not isinstance(library, _Lowered)  # numba's own runtime
        for text in [str(library._get_module_for_linking())] if ready else library.texts:
            module = llvm.parse_assembly(text)
            module.data_layout = layout
            for function in _defined(module):
                function.linkage = llvm.Linkage.weak_odr  # numba defines some in several modules
            whole.link_in(module)
    for function in _defined(whole):
        name = function.name
        function.linkage = llvm.Linkage.external if name in exported else llvm.Linkage.internal
    whole.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, opt=_LEVEL, codemodel="jitdefault", jit=True, reloc="default"
    )
    tuning = llvm.create_pipeline_tuning_options(speed_level=_LEVEL)
    tuning.loop_vectorization = True
    for _ in range(_PASSES):
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(whole, builder)
    return bytes(machine.emit_object(whole)), symbols


def _defined(module: Any) -> list[Any]:
    return [one for one in module.functions if not one.is_declaration]
