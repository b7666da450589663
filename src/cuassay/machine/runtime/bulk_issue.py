"""What the instructions of bulk and tensor copies do: start, commit, wait, and the end of a block.

Sizes and addresses are multiples of 16 bytes, tiles lie at multiples of 128 in shared memory (PTX
ISA, cp.async.bulk and cp.async.bulk.tensor); whoever breaks that is told so and nothing is moved.
"""

from __future__ import annotations

from cuassay.machine.runtime import bulk
from cuassay.machine.runtime import inflight as F
from cuassay.machine.runtime import layout as L
from cuassay.machine.runtime import tensor_maps as T
from cuassay.machine.runtime.clocks import publish, tick
from cuassay.machine.runtime.mbarriers import find
from cuassay.machine.runtime.memory import rt_access_generic
from cuassay.machine.runtime.native import export, native
from cuassay.machine.runtime.raw import copy_bytes, load_u32, load_u64, store_u32, store_u64
from cuassay.machine.runtime.reports import report_pair

_SHARED_MASK = (1 << 32) - 1


@native
def owner_of(block: int, launch: int, address: int) -> int:
    """Return the block whose shared memory an address means, or 0."""
    rank = (address & _SHARED_MASK) >> 27
    if rank == 0:
        return block
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    size *= load_u32(launch + L.CLUSTER_DIM + 8)
    if rank > size:
        return 0
    peers = load_u64(block + L.BLOCK_PEERS)
    return load_u64(peers + 8 * (rank - 1)) if peers else block


@native
def _refuse(thread: int, launch: int, kind: int, site: int, what: int, number: int) -> None:
    gid = load_u32(thread + L.GID)
    index = report_pair(launch, kind, site, gid, number, 0xFFFFFFFF, gid)
    if index >= 0:
        store_u32(load_u64(launch + L.FINDINGS) + index * L.F_RECORD + L.F_EXTRA, what)


@native
def _set(entry: int, which: int, place: int, owner: int) -> None:
    """Set the source or the target of a copy: a global address, or a shared one with its block."""
    store_u64(entry + which, place & (L.RANK_UNIT - 1) if owner else place)
    store_u64(entry + which + 16, owner)


@native
def _to_object(entry: int, thread: int, block: int, launch: int, target: int) -> None:
    """Check a copy that completes on an mbarrier; its waiters know what the issuer knew."""
    store_u32(target + L.M_ISSUER, load_u32(thread + L.GID))
    F.set_object(entry, target)
    bulk.issue(entry, thread, block, launch)
    publish(thread, block, load_u64(target + L.M_OPEN))
    tick(thread)


@export("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_bulk_in(
    thread: int, block: int, launch: int, target: int, source: int, size: int, barrier: int,
    how: int, site: int,
) -> None:  # fmt: skip
    """Start a copy into shared memory: from global memory, or (bit 0 of `how`) from shared memory.

    Bits 8 to 15 of `how`: reduction; 16 to 23: element type.
    """
    if (target | source | size) & 15 or size <= 0:
        _refuse(thread, launch, L.K_BULK_SHAPE, site, 0, size)
        return
    owner, across = owner_of(block, launch, target), how & 1
    found = find(thread, block, launch, barrier, L.ATOMIC, site)
    if found == 0:
        return
    if owner == 0 or load_u64(found + L.M_BLOCK) != owner:
        _refuse(thread, launch, L.K_BULK_SHAPE, site, 1, target)
        return
    entry = F.begin(
        owner, launch, F.ACROSS if across else F.TO_SHARED, site, load_u32(thread + L.GID)
    )
    if entry == 0:
        return
    store_u32(entry + F.BYTES, size)
    store_u32(entry + F.REDUCE, (how >> 8) & 255)
    store_u32(entry + F.TYPE, (how >> 16) & 255)
    _set(entry, F.TARGET, target, owner)
    _set(entry, F.SOURCE, source, owner_of(block, launch, source) if across else 0)
    _to_object(entry, thread, block, launch, found)


