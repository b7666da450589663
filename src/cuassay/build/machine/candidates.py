"""Candidates on a machine without a GPU: their own PTX, executed by cuassay's PTX machine.

Raw CUDA C++ goes through NVRTC, Triton and CuTe DSL through their own compilers as the wrapper
launches; all give PTX for sm_80 unless the sources speak of later hardware. The candidate stays in
this sandboxed process. What it launches can be recorded, and is judged in another process.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuassay import settings
from cuassay.build.cuda import raw_kernel
from cuassay.build.sources import build_lock, write_sources
from cuassay.errors import MissingToolError, UncoveredError
from cuassay.model.candidate import Candidate, Convention
from cuassay.model.device import CPU
from cuassay.model.digest import sha256_fields
from cuassay.model.packages import Package
from cuassay.model.problem import Problem

if TYPE_CHECKING:
    from cuassay.build.machine.launch import MachineLauncher

_NEEDED = ("llvmlite", "numba", "numpy", "ptxsan")
_UNCOVERED = "uncovered-by-the-machine"
_MARK_S = 3600.0  # a launch may have taken too long because the computer was busy
current: MachineLauncher | None = None  # the process's launcher, once a candidate is built on it


def missing() -> str:
    """Return the install line for what the machine needs and is not there, or nothing."""
    absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    return f"the PTX machine needs {', '.join(absent)}: pip install 'cuassay[machine]'"


def interpreted_because(folder: Path, *, wanted: bool) -> str:
    """Return why Triton's interpreter makes the numbers of kernels built in `folder`.

    An empty string where the machine executes them: always, unless a package is missing,
    CUASSAY_TRITON=interpreter asks for the interpreter, or a process met, within the last hour,
    a kernel that the machine does not cover. The last two do not count where launches are to be
    recorded (`wanted`): the interpreter has none.
    """
    absent = missing()
    if absent or wanted:
        return absent
    if settings.get(settings.TRITON) == settings.INTERPRETER:
        return f"{settings.TRITON}={settings.INTERPRETER} asks for it"
    mark = folder / _UNCOVERED
    try:
        young = time.time() - mark.stat().st_mtime < _MARK_S
        return mark.read_text() if young else ""
    except OSError:
        return ""


def load_kernels(candidate: Candidate, problem: Problem, *, folder: Path) -> Callable[..., object]:
    """Compile the candidate's entry file to PTX and return it as a callable on CPU tensors.

    Raises BuildError with the compiler's log or for a kernel that the source does not define,
    and MissingToolError where there is no compiler or the machine's packages are missing.
    """
    absent = missing()
    if absent:
        raise MissingToolError(
            f"raw CUDA kernels run without a GPU in the PTX machine, and {absent}"
        )
    ptx = _ptx(candidate, folder)
    launcher = _launcher(candidate)

    def notice(values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if hasattr(value, "untyped_storage"):
                launcher.arena.add(value, name)

    call = raw_kernel.bind(
        candidate,
        problem,
        device=CPU,
        cubin=ptx.encode(),
        launcher=launcher,
        stream_of=lambda device: 0,
        notice=notice,
    )
    return watched(call, candidate, problem, launcher)


def load_hosted(
    candidate: Candidate, problem: Problem, load: Callable[[], Callable[..., object]]
) -> Callable[..., object]:
    """Return what `load` returns, its extensions' launches executed by the machine.

    Raises MissingToolError where the machine's packages are missing, and what `load` raises.
    """
    absent = missing()
    if absent:
        raise MissingToolError(
            f"CUDA extensions run without a GPU in the PTX machine, and {absent}"
        )
    launcher = current or _launcher(candidate)
    return watched(load(), candidate, problem, launcher)


def enable_compilers(candidate: Candidate, folder: Path) -> MachineLauncher:
    """Send what packages for kernels in Python launch in this process to the machine."""
    from cuassay.build.cuda_facade import MULTIPROCESSORS, answer_for
    from cuassay.build.machine import triton_kernels as machine_triton

    text = "\n".join(source.text for source in candidate.sources)
    used = candidate.packages
    launcher = _launcher(candidate)
    arch = machine_triton.architecture_for(text)
    answer_for(arch)
    if Package.TRITON in used:
        machine_triton.enable(
            launcher, arch=arch, multiprocessors=MULTIPROCESSORS,
            real=lambda: launcher.recorder.keeps_operations,
        )  # fmt: skip
    if Package.CUTE in used:
        from cuassay.build.machine import cute_kernels

        cute_kernels.enable(
            launcher, arch=arch, multiprocessors=MULTIPROCESSORS, folder=folder / "cute"
        )
    if used & {Package.DRIVER, Package.NUMBA, Package.TILELANG}:
        from cuassay.build.machine import driver_api

        driver_api.enable(launcher, arch=arch, multiprocessors=MULTIPROCESSORS)
    if Package.NUMBA in used:
        driver_api.enable_numba()
    if Package.TILELANG in used:
        from cuassay.build.machine import tilelang_kernels

        tilelang_kernels.enable(arch=arch, folder=folder / "tilelang")
    if Package.CUPY in used:
        from cuassay.build.machine import cupy_kernels

        cupy_kernels.enable(launcher, arch=arch)
    return launcher


def watched(
    call: Callable[..., object],
    candidate: Candidate,
    problem: Problem,
    launcher: MachineLauncher,
    *,
    mark: Path | None = None,
) -> Callable[..., object]:
    """Return `call` with its memory known to the machine while it runs.

    With `mark`, a file there says, from the first kernel on that is not covered, that another
    process has to take another way.
    """
    inputs = [spec.name for spec in problem.inputs]
    outputs = [spec.name for spec in problem.outputs]
    names = [*inputs, *outputs] if candidate.convention is Convention.DESTINATION else inputs

    @functools.wraps(call)  # a rank's function is asked whether it takes a group
    def run(*arguments: object, **options: object) -> object:
        named = dict(zip(names, arguments, strict=False))
        try:
            launcher.begin_call()
            with (
                launcher.arena.watching(named, outputs, launcher.recorder),
                launcher.answered(),
            ):
                made = call(*arguments, **options)
                launcher.end_call()
                return made
        except UncoveredError as error:
            if mark is not None:
                mark.write_text(str(error))
            raise

    return run


def without_kernels() -> MachineLauncher:
    """Return a launcher for a candidate that has no kernels: its calls are watched all the same."""
    global current
    from cuassay.build.machine.launch import MachineLauncher
    from cuassay.build.machine.memory import StorageArena

    current = MachineLauncher(arena=StorageArena())
    return current


def mark_of(folder: Path) -> Path:
    """Return the file that says that a candidate has a kernel which the machine cannot run."""
    return folder / _UNCOVERED


def _launcher(candidate: Candidate) -> MachineLauncher:
    """Return this process's launcher."""
    global current
    from cuassay.build.machine.launch import MachineLauncher
    from cuassay.build.machine.memory import StorageArena

    current = MachineLauncher(arena=StorageArena())
    current.recorder.sources = {source.path: source.text for source in candidate.sources}
    return current


def _ptx(candidate: Candidate, folder: Path) -> str:
    from cuassay.build.cuda.nvrtc import compile_ptx
    from ptxsan.isa import architecture_of

    write_sources(candidate, folder)
    source = raw_kernel.inline_sources(candidate, folder / "src", lines=True)
    needed = architecture_of(source, "sm_80")
    arch = settings.get(settings.MACHINE_ARCH) or needed
    if needed.endswith("a") and arch[-1].isdigit():
        arch += "a"  # the source spells what no plain target has
    flags = candidate.flags.cuda_cflags
    file = folder / f"{sha256_fields(source, arch, *flags)[:32]}.ptx"
    with build_lock(folder):
        if file.is_file():
            return file.read_text()
        ptx = compile_ptx(source, arch=arch, flags=flags, name=Path(candidate.entry_file).name)
        draft = file.with_suffix(".draft")
        draft.write_text(ptx)
        draft.replace(file)
    return ptx
