"""The kernel on trial: sources, entry point, calling convention, build flags."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cuassay.model.packages import Package, packages_of

# What C++ for CUDA says: a kernel or its launch, or host code that asks for a GPU.
_KERNELS = ("__global__", "<<<")
_CUDA = (*_KERNELS, "cuda_sources", "cuda_runtime", "ATen/cuda", "c10/cuda", "kCUDA")
# What a Python source says where it compiles kernels without such a package: by torch, by NVRTC.
_COMPILERS = ("load_inline", "nvrtc")


# Files that cuassay writes beside a candidate's own begin so: no fault is theirs.
ADAPTERS = "cuassay_"
TACTIC = "@"  # between a function's name and that of a tactic, in FILE::FUNCTION@TACTIC


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

    @property
    def is_adapter(self) -> bool:
        """Whether cuassay wrote it to call the candidate's own files, by its name."""
        return self.path.startswith(ADAPTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFlags:
    """Extra compiler flags in the order given, each a word of the command line."""

    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ld_flags: tuple[str, ...] = ()

    @classmethod
    def as_written(
        cls, *, cflags: Iterable[str], cuda_cflags: Iterable[str], ld_flags: Iterable[str]
    ) -> BuildFlags:
        """Return the flags that torch makes of lists that a kernel's author wrote.

        Torch joins each list to a line of a build file, and a shell splits it again: an empty
        flag is none, and one with blanks is several.
        """
        return cls(
            cflags=_words(cflags), cuda_cflags=_words(cuda_cflags), ld_flags=_words(ld_flags)
        )


def _words(flags: Iterable[str]) -> tuple[str, ...]:
    line = " ".join(flags)
    try:
        return tuple(shlex.split(line))
    except ValueError:  # a quote that never ends: the compiler will say so
        return tuple(line.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A buffer that a launch needs beside inputs and outputs; `zeroed` clears it per call."""

    name: str
    dtype: str
    size: str  # elements, an expression of the axes
    zeroed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelColumns:
    """What a copy in im2col mode takes of a tensor: expressions, in the order of its axes.

    `lower`, `upper` (distances of the bounding box's corners from the tensor's) and `strides`
    (default: 1) have one for each axis between the first and the last.
    """

    lower: tuple[str, ...]
    upper: tuple[str, ...]
    channels: str
    pixels: str
    strides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TileMap:
    """A tensor map (CUtensorMap) parameter over a tensor, for copies of tiles by TMA.

    `box` (or, in im2col mode, `columns`) and `shape` (default: the tensor's own) are expressions
    in the order of the tensor's axes; `swizzle` is 0, 32, 64 or 128 bytes; `nan_fill` fills what
    lies outside with NaN.
    """

    name: str
    tensor: str
    box: tuple[str, ...] = ()
    columns: PixelColumns | None = None
    shape: tuple[str, ...] = ()
    swizzle: int = 0
    nan_fill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch: every field but `kernel` holds expressions of the axes.

    `arguments` are input, output, scratch, tensor map or axis names, in the kernel's order; an axis
    or expression is passed as a 64-bit integer unless suffixed `:int32`; a float scalar
    input is passed as the kernel's float.
    """

    kernel: str
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    arguments: tuple[str, ...]
    shared_bytes: str = "0"
    cluster: tuple[str, str, str] = ("1", "1", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The kernel on trial. `origin` is the file or folder it was read from, for messages.

    `adapter` is the source, if there is one, that cuassay wrote around the user's.
    """

    name: str
    sources: tuple[SourceFile, ...]
    entry_file: str
    entry_function: str
    language: Language = Language.PYTHON
    convention: Convention = Convention.RETURNS
    flags: BuildFlags = BuildFlags()
    launches: tuple[Launch, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    tile_maps: tuple[TileMap, ...] = ()
    zero_outputs: bool = False  # raw kernels: whether the launch expects cleared outputs
    author: str = ""
    origin: Path | None = None
    adapter: str = ""

    @property
    def packages(self) -> frozenset[Package]:
        """The packages that a Python candidate's kernels are made by."""
        if self.language is not Language.PYTHON:
            return frozenset()
        return frozenset().union(*(packages_of(source.text) for source in self.sources))

    @property
    def names_triton(self) -> bool:
        """Whether a Python candidate's sources use Triton: it may launch its kernels."""
        return Package.TRITON in self.packages

    @property
    def launches_ptx(self) -> bool:
        """Whether a Python candidate's kernels become PTX without a GPU, by the machine's ways."""
        return bool(self.packages)

    @property
    def computes_in_torch(self) -> bool:
        """Whether torch's own operations make all values: no kernel of its own is compiled.

        Of compiled kernels Python sees the line of the launch alone, whatever line is at fault.
        """
        if self.language is not Language.PYTHON or self.launches_ptx or self.compiles_cuda:
            return False
        text = "\n".join(source.text for source in self.sources)
        return not any(word in text for word in _COMPILERS)

    @property
    def compiles_cuda(self) -> bool:
        """Whether it brings CUDA C++ with host code that launches it: a torch extension."""
        return self._is_extension_of(_KERNELS)

    @property
    def hosts_cuda(self) -> bool:
        """Whether it brings a torch extension with kernels, or with host code for a GPU alone."""
        return self._is_extension_of(_CUDA)

    def _is_extension_of(self, words: tuple[str, ...]) -> bool:
        text = "\n".join(source.text for source in self.sources)
        python = self.language is Language.PYTHON
        builds = "cpp_extension" in text or "load_inline" in text
        extension = self.language is Language.CUDA_EXTENSION or (python and builds)
        return extension and any(word in text for word in words)
