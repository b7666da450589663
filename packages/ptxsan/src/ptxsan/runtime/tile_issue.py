"""What the instructions of tensor copies do: a tensor map and coordinates become a copy.

Tiles lie at multiples of 128 bytes in shared memory (PTX ISA, cp.async.bulk.tensor); whoever breaks
that, or gives a tensor map that no hardware takes, is told so and nothing is moved.
"""

from __future__ import annotations

from ptxsan.runtime import bulk
from ptxsan.runtime import inflight as F
from ptxsan.runtime import layout as L
from ptxsan.runtime import tensor_maps as T
from ptxsan.runtime.bulk_issue import (
    attach,
    beside,
    in_block,
    in_group,
    owner_of,
    refuse,
    serves,
    set_place,
)
from ptxsan.runtime.memory import rt_access_generic
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import copy_bytes, load_u8, load_u32, load_u64, store_u32

PAIR = 128  # of `how`: the mbarrier may lie in the other block of a pair


@native
def _map(thread: int, block: int, launch: int, address: int, site: int) -> int:
    """Return the host address of a tensor map that makes sense, or 0."""
    out = F.scratch_of(block)
    info = 8 | L.READ << 16 | L.SCOPE_GPU << 20 | site << 24
    rt_access_generic(thread, block, launch, address, info, out)
    place, flags = load_u64(out), load_u64(out + 8)
    rt_access_generic(thread, block, launch, address + L.T_BYTES - 8, info, out)
    if place == load_u64(launch + L.SCRATCH) or load_u64(out) == load_u64(launch + L.SCRATCH):
        return 0
    for at in range(L.T_USED):
        if load_u8(flags + at) & 1 == 0:
            refuse(thread, launch, L.K_TENSOR_MAP, site, 67, at)
            return 0
    if T.in_hardware_form(place):
        if not T.from_hardware(place, out + F.MAP_READ):
            store_u32(launch + L.OVERFLOW, L.UNKNOWN_MAP)
            return 0
        place = out + F.MAP_READ
    if address & 63 or not T.is_valid(place):
        refuse(thread, launch, L.K_TENSOR_MAP, site, address & 63, address)
        return 0
    return int(place)


@native
def _tile(entry: int, thread: int, place: int, how: int, site: int, launch: int) -> bool:
    """Take the tensor map and the coordinates (left in the thread's record) into an entry."""
    copy_bytes(entry + F.MAP, place, L.T_USED)
    axes = how & 7
    if T.outer_axes(place) + 1 != axes:
        refuse(thread, launch, L.K_TENSOR_MAP, site, 64, axes)
        return False
    if T.in_columns(place) != how >> 3 & 1:
        refuse(thread, launch, L.K_TENSOR_MAP, site, 65, how >> 3 & 1)
        return False
    copy_bytes(entry + F.OFFSETS, thread + L.TILE_OFFSETS, 12)
    for axis in range(axes):
        value = load_u32(thread + L.TILE_AT + 4 * axis)
        store_u32(entry + F.COORDINATES + 4 * axis, value)
    T.take_pairs(entry)
    store_u32(entry + F.FLAGS, F.TENSOR)
    store_u32(entry + F.BYTES, T.tile_bytes(entry + F.MAP))
    if not T.begins_inside(entry):
        store_u32(launch + L.OVERFLOW, 7)
        return False
    return True


@export("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_tile_in(
    thread: int, block: int, launch: int, target: int, tensor: int, barrier: int, how: int,
    site: int,
) -> None:  # fmt: skip
    """Start a copy of a tile into shared memory; from bit 8 of `how` the blocks to serve.

    Bits 0 to 2: axes; bit 3: im2col mode. Of a PAIR the block is told that is even or odd as that
    of the barrier is.
    """
    place = _map(thread, block, launch, tensor, site)
    if target & 127:
        refuse(thread, launch, L.K_BULK_SHAPE, site, 2, target)
    if place == 0 or target & 127:
        return
    mask = how >> 8
    if mask == 0:
        _tile_to(thread, block, launch, target, place, barrier, how & 255, site)
        return
    signaled = owner_of(block, launch, barrier)
    for rank in range(16):
        if (mask >> rank) & 1 and serves(thread, launch, mask, rank, site):
            home = rank
            if how & PAIR and signaled:
                home = rank & ~1 | load_u32(signaled + L.CLUSTER_RANK) & 1
            _tile_to(
                thread, block, launch, in_block(target, rank), place, in_block(barrier, home),
                how & 255, site,
            )  # fmt: skip


