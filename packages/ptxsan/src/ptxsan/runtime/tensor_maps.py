"""Tensor maps as the machine and hardware keep them, and which bytes a tile is made of.

128 bytes of which the first 64 say everything, as in hardware's: CuTe DSL's kernels copy no more
of a template before they replace its fields. All zeros are a template too. In order: base address;
sizes in elements, the innermost dimension first; strides of the outer dimensions in units of 16
bytes, 32 bits each and a byte each for the bits above; the box less one, a byte each; element
strides of the outer dimensions; rank less one; element type (numbered as in
`tensormap.replace...elemtype`); interleave, swizzle, fill. In im2col mode channels less one, pixels
and two corners stand in the place of the box; a corner is 16, 8 or 5 bits for each of 1, 2 or 3
dimensions. PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col.

Hardware's form is what NVIDIA's CuTe DSL 4.8 writes for sm_90 to sm_120, on the host or word by
word in a kernel: an address; 4 bits that are 2, dimensions less one (3 bits), element type (4),
interleaving (2), swizzling (3), what follows is for caches; strides in units of 16 bytes (32 bits
each, 4 more behind them); sizes less one (32 bits each); element strides less one, the box less
one (a byte each). f32 whose numbers become tf32 on their way has a bit of its own. Tiled maps
without interleaving and element strides, filled with zeros, are known.

Of elements of 4 and 6 bits, which lie packed in global memory, .b4x16 lie packed in shared memory
too: a copy moves them as pairs, in bytes. Of .b4x16_p64 and .b6x16_p32 each element takes a byte
there: 16 of them are 8 or 12 bytes at the beginning of 16. What such a copy completes at its
mbarrier are the packed bytes: CUTLASS 4.7 and Triton 3.6, which run on hardware, expect these.
"""

from __future__ import annotations

from ptxsan.runtime import inflight
from ptxsan.runtime import layout as L
from ptxsan.runtime.descriptors import swizzled
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import (
    fill,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_u8,
    store_u32,
    store_u64,
)

F32, TF32, B4, B4_PADDED, B6_PADDED = 7, 11, 13, 14, 15
H_FLAGS, H_STRIDES, H_TOPS, H_SIZES, H_STEPS, H_BOX, H_END = 8, 12, 28, 32, 52, 55, 60
H_ROUNDED, H_B4 = 1 << 16, 11  # f32 becomes tf32; the element type B4
WIDE = 4  # the swizzle that keeps 32 bytes together in rows of 128
# where `chunk` writes, behind the results of an access
C_SHARED, C_GLOBAL, C_LOW, C_HIGH = 64, 72, 80, 84


@native
def element_bytes(kind: int) -> int:
    """Return the bytes of an element type in shared memory, 0 for none, and for packed pairs."""
    if kind in (0, B4_PADDED, B6_PADDED):
        return 1
    if kind in (1, 6, 10):
        return 2
    if kind in (2, 3, 7, 8, 11, 12):
        return 4
    return 8 if kind in (4, 5, 9) else 0


@native
def in_hardware_form(tile: int) -> bool:
    """Whether a tensor map is in hardware's form, not in the machine's."""
    own = load_u8(tile + L.T_RANK) & L.T_OWN
    return own == 0 and load_u32(tile + H_END) == 0 and load_u32(tile + H_FLAGS) & 15 == 2


@native
def from_hardware(tile: int, to: int) -> bool:
    """Write in the machine's form what a map in hardware's says; False: that is not known."""
    flags = load_u32(tile + H_FLAGS)
    outer, kind, swizzle = flags >> 4 & 7, flags >> 7 & 15, flags >> 13 & 7
    steps = load_u32(tile + H_STEPS) & 0xFFFFFF
    if outer > 4 or kind > H_B4 or swizzle > 3 or flags >> 11 & 3 or steps:
        return False
    if flags & H_ROUNDED:
        if kind != F32:
            return False
        kind = TF32
    elif kind == H_B4:
        kind = B4
    fill(to, L.T_USED, 0)
    store_u64(to + L.T_BASE, load_u64(tile))
    store_u8(to + L.T_RANK, outer | L.T_OWN)
    store_u8(to + L.T_TYPE, kind)
    store_u8(to + L.T_SWIZZLE, swizzle)
    for axis in range(outer + 1):
        size = load_u32(tile + H_SIZES + 4 * axis) + 1
        store_u32(to + L.T_SIZES + 4 * axis, size & 0xFFFFFFFF)
        store_u8(to + L.T_BOX + axis, load_u8(tile + H_BOX + axis))
    for axis in range(outer):
        store_u32(to + L.T_STRIDES + 4 * axis, load_u32(tile + H_STRIDES + 4 * axis))
        store_u8(to + L.T_TOPS + axis, load_u32(tile + H_TOPS) >> 4 * axis & 15)
        store_u8(to + L.T_STEPS + 1 + axis, 1)
    return True


