"""Vector clocks: what each thread of a cluster knows of every other one, and of async copies.

Kept for kernels with mbarriers, bulk copies or clusters, where the barriers of order.py say too
little. A clock has, for each block of the cluster, one entry a thread and one for each mbarrier:
the copies that complete on an mbarrier are an agent of their own, known to those who waited for
it. Entry i is the latest time of i that is known. What a thread knows through barriers of its
whole block (BASE) and its warp (KNOWN) is added when it publishes.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import add_u32, copy_bytes, load_u32, load_u64, store_u32


@native
def rank_in(launch: int, linear: int, of: int) -> int:
    """Return the rank in its cluster of the block `linear` if block `of` is in it too, else -1."""
    cx, cy = load_u32(launch + L.CLUSTER_DIM), load_u32(launch + L.CLUSTER_DIM + 4)
    cz = load_u32(launch + L.CLUSTER_DIM + 8)
    if cx * cy * cz == 1:
        return 0 if linear == of else -1
    gx, gy = load_u32(launch + L.GRID_DIM), load_u32(launch + L.GRID_DIM + 4)
    x, y, z = linear % gx, linear // gx % gy, linear // (gx * gy)
    if (
        of % gx // cx != x // cx
        or of // gx % gy // cy != y // cy
        or of // (gx * gy) // cz != z // cz
    ):
        return -1
    return x % cx + cx * (y % cy + cy * (z % cz))


@native
def block_of(launch: int, threads: int, gid: int) -> int:
    """Return the block of a thread or of an mbarrier's agent."""
    total = load_u32(launch + L.TOTAL_THREADS)
    return (gid - total) // L.MOST_AGENTS if gid >= total else gid // threads


@native
def entry_of(launch: int, threads: int, of: int, gid: int) -> int:
    """Return the entry of a thread or agent in the clocks of block `of`'s cluster, or -1."""
    total = load_u32(launch + L.TOTAL_THREADS)
    inner = gid % threads
    if gid >= total:
        inner = threads + (gid - total) % L.MOST_AGENTS
    rank = rank_in(launch, block_of(launch, threads, gid), of)
    return rank if rank < 0 else rank * (threads + L.MOST_AGENTS) + inner


@native
def seen(thread: int, block: int, launch: int, gid: int, clock: int) -> bool:
    """Whether a thread's vector clock covers what `gid` did at `clock`."""
    row = load_u64(thread + L.CLOCKS)
    if row == 0:
        return False
    threads = load_u32(block + L.BLOCK_THREADS)
    entry = entry_of(launch, threads, load_u32(block + L.BLOCK_LINEAR), gid)
    return entry >= 0 and load_u32(row + 4 * entry) >= clock


@native
def seen_block(thread: int, block: int, launch: int, gid: int, clock: int) -> bool:
    """Whether a thread's vector clock covers every thread of the block of `gid` up to `clock`."""
    row = load_u64(thread + L.CLOCKS)
    if row == 0 or gid >= load_u32(launch + L.TOTAL_THREADS):
        return False
    threads = load_u32(block + L.BLOCK_THREADS)
    first = gid - gid % threads
    entry = entry_of(launch, threads, load_u32(block + L.BLOCK_LINEAR), first)
    if entry < 0:
        return False
    own = load_u32(thread + L.CLOCK_AT)
    for index in range(entry, entry + threads):
        if index != own and load_u32(row + 4 * index) < clock:
            return False
    return True


@native
def came_after(thread: int, block: int, launch: int, gid: int, clock: int) -> bool:
    """Whether thread `gid`, after its time `clock`, arrived at a barrier of the cluster.

    One that this thread has waited for. Reads whose values thread `gid` had used by then have
    ended, also where the arrival releases nothing.
    """
    gids, peers = load_u32(launch + L.BLOCK_GIDS), load_u64(block + L.BLOCK_PEERS)
    if peers == 0 or gid >= load_u32(launch + L.TOTAL_THREADS):
        return False
    rank = rank_in(launch, block_of(launch, gids, gid), load_u32(block + L.BLOCK_LINEAR))
    if rank < 0:
        return False
    home = load_u64(peers + 8 * rank)
    other = load_u64(home + L.BLOCK_THREAD0) + (gid % gids) * load_u32(home + L.BLOCK_STRIDE)
    for at in range(other + L.CLUSTER_TIMES, other + L.CLUSTER_TIMES + 16, 8):
        if 0 < load_u32(at) <= load_u32(thread + L.CLUSTER_SEEN) and load_u32(at + 4) >= clock:
            return True
    return False


@native
def join(to: int, source: int, words: int) -> None:
    """Add what one vector clock knows to another."""
    for index in range(words):
        value = load_u32(source + 4 * index)
        if value > load_u32(to + 4 * index):
            store_u32(to + 4 * index, value)