@native
def _tile_to(
    thread: int, block: int, launch: int, target: int, place: int, barrier: int, how: int,
    site: int,
) -> None:  # fmt: skip
    owner = owner_of(block, launch, target)
    found = beside(thread, block, launch, target, owner, barrier, site, how & PAIR != 0)
    if found == 0:
        return
    home = load_u64(found + L.M_BLOCK)
    entry = F.begin(home, launch, F.TO_SHARED, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    if not _tile(entry, thread, place, how, site, launch):
        F.end(home, entry)
        return
    set_place(entry, F.TARGET, target, owner)
    bulk.issue(entry, thread, block, launch)
    attach(entry, thread, block, found)


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_tile_out(
    thread: int, block: int, launch: int, tensor: int, source: int, how: int, site: int
) -> None:
    """Start a copy of a tile to global memory in the open bulk group; `how`: see above."""
    place = _map(thread, block, launch, tensor, site)
    if source & 127:
        refuse(thread, launch, L.K_BULK_SHAPE, site, 2, source)
    if place == 0 or source & 127:
        return
    entry = F.begin(block, launch, F.TO_GLOBAL, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    fits = _tile(entry, thread, place, how & 255, site, launch)
    if not fits or _is_negative(entry, thread, launch):
        F.end(block, entry)
        return
    store_u32(entry + F.REDUCE, (how >> 8) & 255)
    store_u32(entry + F.TYPE, _reduced_type(load_u8(place + L.T_TYPE)))
    set_place(entry, F.SOURCE, source, block)
    if _is_repeated(entry, block):
        F.end(block, entry)
        return
    in_group(entry, thread, block, launch)


@native
def _is_repeated(entry: int, block: int) -> bool:
    """Whether another lane of the warp has this very store under way: the same bytes.

    Hardware starts one for a warp, and NVIDIA's CuTe DSL elects nobody.
    """
    first = load_u32(block + L.FIRST_GID)
    warp = (load_u32(entry + F.ISSUER) - first) // 32
    for index in range(load_u32(block + L.ASYNC_TOP)):
        other = F.entry_at(block, index)
        if other == entry or load_u32(other + F.STATE) != F.TO_GLOBAL:
            continue
        if load_u32(other + F.SITE) != load_u32(entry + F.SITE) or load_u32(entry + F.REDUCE):
            continue
        same = (load_u32(other + F.ISSUER) - first) // 32 == warp
        same = same and load_u64(other + F.SOURCE) == load_u64(entry + F.SOURCE)
        for at in range(F.COORDINATES, F.COORDINATES + 20, 4):
            same = same and load_u32(other + at) == load_u32(entry + at)
        for at in range(F.MAP, F.MAP + L.T_USED, 8):
            same = same and load_u64(other + at) == load_u64(entry + at)
        if same and load_u32(other + F.FLAGS) & F.DONE == 0:
            return True
    return False


@native
def _is_negative(entry: int, thread: int, launch: int) -> bool:
    """Whether a store in tile mode begins at a negative coordinate: an illegal instruction.

    Seen on an H200 for copies and reductions of every type tried; loads may begin there.
    """
    tile, site = entry + F.MAP, load_u32(entry + F.SITE)
    if T.in_columns(tile):
        return False
    for axis in range(T.outer_axes(tile) + 1):
        at = load_u32(entry + F.COORDINATES + 4 * axis)
        if at >> 31:
            refuse(thread, launch, L.K_TENSOR_MAP, site, 66, axis << 32 | at)
            return True
    return False


@native
def _reduced_type(kind: int) -> int:
    """Return the number in reductions.TYPES of a tensor map's element type."""
    if kind == 2:
        return 0
    if kind == 3:
        return 1
    if kind in (4, 5):
        return kind - 2
    if kind == 6:
        return 6
    if kind == 10:
        return 7
    return 9 if kind == 9 else 8
