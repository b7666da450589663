"""What the instructions of bulk copies do: start, commit, wait, and the end of a block.

Sizes and addresses are multiples of 16 bytes (PTX ISA, cp.async.bulk); whoever breaks that is told
so and nothing is moved. Tiles: tile_issue.py.
"""

from __future__ import annotations

from ptxsan.runtime import bulk
from ptxsan.runtime import inflight as F
from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import publish, tick
from ptxsan.runtime.mbarriers import find
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report_pair

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
def refuse(thread: int, launch: int, kind: int, site: int, what: int, number: int) -> None:
    gid = load_u32(thread + L.GID)
    index = report_pair(launch, kind, site, gid, number, 0xFFFFFFFF, gid)
    if index >= 0:
        store_u32(load_u64(launch + L.FINDINGS) + index * L.F_RECORD + L.F_EXTRA, what)


@native
def set_place(entry: int, which: int, place: int, owner: int) -> None:
    """Set the source or the target of a copy: a global address, or a shared one with its block."""
    store_u64(entry + which, place & (L.RANK_UNIT - 1) if owner else place)
    store_u64(entry + which + 16, owner)


@native
def attach(entry: int, thread: int, block: int, target: int) -> None:
    """Let an operation complete on an mbarrier; its waiters know what the issuer knew."""
    store_u32(target + L.M_ISSUER, load_u32(thread + L.GID))
    F.set_object(entry, target)
    publish(thread, block, load_u64(target + L.M_OPEN))
    tick(thread)


@native
def beside(
    thread: int, block: int, launch: int, target: int, owner: int, barrier: int, site: int,
    pair: bool,
) -> int:  # fmt: skip
    """Return the mbarrier that an operation on `target` completes on; 0 if it is refused.

    It has to lie in the block that owns the target, or (`pair`) in that or the other of its pair.
    """
    found = find(thread, block, launch, barrier, L.ATOMIC, site)
    if found == 0:
        return 0
    home = load_u64(found + L.M_BLOCK)
    if pair and owner != 0 and home != owner:
        near = load_u32(home + L.CLUSTER_RANK) ^ load_u32(owner + L.CLUSTER_RANK)
        home = owner if near == 1 else home
    if owner == 0 or home != owner:
        refuse(thread, launch, L.K_BULK_SHAPE, site, 1, target)
        return 0
    return found


@export("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_bulk_in(
    thread: int, block: int, launch: int, target: int, source: int, size: int, barrier: int,
    how: int, site: int,
) -> None:  # fmt: skip
    """Start a copy into shared memory: from global memory, or (bit 0 of `how`) from shared memory.

    Bits 8 to 15 of `how`: reduction; 16 to 23: element type; from 24: the blocks to serve, each at
    the same place of its memory and on the barrier at the same place (bit 1: several may be).
    """
    if (target | source | size) & 15 or size <= 0:
        refuse(thread, launch, L.K_BULK_SHAPE, site, 0, size)
        return
    if how & 2 == 0:
        _inward(thread, block, launch, target, source, size, barrier, how, site)
        return
    for rank in range(16):
        if (how >> 24 >> rank) & 1 and serves(thread, launch, how >> 24, rank, site):
            _inward(
                thread, block, launch, in_block(target, rank), source, size,
                in_block(barrier, rank), how, site,
            )  # fmt: skip


@native
def serves(thread: int, launch: int, mask: int, rank: int, site: int) -> bool:
    """Whether the cluster has a block that a mask names."""
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    if rank < size * load_u32(launch + L.CLUSTER_DIM + 8):
        return True
    refuse(thread, launch, L.K_BULK_SHAPE, site, 3, mask)
    return False


@native
def in_block(address: int, rank: int) -> int:
    """Return the address in another block's shared memory of what lies at the same place there."""
    low = L.RANK_UNIT - 1
    return address & ~_SHARED_MASK | address & low | (rank + 1) * L.RANK_UNIT


@native
def _inward(
    thread: int, block: int, launch: int, target: int, source: int, size: int, barrier: int,
    how: int, site: int,
) -> None:  # fmt: skip
    owner, across = owner_of(block, launch, target), how & 1
    found = beside(thread, block, launch, target, owner, barrier, site, False)
    if found == 0:
        return
    entry = F.begin(
        owner, launch, F.ACROSS if across else F.TO_SHARED, site, load_u32(thread + L.GID)
    )
    if entry == 0:
        return
    store_u32(entry + F.BYTES, size)
    store_u32(entry + F.REDUCE, (how >> 8) & 255)
    store_u32(entry + F.TYPE, (how >> 16) & 255)
    set_place(entry, F.TARGET, target, owner)
    set_place(entry, F.SOURCE, source, owner_of(block, launch, source) if across else 0)
    bulk.issue(entry, thread, block, launch)
    attach(entry, thread, block, found)


@native
def in_group(entry: int, thread: int, block: int, launch: int) -> None:
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
        refuse(thread, launch, L.K_BULK_SHAPE, site, 0, size)
        return
    entry = F.begin(block, launch, F.TO_GLOBAL, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    store_u32(entry + F.BYTES, size)
    store_u32(entry + F.REDUCE, (how >> 8) & 255)
    store_u32(entry + F.TYPE, (how >> 16) & 255)
    set_place(entry, F.TARGET, target, 0)
    set_place(entry, F.SOURCE, source, block)
    in_group(entry, thread, block, launch)


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
    for index in range(load_u32(block + L.ASYNC_TOP)):
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
    for index in range(load_u32(block + L.ASYNC_TOP)):
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
        elif state not in (F.COPIES, F.COMMIT):
            report_pair(launch, L.K_LEFT_BEHIND, site, issuer, 0, 0xFFFFFFFF, issuer)
        F.end(block, entry)