@native
def _raise(cell: int, value: int) -> None:
    if value > load_u32(cell):
        store_u32(cell, value)


@native
def publish(thread: int, block: int, to: int) -> None:
    """Add everything that a thread knows, its own time included, to a vector clock."""
    row = load_u64(thread + L.CLOCKS)
    if row == 0 or to == 0:
        return
    join(to, row, load_u32(thread + L.CLOCK_WORDS))
    first, before = to + 4 * load_u32(thread + L.CLOCK_FIRST), load_u32(thread + L.BASE) - 1
    threads = load_u32(block + L.BLOCK_THREADS)
    if before > 0:
        for index in range(threads):
            _raise(first + 4 * index, before)
    warp = load_u32(thread + L.TID) & ~31
    for lane in range(min(32, threads - warp)):
        _raise(first + 4 * (warp + lane), load_u32(thread + L.KNOWN + 4 * lane))
    _raise(to + 4 * load_u32(thread + L.CLOCK_AT), load_u32(thread + L.CLOCK))


@native
def tick(thread: int) -> None:
    """Let a thread's later accesses be later than what it published."""
    store_u32(thread + L.CLOCK, load_u32(thread + L.CLOCK) + 1)


@native
def learn(thread: int, block: int, source: int) -> None:
    """Add what a vector clock knows to what a thread knows."""
    row = load_u64(thread + L.CLOCKS)
    if row == 0 or source == 0:
        return
    join(row, source, load_u32(thread + L.CLOCK_WORDS))
    store_u32(block + L.CLOCKS_NEW, 1)
    store_u32(thread + L.PROXY_FRESH, 0)
    store_u32(thread + L.TENSOR_FRESH, 0)


@native
def share(block: int) -> None:
    """Let every thread of a block know what any of them knows."""
    rows, words = load_u64(block + L.BLOCK_CLOCKS), load_u32(block + L.BLOCK_WORDS)
    if rows == 0 or load_u32(block + L.CLOCKS_NEW) == 0:
        return
    threads = load_u32(block + L.BLOCK_THREADS)
    for index in range(1, threads):
        join(rows, rows + 4 * words * index, words)
    for index in range(1, threads):
        copy_bytes(rows + 4 * words * index, rows, 4 * words)
    store_u32(block + L.CLOCKS_NEW, 0)


@native
def share_in_warp(thread0: int, stride: int, mask: int) -> None:
    """Let the lanes of a mask know what any of them knows of others."""
    first = -1
    for lane in range(32):
        if (mask >> lane) & 1:
            row = load_u64(thread0 + lane * stride + L.CLOCKS)
            if row == 0:
                return
            words = load_u32(thread0 + lane * stride + L.CLOCK_WORDS)
            if first < 0:
                first = row
            else:
                join(first, row, words)
    for lane in range(32):
        if (mask >> lane) & 1:
            row = load_u64(thread0 + lane * stride + L.CLOCKS)
            if row != first:
                copy_bytes(row, first, 4 * load_u32(thread0 + lane * stride + L.CLOCK_WORDS))
            store_u32(thread0 + lane * stride + L.PROXY_FRESH, 0)


@native
def snapshot(thread: int, block: int, launch: int) -> int:
    """Return a copy of what a thread knows, for a release through an atomic; 1: no room."""
    if load_u64(thread + L.CLOCKS) == 0:
        return 0
    number = add_u32(launch + L.SNAPSHOT_COUNT, 1)
    if number >= load_u32(launch + L.SNAPSHOT_LIMIT):
        store_u32(launch + L.LENIENT, 1)
        return 1
    place = load_u64(launch + L.SNAPSHOTS) + 4 * load_u32(thread + L.CLOCK_WORDS) * number
    publish(thread, block, place)
    return int(place)


@native
def culprit(launch: int, block: int, gid: int) -> int:
    """Return the thread of a record; of an mbarrier's agent, the last one that issued a copy."""
    total = load_u32(launch + L.TOTAL_THREADS)
    if gid < total or load_u64(block + L.MBARRIERS) == 0:
        return gid
    linear, number = (gid - total) // L.MOST_AGENTS, (gid - total) % L.MOST_AGENTS
    owner, peers = block, load_u64(block + L.BLOCK_PEERS)
    if peers != 0:
        size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
        for rank in range(size * load_u32(launch + L.CLUSTER_DIM + 8)):
            if load_u32(load_u64(peers + 8 * rank) + L.BLOCK_LINEAR) == linear:
                owner = load_u64(peers + 8 * rank)
    if number >= L.MOST_MBARRIERS:
        pipe = load_u64(owner + L.TENSOR) + L.TM_PIPES + 8 * (number - L.MOST_MBARRIERS)
        return load_u32(pipe) - 1
    return load_u32(load_u64(owner + L.MBARRIERS) + number * L.M_RECORD + L.M_ISSUER)
