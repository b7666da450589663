"""Candidate -> callable. Runs inside the worker process only; torch is imported lazily.

Python sources are imported; C++ and CUDA C++ extensions are compiled against torch's headers;
raw `extern "C" __global__` kernels go through NVRTC and the driver. Where there is no GPU, raw
and Triton kernels are executed by cuassay's PTX machine; Triton's interpreter, repaired, stands in
for kernels that the machine does not cover. Everything that a build writes stays in the folder
that it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cuassay.build.built import Built
from cuassay.build.cuda.toolkit import toolchain
from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import Device
from cuassay.model.problem import Problem

__all__ = ["Built", "load", "load_to_record", "prepare", "toolchain"]

MACHINE, INTERPRETER = "+ptx-machine", "+triton-interpreter"
_MARK = "built"  # written last: a folder that holds it was built whole


def load(candidate: Candidate, problem: Problem, *, device: Device, folder: Path) -> Built:
    """Return the candidate as a callable, building it in `folder` unless that was done before.

    `folder` is private to one candidate and toolchain (named by their digest); it is created
    where absent and may be used by several processes. `device` is cpu, cuda or cuda:N. Raises
    BuildError where the candidate's own sources fail, and MissingToolError where a compiler,
    a package or a GPU is missing here.
    """
    return _loaded(candidate, problem, device=device, folder=folder, machine=False)


def prepare(
    candidate: Candidate, *, device: Device, notify: Callable[[str], None] = lambda text: None
) -> None:
    """Make what builds of this candidate share and may not write themselves, unless it is there.

    For the judge's process: `notify` is told what takes long. Does nothing where it cannot.
    """
    if candidate.hosts_cuda and not device.on_gpu:
        from cuassay.build.machine import candidates as machine

        if not machine.missing():
            from cuassay.build.cuda.hosted import prepare_headers

            prepare_headers(notify)


def load_to_record(
    candidate: Candidate, problem: Problem, *, device: Device, folder: Path
) -> Built:
    """Return the candidate as `load` does, its Triton kernels executed by the PTX machine.

    For calls whose launches are recorded: the interpreter launches nothing that could be.
    """
    return _loaded(candidate, problem, device=device, folder=folder, machine=True)


def _loaded(
    candidate: Candidate, problem: Problem, *, device: Device, folder: Path, machine: bool
) -> Built:
    started = time.perf_counter()
    tools = toolchain(device)
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / _MARK
    cached = mark.is_file()
    because = ""
    if candidate.names_triton and not device.on_gpu:
        from cuassay.build.machine import candidates as for_machine

        because = for_machine.interpreted_because(folder, wanted=machine)
    launches = candidate.launches_ptx and not device.on_gpu and not because
    hosted = candidate.hosts_cuda and not device.on_gpu
    kind = candidate.language.value
    if not device.on_gpu:  # what executes its kernels instead
        by_machine = candidate.language is Language.CUDA_KERNEL or launches or hosted
        kind += MACHINE if by_machine else INTERPRETER if because else ""
    match candidate.language:
        case Language.PYTHON:
            call = _python(candidate, problem, device=device, folder=folder, launches=launches)
        case Language.CUDA_EXTENSION:
            from cuassay.build.cuda.extension import load_extension

            if device.on_gpu or not candidate.hosts_cuda:
                call = load_extension(candidate, device=device, folder=folder)
            else:
                from cuassay.build.machine import candidates

                call = candidates.load_hosted(
                    candidate,
                    problem,
                    lambda: load_extension(candidate, device=device, folder=folder),
                )
        case Language.CUDA_KERNEL if device.on_gpu:
            from cuassay.build.cuda.raw_kernel import load_kernels

            call = load_kernels(candidate, problem, device=device, folder=folder)
        case Language.CUDA_KERNEL:
            from cuassay.build.machine import candidates

            call = candidates.load_kernels(candidate, problem, folder=folder)
    if not cached:
        mark.touch()
    from cuassay.build.recording.ledger import LEDGER  # with torch

    LEDGER.libraries_below(folder)
    return Built(
        call=call,
        seconds=time.perf_counter() - started,
        cached=cached,
        kind=kind,
        because=because,
        toolchain=tools,
    )


def _python(
    candidate: Candidate, problem: Problem, *, device: Device, folder: Path, launches: bool
) -> Callable[..., object]:
    """Import a Python candidate; with `launches` its kernels go to the PTX machine."""
    from cuassay.build.machine import candidates as machine
    from cuassay.build.python import load_python

    if candidate.hosts_cuda and not device.on_gpu:
        if launches:
            machine.enable_compilers(candidate, folder)
        interpret = not launches
        return machine.load_hosted(
            candidate,
            problem,
            lambda: load_python(candidate, device=device, folder=folder, interpret=interpret),
        )
    if not launches:
        return load_python(candidate, device=device, folder=folder)
    launcher = machine.enable_compilers(candidate, folder)
    with launcher.answered():
        call = load_python(candidate, device=device, folder=folder, interpret=False)
    return machine.watched(call, candidate, problem, launcher, mark=machine.mark_of(folder))
