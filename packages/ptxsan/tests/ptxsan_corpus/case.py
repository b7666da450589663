"""What a kernel of the corpus is: source, launch, memory, expected result. No GPU, no torch.

A planted fault is an edit of a correct kernel, which is its twin: the same launch, the same
memory, one piece of text replaced. Arrays are numpy's; bfloat16 comes from ml_dtypes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ptxsan.launch import Columns

Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, Array]
try:
    import ml_dtypes

    BF16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # for runs that look at accesses alone: any 16 bits will do
    BF16 = np.dtype(np.float16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
I32, I64, U8, U32 = (np.dtype(t) for t in (np.int32, np.int64, np.uint8, np.uint32))
HEADERS = {
    "half": "#include <cuda_fp16.h>\n",
    "bfloat16": "#include <cuda_bf16.h>\n",
    "wmma": "#include <mma.h>\n",
    "pipeline": "#include <cuda_pipeline.h>\n",
    "cooperative_groups": "#include <cooperative_groups.h>\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """Memory that nobody has written before the launch."""

    dtype: np.dtype[Any]
    size: int


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar parameter with its C layout (struct's letter)."""

    code: str
    value: float

    def packed(self) -> bytes:
        """Return the parameter's bytes."""
        value = float(self.value) if self.code in "fd" else int(self.value)
        return struct.pack(f"<{self.code}", value)


def i32(value: int) -> Number:
    """Return an `int` parameter."""
    return Number("i", value)


def i64(value: int) -> Number:
    """Return a `long long` parameter."""
    return Number("q", value)


def f32(value: float) -> Number:
    """Return a `float` parameter."""
    return Number("f", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A tensor map parameter over a buffer; the innermost dimension first, as the driver has it."""

    buffer: str
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    columns: Columns | None = None
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    nan_fill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One correct kernel at one launch.

    `make` draws the buffers in order (an Empty is an output nobody wrote); `expect` gives the
    right contents of some of them, from the contents before, to `tolerance` relative to the
    largest value. `arguments` are names of buffers, Numbers and Tiles.
    """

    name: str
    family: str
    source: str
    make: Callable[[np.random.Generator], Mapping[str, Array | Empty]]
    expect: Callable[[Arrays], Arrays]
    arguments: tuple[str | Number | Tile, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    shared_bytes: int = 0
    entry: str = "k"
    tolerance: float = 1e-5
    arch: str = "sm_80"

    def text(self) -> str:
        """Return the source with the headers that it needs."""
        needed = [line for word, line in HEADERS.items() if word in self.source]
        return "".join(needed) + self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault planted in `twin`: `old` becomes `new` (at its `nth` place; 0: everywhere).

    `kind` is the class of fault; `sanitizer` names the tool of compute-sanitizer whose business
    it is, empty where none of them looks for it. `changes` edits the launch.
    """

    name: str
    kind: str
    twin: str
    old: str = ""
    new: str = ""
    nth: int = 0
    sanitizer: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)

    def planted(self, twin: Kernel) -> Kernel:
        """Return the faulty kernel. Raises ValueError where the text to edit is not there."""
        return replace(twin, name=self.name, source=self._edited(twin.source), **dict(self.changes))

    def _edited(self, source: str) -> str:
        if not self.old:
            return source
        if self.old not in source:
            raise ValueError(f"{self.name}: {self.old!r} is not in {self.twin}")
        if not self.nth:
            return source.replace(self.old, self.new)
        parts = source.split(self.old)
        if len(parts) <= self.nth:
            raise ValueError(f"{self.name}: fewer than {self.nth} of {self.old!r}")
        head, tail = self.old.join(parts[: self.nth]), self.old.join(parts[self.nth :])
        return head + self.new + tail


def normal(*shape: int, dtype: np.dtype[Any] = F32) -> Callable[[np.random.Generator], Array]:
    """Return what draws standard normal values of a shape."""
    return lambda rng: rng.standard_normal(shape).astype(dtype)


def draw(**specs: Any) -> Callable[[np.random.Generator], Mapping[str, Array | Empty]]:
    """Return a `make`: callables draw from the generator, everything else is taken as it is."""

    def make(rng: np.random.Generator) -> Mapping[str, Array | Empty]:
        return {
            name: spec(rng) if callable(spec) else spec.copy() if hasattr(spec, "copy") else spec
            for name, spec in specs.items()
        }

    return make


def wide(array: Array) -> Array:
    """Return the values as float64."""
    return np.asarray(array, dtype=np.float64)
