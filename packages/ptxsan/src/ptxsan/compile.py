"""IR to machine code through llvmlite, with an object cache on disk.

The cache's key covers the IR, the processor and the version of LLVM; a file that does not load is
compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from ptxsan import home
from ptxsan.codegen import Code
from ptxsan.errors import MachineError

_SPEED = 2
_QUICK = 0  # a thousand instructions in 0.1 s instead of 1 to 5; they run 1 to 2 times as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Machine code of a kernel; `engine` keeps it alive.

    `step` is its address, `carry_out` that of its deferred updates (0: it has none).
    """

    step: int
    carry_out: int
    engine: Any
    compile_s: float
    cached: bool


def compile_code(code: Code, symbols: dict[str, int], *, optimise: bool = True) -> Compiled:
    """Return machine code of a kernel; `symbols` are the addresses of the runtime's functions.

    `optimise` is that of `Options`.
    """
    started = time.perf_counter()
    for name in code.calls:
        if name not in symbols:
            raise MachineError(f"the runtime has no function '{name}'")
        llvm.add_symbol(name, symbols[name])
    prepare()
    speed = _SPEED if optimise else _QUICK
    parts = (code.ir, llvm.get_host_cpu_name(), str(llvm.llvm_version_info), str(speed))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    place = home.kernels_dir() / f"{key[:40]}.o"
    target = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    try:
        blob = place.read_bytes()
    except OSError:
        blob = None
    if blob is not None:
        engine.add_object_file(llvm.ObjectFileRef.from_data(blob))
    else:
        # The IR as a module in fewer instructions; its blocks are joined only if it `joins`
        joins = not code.is_parted
        module = llvm.parse_assembly(code.ir)
        module.verify()
        machine = _machine(_SPEED)
        tuning = llvm.create_pipeline_tuning_options(speed_level=_SPEED)
        tuning.loop_unrolling = False
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
        manager.add_instruction_combine_pass()
        if joins:
            manager.add_simplify_cfg_pass()
        manager.add_new_gvn_pass()
        if joins:
            manager.add_simplify_cfg_pass()
        manager.add_aggressive_dce_pass()
        manager.run(module, builder)
        blob = _machine(speed).emit_object(module)
        engine.add_object_file(llvm.ObjectFileRef.from_data(blob))
        _write(place, blob)
    engine.finalize_object()
    return Compiled(
        step=engine.get_function_address("step"),
        carry_out=engine.get_function_address("carry_out"),
        engine=engine,
        compile_s=time.perf_counter() - started,
        cached=place.exists(),
    )


@cache
def prepare() -> None:
    """Make LLVM ready for this processor; leaves no thread behind."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _machine(speed: int) -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=speed,
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


def _write(place: Path, blob: bytes) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_bytes(blob)
        partial.replace(place)
    except OSError:
        return  # a cache that cannot be written costs time, not results
