"""Tensor maps as the machine keeps them, and which bytes a tile is made of.

128 bytes, zero-filled like the template that `tensormap.replace` starts from: rank less one,
element type (numbered as in `tensormap.replace...elemtype`), base address, sizes, strides in bytes
of the outer dimensions, box, element strides, interleave, swizzle, fill. Sizes are in elements,
the innermost dimension first. PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from cuassay.machine.runtime import inflight
from cuassay.machine.runtime import layout as L
from cuassay.machine.runtime.descriptors import swizzled
from cuassay.machine.runtime.native import native
from cuassay.machine.runtime.raw import load_u8, load_u16, load_u32, load_u64, store_u32, store_u64

# where `chunk` writes, behind the results of an access
C_SHARED, C_GLOBAL, C_LOW, C_HIGH = 64, 72, 80, 84


@native
def element_bytes(kind: int) -> int:
    """Return the bytes of an element type, 0 for one that is not modelled (packed 4 and 6 bits)."""
    if kind == 0:
        return 1
    if kind in (1, 6, 10):
        return 2
    if kind in (2, 3, 7, 8, 11, 12):
        return 4
    return 8 if kind in (4, 5, 9) else 0


@native
def box_of(tile: int, axis: int) -> int:
    """Return how many elements along an axis a tile has in shared memory.

    The innermost dimension has no element stride (cuTensorMapEncodeTiled ignores it).
    """
    step = max(1, load_u8(tile + L.T_STEPS + axis)) if axis else 1
    return (load_u16(tile + L.T_BOX + 2 * axis) + step - 1) // step


@native
def tile_bytes(tile: int) -> int:
    """Return the bytes of a tile, those outside of the tensor included."""
    count = element_bytes(load_u32(tile + L.T_TYPE))
    for axis in range(load_u32(tile + L.T_RANK) + 1):
        count *= box_of(tile, axis)
    return count


@native
def is_valid(tile: int) -> bool:
    """Whether a tensor map says something that hardware accepts (and the machine models)."""
    rank, size = load_u32(tile + L.T_RANK) + 1, element_bytes(load_u32(tile + L.T_TYPE))
    if rank > 5 or size == 0 or load_u8(tile + L.T_INTERLEAVE) or load_u8(tile + L.T_SWIZZLE) > 3:
        return False
    if load_u64(tile + L.T_BASE) & 15:
        return False
    for axis in range(rank):
        if not 1 <= load_u16(tile + L.T_BOX + 2 * axis) <= 256:
            return False
        if axis and load_u64(tile + L.T_STRIDES + 8 * (axis - 1)) & 15:
            return False
    row = box_of(tile, 0) * size
    span = 16 << load_u8(tile + L.T_SWIZZLE)
    return row % 16 == 0 and (span == 16 or row <= span)


@native
def _coordinate(entry: int, axis: int) -> int:
    value = load_u32(entry + inflight.COORDINATES + 4 * axis)
    return value - (1 << 32) if value >= 1 << 31 else value


@native
def chunk(entry: int, shared: int, number: int, out: int) -> None:
    """Write where chunk `number` of a tile is: shared, global, first and last byte valid.

    Bytes of a chunk that lie outside of the tensor are not valid: loads fill them, stores leave
    them out.
    """
    tile = entry + inflight.MAP
    size, rank = element_bytes(load_u32(tile + L.T_TYPE)), load_u32(tile + L.T_RANK) + 1
    row_bytes = box_of(tile, 0) * size
    per_row = row_bytes // 16
    row, column = number // per_row, number % per_row * (16 // size)
    place = load_u64(tile + L.T_BASE)
    inside, rest = True, row
    for axis in range(1, rank):
        count = box_of(tile, axis)
        at = rest % count * max(1, load_u8(tile + L.T_STEPS + axis)) + _coordinate(entry, axis)
        rest //= count
        inside = inside and 0 <= at < load_u32(tile + L.T_SIZES + 4 * axis)
        place += at * load_u64(tile + L.T_STRIDES + 8 * (axis - 1))
    first = _coordinate(entry, 0) + column
    place += first * size
    width = load_u32(tile + L.T_SIZES)
    low = min(max(0, -first) * size, 16)
    high = min(max(0, width - first) * size, 16) if inside else 0
    store_u64(out + C_SHARED, swizzled(shared + 16 * number, 16 << load_u8(tile + L.T_SWIZZLE)))
    store_u64(out + C_GLOBAL, place)
    store_u32(out + C_LOW, low if low < high else 0)
    store_u32(out + C_HIGH, high if low < high else 0)