@native
def outer_axes(tile: int) -> int:
    """Return how many dimensions a map has beside the innermost."""
    return load_u8(tile + L.T_RANK) & 7


@native
def in_columns(tile: int) -> int:
    """Return 1 for a map of im2col mode, 0 for one of tile mode."""
    return load_u8(tile + L.T_RANK) // L.T_IM2COL & 1


@native
def _stride_bytes(tile: int, axis: int) -> int:
    low, top = load_u32(tile + L.T_STRIDES + 4 * (axis - 1)), load_u8(tile + L.T_TOPS + axis - 1)
    return 16 * (low | top << 32)


@native
def _step(tile: int, axis: int) -> int:
    """Return an element stride; cuTensorMapEncodeTiled ignores that of the innermost dimension."""
    return max(1, load_u8(tile + L.T_STEPS + axis)) if axis else 1


@native
def box_of(tile: int, axis: int) -> int:
    """Return how many elements along an axis a tile has in shared memory."""
    return load_u8(tile + L.T_BOX + axis) // _step(tile, axis) + 1


@native
def _channels(tile: int) -> int:
    return load_u8(tile + L.T_CHANNELS) + 1


@native
def tile_bytes(tile: int) -> int:
    """Return the bytes of a tile, those outside of the tensor included."""
    count = element_bytes(load_u8(tile + L.T_TYPE))
    if in_columns(tile):
        return count * _channels(tile) * load_u16(tile + L.T_PIXELS)
    for axis in range(outer_axes(tile) + 1):
        count *= box_of(tile, axis)
    return count


@native
def completed_bytes(entry: int) -> int:
    """Return the bytes that a copy completes at its mbarrier: packed ones of padded elements."""
    nbytes = load_u32(entry + inflight.BYTES)
    if load_u32(entry + inflight.FLAGS) & inflight.TENSOR == 0:
        return nbytes
    kind = load_u8(entry + inflight.MAP + L.T_TYPE)
    if kind == B4_PADDED:
        return nbytes // 2
    return nbytes // 4 * 3 if kind == B6_PADDED else nbytes


@native
def _valid_columns(tile: int, rank: int) -> bool:
    """Whether an im2col map has a bounding box that holds a pixel, channels and pixels."""
    if rank < 3:
        return False
    for axis in range(1, rank - 1):
        if _corner(tile, L.T_LOWER, axis) > _last(tile, axis):
            return False
    return 1 <= load_u16(tile + L.T_PIXELS) <= 1024


@native
def _coordinate(entry: int, axis: int) -> int:
    value = load_u32(entry + inflight.COORDINATES + 4 * axis)
    return value - (1 << 32) if value >= 1 << 31 else value


