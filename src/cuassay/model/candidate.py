"""The kernel on trial: sources, entry point, calling convention, build flags."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class Language(enum.StrEnum):
    """How a candidate is turned into a callable."""

    PYTHON = "python"  # a PyTorch callable, with or without Triton kernels
    CUDA_EXTENSION = "cuda_extension"  # C++/CUDA sources with a pybind module, torch headers
    CUDA_KERNEL = "cuda_kernel"  # raw extern "C" __global__ kernels with declared launches


class Convention(enum.StrEnum):
    """How results come back."""

    RETURNS = "returns"
    DESTINATION = "destination"  # f(*inputs, *outputs) writes preallocated outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of the candidate: path relative to its folder, with forward slashes."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFlags:
    """Extra compiler flags in the order given."""

    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ld_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A buffer that a launch needs beside inputs and outputs; `zeroed` clears it per call."""

    name: str
    dtype: str
    size: str  # elements, an expression of the axes
    zeroed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch: every field but `kernel` holds expressions of the axes.

    `arguments` are input, output, scratch or axis names, in the kernel's order; an axis
    or expression is passed as a 64-bit integer unless suffixed `:int32`; a float scalar
    input is passed as the kernel's float.
    """

    kernel: str
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    arguments: tuple[str, ...]
    shared_bytes: str = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The kernel on trial. `origin` is the file or folder it was read from, for messages."""

    name: str
    sources: tuple[SourceFile, ...]
    entry_file: str
    entry_function: str
    language: Language = Language.PYTHON
    convention: Convention = Convention.RETURNS
    flags: BuildFlags = BuildFlags()
    launches: tuple[Launch, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    zero_outputs: bool = False  # raw kernels: whether the launch expects cleared outputs
    author: str = ""
    origin: Path | None = None