@native
def _in_group(entry: int, thread: int, block: int, launch: int) -> None:
    """Check a copy that its thread waits for by bulk groups."""
    store_u64(entry + F.THREAD, thread)
    store_u32(entry + F.GROUP, load_u32(thread + L.BULK_GROUPS))
    bulk.issue(entry, thread, block, launch)


@export("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_bulk_out(
    thread: int, block: int, launch: int, target: int, source: int, size: int, how: int, site: int
) -> None:
    """Start a copy from shared to global memory in the open bulk group; `how` as above."""
    if (target | source | size) & 15 or size <= 0:
        _refuse(thread, launch, L.K_BULK_SHAPE, site, 0, size)
        return
    entry = F.begin(block, launch, F.TO_GLOBAL, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    store_u32(entry + F.BYTES, size)
    store_u32(entry + F.REDUCE, (how >> 8) & 255)
    store_u32(entry + F.TYPE, (how >> 16) & 255)
    _set(entry, F.TARGET, target, 0)
    _set(entry, F.SOURCE, source, block)
    _in_group(entry, thread, block, launch)


@native
def _map(thread: int, block: int, launch: int, address: int, site: int) -> int:
    """Return the host address of a tensor map that makes sense, or 0."""
    out = F.scratch_of(block)
    info = 8 | L.READ << 16 | L.SCOPE_GPU << 20 | site << 24
    rt_access_generic(thread, block, launch, address, info, out)
    place = load_u64(out)
    rt_access_generic(thread, block, launch, address + L.T_BYTES - 8, info, out)
    if place == load_u64(launch + L.SCRATCH) or load_u64(out) == load_u64(launch + L.SCRATCH):
        return 0
    if address & 63 or not T.is_valid(place):
        _refuse(thread, launch, L.K_TENSOR_MAP, site, address & 63, address)
        return 0
    return int(place)


@native
def _tile(entry: int, thread: int, place: int, axes: int, site: int, launch: int) -> bool:
    """Take the tensor map and the coordinates (left in the thread's record) into an entry."""
    copy_bytes(entry + F.MAP, place, L.T_BYTES)
    if load_u32(place + L.T_RANK) + 1 != axes:
        _refuse(thread, launch, L.K_TENSOR_MAP, site, 64, axes)
        return False
    for axis in range(axes):
        value = load_u32(thread + L.TILE_AT + 4 * axis)
        store_u32(entry + F.COORDINATES + 4 * axis, value)
    store_u32(entry + F.FLAGS, F.TENSOR)
    store_u32(entry + F.BYTES, T.tile_bytes(place))
    return True


@export("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_tile_in(
    thread: int, block: int, launch: int, target: int, tensor: int, barrier: int, how: int,
    site: int,
) -> None:  # fmt: skip
    """Start a copy of a tile into shared memory; `how`: axes, from bit 8 the blocks to serve."""
    place = _map(thread, block, launch, tensor, site)
    if target & 127:
        _refuse(thread, launch, L.K_BULK_SHAPE, site, 2, target)
    if place == 0 or target & 127:
        return
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    size *= load_u32(launch + L.CLUSTER_DIM + 8)
    mask = how >> 8
    if mask == 0:
        _tile_to(thread, block, launch, target, place, barrier, how & 255, site)
        return
    low = L.RANK_UNIT - 1
    for rank in range(16):
        if (mask >> rank) & 1 == 0:
            continue
        if rank >= size:
            _refuse(thread, launch, L.K_BULK_SHAPE, site, 3, mask)
            return
        at = (rank + 1) * L.RANK_UNIT
        window = barrier & ~((1 << 32) - 1)
        _tile_to(
            thread, block, launch, target & low | at, place, window | barrier & low | at,
            how & 255, site,
        )  # fmt: skip


@native
def _tile_to(
    thread: int, block: int, launch: int, target: int, place: int, barrier: int, axes: int,
    site: int,
) -> None:  # fmt: skip
    owner = owner_of(block, launch, target)
    found = find(thread, block, launch, barrier, L.ATOMIC, site)
    if found == 0:
        return
    if owner == 0 or load_u64(found + L.M_BLOCK) != owner:
        _refuse(thread, launch, L.K_BULK_SHAPE, site, 1, target)
        return
    entry = F.begin(owner, launch, F.TO_SHARED, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    if not _tile(entry, thread, place, axes, site, launch):
        F.end(owner, entry)
        return
    _set(entry, F.TARGET, target, owner)
    _to_object(entry, thread, block, launch, found)


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_tile_out(
    thread: int, block: int, launch: int, tensor: int, source: int, how: int, site: int
) -> None:
    """Start a copy of a tile to global memory in the open bulk group; `how`: axes, reduction."""
    place = _map(thread, block, launch, tensor, site)
    if source & 127:
        _refuse(thread, launch, L.K_BULK_SHAPE, site, 2, source)
    if place == 0 or source & 127:
        return
    entry = F.begin(block, launch, F.TO_GLOBAL, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    if not _tile(entry, thread, place, how & 255, site, launch):
        F.end(block, entry)
        return
    store_u32(entry + F.REDUCE, (how >> 8) & 255)
    store_u32(entry + F.TYPE, _reduced_type(load_u32(place + L.T_TYPE)))
    _set(entry, F.SOURCE, source, block)
    _in_group(entry, thread, block, launch)


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


@export("void(int64)")
def rt_bulk_commit(thread: int) -> None:
    """Close the open bulk group."""
    store_u32(thread + L.BULK_GROUPS, load_u32(thread + L.BULK_GROUPS) + 1)


@export("void(int64, int64, int64, int64, int64)")
def rt_bulk_wait(thread: int, block: int, launch: int, pending: int, read: int) -> None:
    """Let all bulk groups but the last `pending` land; `read`: only their sources are free."""
    groups = load_u32(thread + L.BULK_GROUPS)
    while True:
        entry = _oldest(block, thread, groups - pending, read)
        if entry == 0:
            return
        bulk.land_outward(entry, thread, block, launch, 1 - read)
        if read == 0:
            F.end(block, entry)


@native
def _oldest(block: int, thread: int, before: int, read: int) -> int:
    """Return the first copy of a thread in groups before a number that still has to land."""
    best = chosen = 0
    if load_u32(block + L.ASYNC_COUNT) == 0:
        return 0
    for index in range(F.ENTRIES):
        entry = F.entry_at(block, index)
        if load_u32(entry + F.STATE) != F.TO_GLOBAL or load_u64(entry + F.THREAD) != thread:
            continue
        if load_u32(entry + F.GROUP) >= before:
            continue
        if read and load_u32(entry + F.FLAGS) & F.DONE:
            continue
        if chosen == 0 or load_u32(entry + F.NUMBER) < best:
            best, chosen = load_u32(entry + F.NUMBER), entry
    return int(chosen)


@native
def finish(block: int, launch: int) -> None:
    """Say what a block that ends leaves in flight, and let its copies to global memory land."""
    if load_u64(block + L.ASYNC) == 0 or load_u32(block + L.ASYNC_COUNT) == 0:
        return
    for index in range(F.ENTRIES):
        entry = F.entry_at(block, index)
        state = load_u32(entry + F.STATE)
        if state == 0:
            continue
        thread, site = load_u64(entry + F.THREAD), load_u32(entry + F.SITE)
        issuer = load_u32(entry + F.ISSUER)
        if state == F.TO_GLOBAL:
            if load_u32(entry + F.FLAGS) & F.DONE == 0:
                report_pair(launch, L.K_LEFT_READING, site, issuer, 0, 0xFFFFFFFF, issuer)
            bulk.land_outward(entry, thread, block, launch, 1)
        elif state != F.COPIES:
            report_pair(launch, L.K_LEFT_BEHIND, site, issuer, 0, 0xFFFFFFFF, issuer)
        F.end(block, entry)