@native
def take_pairs(entry: int) -> None:
    """Turn a copy of packed elements of 4 bits into one of bytes."""
    tile = entry + inflight.MAP
    if load_u8(tile + L.T_TYPE) != B4:
        return
    store_u8(tile + L.T_TYPE, 0)
    store_u32(tile + L.T_SIZES, load_u32(tile + L.T_SIZES) // 2)
    store_u8(tile + L.T_BOX, load_u8(tile + L.T_BOX) // 2)
    store_u32(entry + inflight.COORDINATES, _coordinate(entry, 0) >> 1 & 0xFFFFFFFF)


@native
def _packs_well(tile: int, kind: int) -> bool:
    """Whether a map of elements of 4 or 6 bits keeps what the driver demands of them."""
    if in_columns(tile):
        return False
    width, box = load_u32(tile + L.T_SIZES), load_u8(tile + L.T_BOX) + 1
    if kind == B4:
        return width % 2 == 0 and box % 2 == 0
    return width % 128 == 0 and box == 128 and load_u64(tile + L.T_BASE) & 31 == 0


@native
def row_bytes(tile: int) -> int:
    """Return the bytes of a row of a tile in shared memory: of a pixel, in im2col mode."""
    size = element_bytes(load_u8(tile + L.T_TYPE))
    if in_columns(tile):
        return _channels(tile) * size
    return box_of(tile, 0) * size


@native
def is_valid(tile: int) -> bool:
    """Whether a tensor map says something that hardware accepts (and the machine models)."""
    rank, kind = outer_axes(tile) + 1, load_u8(tile + L.T_TYPE)
    size = 1 if kind == B4 else element_bytes(kind)
    if kind >= B4 and not _packs_well(tile, kind):
        return False
    if (
        rank > 5
        or size == 0
        or load_u8(tile + L.T_INTERLEAVE)
        or load_u8(tile + L.T_SWIZZLE) > WIDE
    ):
        return False
    if load_u64(tile + L.T_BASE) & 15 or (in_columns(tile) and not _valid_columns(tile, rank)):
        return False
    row = box_of(tile, 0) // 2 if kind == B4 else row_bytes(tile)
    mode = load_u8(tile + L.T_SWIZZLE)
    span = 128 if mode == WIDE else 16 << mode
    return row % 16 == 0 and (span == 16 or row <= span)


@native
def _corner(tile: int, which: int, axis: int) -> int:
    """Return how far a corner of the bounding box lies from that of the tensor."""
    rank = outer_axes(tile) + 1
    width = 16 if rank == 3 else 8 if rank == 4 else 5
    value = load_u16(tile + which) >> width * (axis - 1) & (1 << width) - 1
    return value - (1 << width) if value >> width - 1 else value


@native
def _last(tile: int, axis: int) -> int:
    """Return the last coordinate along an axis that lies in the bounding box."""
    return load_u32(tile + L.T_SIZES + 4 * axis) - 1 + _corner(tile, L.T_UPPER, axis)


@native
def begins_inside(entry: int) -> bool:
    """Whether a copy in im2col mode begins in its bounding box; every other one does."""
    tile = entry + inflight.MAP
    if in_columns(tile) == 0:
        return True
    for axis in range(1, outer_axes(tile)):
        if not _corner(tile, L.T_LOWER, axis) <= _coordinate(entry, axis) <= _last(tile, axis):
            return False
    return True


@native
def _pixel(entry: int, number: int) -> tuple[int, bool]:
    """Return the address of a pixel of a copy in im2col mode, and whether the tensor has it.

    Pixels follow each other along W, then H, then D, each from end to end of the bounding box by
    the element stride, then along N; what is read lies the offsets further on.
    """
    tile = entry + inflight.MAP
    outer = outer_axes(tile)
    place, inside, carry = load_u64(tile + L.T_BASE), True, number
    for axis in range(1, outer):
        step, last = _step(tile, axis), _last(tile, axis)
        at = _coordinate(entry, axis)
        left = (last - at) // step + 1
        if carry < left:
            at, carry = at + carry * step, 0
        else:
            first = _corner(tile, L.T_LOWER, axis)
            count, carry = (last - first) // step + 1, carry - left
            at, carry = first + carry % count * step, carry // count + 1
        at += load_u32(entry + inflight.OFFSETS + 4 * (axis - 1))
        inside = inside and 0 <= at < load_u32(tile + L.T_SIZES + 4 * axis)
        place += at * _stride_bytes(tile, axis)
    at = _coordinate(entry, outer) + carry
    place += at * _stride_bytes(tile, outer)
    return place, inside and 0 <= at < load_u32(tile + L.T_SIZES + 4 * outer)


@native
def _row(entry: int, number: int) -> tuple[int, bool]:
    """Return the address of a row of a copy in tile mode, and whether the tensor has it."""
    tile, rest = entry + inflight.MAP, number
    place, inside = load_u64(tile + L.T_BASE), True
    for axis in range(1, outer_axes(tile) + 1):
        count = box_of(tile, axis)
        at = rest % count * _step(tile, axis) + _coordinate(entry, axis)
        rest //= count
        inside = inside and 0 <= at < load_u32(tile + L.T_SIZES + 4 * axis)
        place += at * _stride_bytes(tile, axis)
    return place, inside


@native
def chunk(entry: int, shared: int, number: int, out: int) -> None:
    """Write where chunk `number` of a tile is: shared, global, first and last byte valid.

    Bytes of a chunk that lie outside of the tensor are not valid: loads fill them, stores leave
    them out.
    """
    tile = entry + inflight.MAP
    size, per_row = element_bytes(load_u8(tile + L.T_TYPE)), row_bytes(tile) // 16
    row, column = number // per_row, number % per_row * (16 // size)
    if in_columns(tile):
        place, inside = _pixel(entry, row)
    else:
        place, inside = _row(entry, row)
    first, kind = _coordinate(entry, 0) + column, load_u8(tile + L.T_TYPE)
    bits = 8 * size
    if kind in (B4_PADDED, B6_PADDED):
        bits = 4 if kind == B4_PADDED else 6
    place += first * bits // 8
    width = load_u32(tile + L.T_SIZES)
    low = min(max(0, -first), 16 // size) * bits // 8
    high = min(max(0, width - first), 16 // size) * bits // 8 if inside else 0
    mode, at = load_u8(tile + L.T_SWIZZLE), shared + 16 * number
    turned = at ^ (at >> 7 & 3) << 5 if mode == WIDE else swizzled(at, 16 << mode)
    store_u64(out + C_SHARED, turned)
    store_u64(out + C_GLOBAL, place)
    store_u32(out + C_LOW, low if low < high else 0)
    store_u32(out + C_HIGH, high if low < high else 0)
