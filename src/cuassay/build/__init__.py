"""Candidate -> callable. Runs inside the worker process only; torch is imported lazily.

Python sources are imported, with Triton interpreted where there is no GPU; C++ and CUDA C++
extensions are compiled against torch's headers; raw `extern "C" __global__` kernels go through
NVRTC and the driver. Everything that a build writes stays in the folder that it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cuassay.build.built import Built
from cuassay.build.toolkit import toolchain
from cuassay.model.candidate import Candidate, Language
from cuassay.model.problem import Problem

__all__ = ["Built", "load", "toolchain"]

_MARK = "built"  # written last: a folder that holds it was built whole


def load(candidate: Candidate, problem: Problem, *, device: str, folder: Path) -> Built:
    """Return the candidate as a callable, building it in `folder` unless that was done before.

    `folder` is private to one candidate and toolchain (named by their digest); it is created
    where absent and may be used by several processes. `device` is cpu, cuda or cuda:N. Raises
    BuildError where the candidate's own sources fail, and MissingToolError where a compiler,
    a package or a GPU is missing here.
    """
    started = time.perf_counter()
    tools = toolchain(device)
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / _MARK
    cached = mark.is_file()
    call = _build(candidate, problem, device=device, folder=folder)
    if not cached:
        mark.touch()
    return Built(
        call=call,
        seconds=time.perf_counter() - started,
        cached=cached,
        kind=_kind(candidate, device),
        toolchain=tools,
    )


def _build(
    candidate: Candidate, problem: Problem, *, device: str, folder: Path
) -> Callable[..., object]:
    match candidate.language:
        case Language.PYTHON:
            from cuassay.build.python import load_python

            return load_python(candidate, device=device, folder=folder)
        case Language.CUDA_EXTENSION:
            from cuassay.build.extension import load_extension

            return load_extension(candidate, device=device, folder=folder)
        case Language.CUDA_KERNEL:
            from cuassay.build.raw_kernel import load_kernels

            return load_kernels(candidate, problem, device=device, folder=folder)


def _kind(candidate: Candidate, device: str) -> str:
    interpreted = (
        candidate.language is Language.PYTHON
        and not device.startswith("cuda")
        and any("triton" in source.text for source in candidate.sources)
    )
    return candidate.language.value + ("+triton-interpreter" if interpreted else "")
