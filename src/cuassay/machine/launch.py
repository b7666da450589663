"""A launch as data: which kernel, over which grid, with which buffers and scalars."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dim3 = tuple[int, int, int]


@dataclass(slots=True, kw_only=True, eq=False)
class Buffer:
    """Global memory of a launch: bytes that the kernel reads and writes in place.

    `data` is a contiguous uint8 array, mutated by the run. `initialised` is None (all of it), or
    a bool array with one flag a byte (all False: fresh memory, as from `torch.empty`), updated by
    the run. A write to a buffer with `writable=False` is a finding. `alignment` is that of the
    first byte's address. One buffer may be given to several launches in turn.
    """

    name: str
    data: NDArray[np.uint8]
    initialised: NDArray[np.bool_] | None = None
    writable: bool = True
    alignment: int = 256
    shadow: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pointer:
    """An argument that points `offset` bytes into a buffer."""

    buffer: Buffer
    offset: int = 0


Argument = Pointer | bytes
"""A pointer, or the raw little-endian bytes of a scalar or struct parameter."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """One kernel launch; `kernel` names an entry of the module, dimensions are (x, y, z).

    `arguments` are in the order of the entry's parameters. A struct that holds pointers is given
    as bytes, with `pointers_inside` saying (argument index, byte offset, Pointer).
    `buffers` lists memory that is reachable only through pointers stored in other memory.
    `stored_pointers` are pointers stored in buffers: (holder, byte offset, Pointer).
    """

    kernel: str
    grid: Dim3
    block: Dim3
    arguments: tuple[Argument, ...] = ()
    cluster: Dim3 = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    pointers_inside: tuple[tuple[int, int, Pointer], ...] = ()
    buffers: tuple[Buffer, ...] = ()
    stored_pointers: tuple[tuple[Buffer, int, Pointer], ...] = field(default=())
    tensor_maps: tuple[object, ...] = ()
