"""A launch as data: which kernel, over which grid, with which buffers and scalars."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxsan.errors import MachineError
from ptxsan.runtime import layout as L

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dim3 = tuple[int, int, int]
# numbered as in `tensormap.replace...elemtype`
ELEMENTS = {
    "u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7,
    "f64": 9, "bf16": 10, "tf32": 11, "b4x16": 13, "b4x16_p64": 14, "b6x16_p32": 15,
}  # fmt: skip
_BITS = {"u8": 8, "u16": 16, "f16": 16, "bf16": 16, "u64": 64, "s64": 64, "f64": 64, "b4x16": 4,
         "b4x16_p64": 8, "b6x16_p32": 8}  # fmt: skip  # in shared memory
SWIZZLES = (0, 32, 64, 128)


@dataclass(slots=True, kw_only=True, eq=False)
class Buffer:
    """Global memory of a launch: bytes that the kernel reads and writes in place.

    `data` is a contiguous uint8 array, mutated by the run. `initialised` is None (all of it), or
    a bool array with one flag a byte (all False: fresh memory, as from `torch.empty`), updated by
    the run. A write to a buffer with `writable=False` is a finding. `alignment` is that of the
    first byte's address. One buffer may be given to several launches in turn. `data` of another
    type is taken as its bytes, which it shares; raises MachineError where they are not contiguous.
    `closed_to` are the devices that have no access to it, where several run at once. `address` is
    that of its first byte as other memory holds it, in tables of pointers say (0: none holds it).
    """

    name: str
    data: NDArray[np.uint8]
    initialised: NDArray[np.bool_] | None = None
    writable: bool = True
    alignment: int = 256
    shadow: NDArray[np.float32] | None = None
    closed_to: tuple[int, ...] = ()
    address: int = 0

    def __post_init__(self) -> None:
        if getattr(self.data, "dtype", "uint8") == "uint8" and getattr(self.data, "ndim", 1) == 1:
            return
        if not self.data.flags.c_contiguous:
            raise MachineError(f"the data of buffer '{self.name}' is not contiguous; copy it first")
        self.data = self.data.reshape(-1).view("uint8")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pointer:
    """An argument that points `offset` bytes into a buffer."""

    buffer: Buffer
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a copy in im2col mode takes of a tensor, instead of a box: W first, then H and D.

    `lower` and `upper` are the distances of the bounding box's corners from those of the tensor,
    `channels` the elements of a pixel and `pixels` the pixels that one copy moves.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}  # by rank: corners lie in [-this, this)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorMap:
    """What cuTensorMapEncodeTiled or, with `columns`, cuTensorMapEncodeIm2col takes.

    The innermost dimension comes first. `sizes` and `box` (empty with `columns`) are in elements,
    `strides` in bytes, of all dimensions but the innermost; `steps` are element strides; `swizzle`
    is 0, 32, 64 or 128 bytes, of which `atom` stay together (16, or 32 of 128); `nan_fill` fills
    what lies outside of the tensor with NaN instead of zero. No interleaving.
    """

    pointer: Pointer
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    columns: Columns | None = None
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    atom: int = 16
    nan_fill: bool = False

    def packed(self, base: int = 0) -> bytes:
        """Return the machine's 128 bytes, for memory at address `base`.

        Raises MachineError for what hardware does not take.
        """
        self._check()
        rank, raw = len(self.sizes), bytearray(L.T_BYTES)
        struct.pack_into("<Q", raw, L.T_BASE, base)
        struct.pack_into(f"<{rank}I", raw, L.T_SIZES, *self.sizes)
        raw[L.T_RANK], raw[L.T_TYPE] = rank - 1 | L.T_OWN, ELEMENTS[self.element]
        for axis in range(1, rank):
            stride = self.strides[axis - 1] // 16
            struct.pack_into("<I", raw, L.T_STRIDES + 4 * (axis - 1), stride & 0xFFFFFFFF)
            raw[L.T_TOPS + axis - 1] = stride >> 32
            raw[L.T_STEPS + axis] = self.steps[axis] if self.steps else 1
        if self.columns is None:
            raw[L.T_BOX : L.T_BOX + rank] = bytes(one - 1 for one in self.box)
        else:
            columns, width = self.columns, CORNERS[rank].bit_length()
            raw[L.T_RANK] |= L.T_IM2COL
            raw[L.T_CHANNELS] = columns.channels - 1
            for at, corner in ((L.T_LOWER, columns.lower), (L.T_UPPER, columns.upper)):
                fields = [(one % (1 << width)) << width * axis for axis, one in enumerate(corner)]
                struct.pack_into("<H", raw, at, sum(fields))
            struct.pack_into("<H", raw, L.T_PIXELS, columns.pixels)
        raw[L.T_SWIZZLE] = SWIZZLES.index(self.swizzle) + (self.atom == 32)
        raw[L.T_FILL] = int(self.nan_fill)
        return bytes(raw)

    def _check(self) -> None:
        rank = len(self.sizes)
        if self.element not in ELEMENTS or self.swizzle not in SWIZZLES:
            self._refuse(f"element {self.element}, swizzle {self.swizzle}", "a known one of each")
        if self.atom != 16 and (self.swizzle, self.atom) != (128, 32):
            self._refuse(f"{self.atom} bytes kept together", "16, or 32 of a swizzle of 128")
        if not 1 <= rank <= 5 or len(self.strides) != rank - 1:
            lengths = f"{rank} sizes, {len(self.strides)} strides"
            self._refuse(lengths, "1 to 5 sizes, one stride less")
        if self.steps and (len(self.steps) != rank or not all(1 <= n <= 8 for n in self.steps)):
            self._refuse(f"element strides {self.steps}", f"{rank} of 1 to 8")
        if not all(1 <= one < 1 << 32 for one in self.sizes):
            self._refuse(f"sizes {self.sizes}", "1 to 2^32 - 1")
        if any(one % 16 or not 0 <= one < 1 << 40 for one in self.strides):
            self._refuse(f"strides {self.strides}", "multiples of 16 bytes below 2^40")
        if self.columns is not None:
            inner = self._check_columns(self.columns)
        else:
            if len(self.box) != len(self.sizes):
                self._refuse(f"{len(self.sizes)} sizes, {len(self.box)} of box", "as many of box")
            if not all(1 <= one <= 256 for one in self.box):
                self._refuse(f"box {self.box}", "1 to 256 elements along each dimension")
            inner = self.box[0]
        row = inner * _BITS.get(self.element, 32) // 8
        if row % 16 or (self.swizzle and row > self.swizzle):
            most = f", {self.swizzle} at most" if self.swizzle else ""
            self._refuse(f"{row} bytes of innermost box", f"a multiple of 16{most}")

    def _check_columns(self, one: Columns) -> int:
        """Return the elements of a pixel."""
        rank = len(self.sizes)
        if rank not in CORNERS or self.box or not len(one.lower) == len(one.upper) == rank - 2:
            given = f"{rank} sizes, corners {one.lower} and {one.upper}"
            self._refuse(given, "3 to 5 sizes, two less in each corner, and no box")
        most = CORNERS[rank]
        if not all(-most <= each < most for each in (*one.lower, *one.upper)):
            self._refuse(f"corners {one.lower} and {one.upper}", f"{-most} to {most - 1}")
        if not (1 <= one.channels <= 256 and 1 <= one.pixels <= 1024):
            given = f"{one.channels} channels, {one.pixels} pixels"
            self._refuse(given, "1 to 256 channels, 1 to 1024 pixels")
        for size, low, high in zip(self.sizes[1:], one.lower, one.upper, strict=False):
            if low > size - 1 + high:
                self._refuse(f"corners {one.lower} and {one.upper}", "a box that holds a pixel")
        return one.channels

    def _refuse(self, given: str, expected: str) -> None:
        raise MachineError(f"a tensor map over '{self.pointer.buffer.name}': {given}; {expected}")


def element_bytes(element: str) -> int:
    """Return the bytes of an element of at least 8 bits."""
    return _BITS.get(element, 32) // 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texture:
    """What the handle of a texture or surface object means.

    Texels lie at `pointer`, rows `pitch` bytes and slices (or layers) `slice_bytes` apart; `bits`
    and `kind` (enum cudaChannelFormatKind: 0 signed, 1 unsigned, 2 float) are those of each of
    its `channels`. `modes` are address modes along x, y and z (enum cudaTextureAddressMode);
    `fractions`: integers are read as fractions of their largest value.
    """

    handle: int
    pointer: Pointer
    width: int
    height: int = 1
    depth: int = 1
    pitch: int = 0
    slice_bytes: int = 0
    channels: int = 1
    bits: int = 32
    kind: int = 2
    normalized: bool = False
    linear: bool = False
    fractions: bool = False
    modes: tuple[int, int, int] = (1, 1, 1)
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


Argument = Pointer | bytes | TensorMap
"""A pointer, a tensor map, or the raw little-endian bytes of a scalar or struct parameter."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """One kernel launch; `kernel` names an entry of the module, dimensions are (x, y, z).

    `arguments` are in the order of the entry's parameters. A struct that holds pointers is given
    as bytes, with `pointers_inside` saying (argument index, byte offset, Pointer).
    `buffers` lists memory that is reachable only through addresses stored in other memory (see
    `Buffer.address`); `textures` are what handles of textures and surfaces mean. With `parts`,
    launches of several devices that run at once, this one stands for all of them (ranks.py).
    """

    kernel: str
    grid: Dim3
    block: Dim3
    arguments: tuple[Argument, ...] = ()
    cluster: Dim3 = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    pointers_inside: tuple[tuple[int, int, Pointer], ...] = ()
    buffers: tuple[Buffer, ...] = ()
    textures: tuple[Texture, ...] = ()
    parts: tuple[Part, ...] = ()

    def pointers(self) -> list[Pointer]:
        """Return the pointers among the arguments, in tensor maps and inside of structures too."""
        found = [one for one in self.arguments if isinstance(one, Pointer)]
        found += [one.pointer for one in self.arguments if isinstance(one, TensorMap)]
        return found + [one for _, _, one in self.pointers_inside]

    def place(self, gid: int) -> tuple[Part | None, Dim3, Dim3]:
        """Return the block and the thread of a number in the grid, and which of the parts."""
        block, thread = divmod(gid, math.prod(self.block))
        if not self.parts:
            return None, unravel(block, self.grid), unravel(thread, self.block)
        for part in self.parts:
            if block < part.blocks:
                break
            block -= part.blocks
        assert part.launch is not None
        return part, unravel(block, part.launch.grid), unravel(thread, part.launch.block)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One of several launches that run at once.

    It runs on `device` when those with the numbers `after` have ended. Without a launch it only
    waits for those, and frees `freed`. `number` counts the launches of a device from 1.
    """

    device: int
    launch: Launch | None
    number: int = 1
    after: tuple[int, ...] = ()
    freed: Buffer | None = None

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return math.prod(self.launch.grid) if self.launch is not None else 0


def unravel(index: int, dims: Dim3) -> Dim3:
    """Return the x, y and z of a number that counts x first."""
    return index % dims[0], index // dims[0] % dims[1], index // (dims[0] * dims[1])
