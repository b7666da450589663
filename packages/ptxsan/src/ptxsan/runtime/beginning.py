"""A context is set up for a block: fresh threads, fresh shared memory, its place in the grid."""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import fill, load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.together import begin_knowing, enter, part_of
from ptxsan.runtime.waiting import FIRST_PATIENCE


@native
def _begin(block: int, launch: int, linear: int) -> None:
    """Set up a context for a block: fresh threads, fresh shared memory.

    Of several launches that run at once, blocks are numbered one launch after the other.
    """
    inside = linear
    if load_u32(launch + L.PART_COUNT):
        inside = linear - _begin_part(block, launch, linear)
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first = load_u64(block + L.BLOCK_THREAD0)
    width, height = load_u32(launch + L.GRID_DIM), load_u32(launch + L.GRID_DIM + 4)
    store_u32(block + L.BLOCK_LINEAR, linear)
    store_u32(block + L.BLOCK_X, inside % width)
    store_u32(block + L.BLOCK_X + 4, inside // width % height)
    store_u32(block + L.BLOCK_X + 8, inside // (width * height))
    gids = load_u32(launch + L.BLOCK_GIDS)
    store_u32(block + L.FIRST_GID, linear * gids)
    store_u32(block + L.LIVE, threads)
    store_u32(block + L.BLOCK_STATE, 0)
    store_u32(block + L.PUBLISHED, 0)
    store_u32(block + L.PUBLISHED_SYS, 0)
    store_u64(block + L.KNOWN_BEFORE, 0)  # and NONE_LEFT
    store_u32(block + L.BLOCK_FAR, 0)
    store_u32(block + L.KNOWS_ALL, 0)
    store_u32(block + L.LAST_RELEASE, 0)
    fill(block + L.STATES, L.DEVICE - L.STATES, 0)
    store_u32(block + L.PATIENCE, min(FIRST_PATIENCE, load_u32(launch + L.MOST_FUEL)))
    store_u64(block + L.RANDOM, load_u64(launch + L.SEED) ^ (linear + 1) * 0x9E3779B1)
    fill(block + L.ARRIVALS, 128, 0)
    _begin_objects(block)
    size = load_u32(launch + L.SHARED_BYTES)
    fill(load_u64(block + L.SHARED_INIT), size, 0)
    fill(load_u64(block + L.SHARED_DATA), size, 0xFF)
    meta = load_u64(block + L.SHARED_META)
    if meta != 0:
        fill(meta, 16 * ((size >> load_u32(launch + L.SHARED_SHIFT)) + 1), 0)
    dim_x, dim_y = load_u32(launch + L.BLOCK_DIM), load_u32(launch + L.BLOCK_DIM + 4)
    local, local_bytes = load_u32(launch + L.LOCAL_OFFSET), load_u32(launch + L.LOCAL_BYTES)
    for index in range(threads):
        thread = first + index * stride
        fill(thread, L.EXCHANGE, 0)
        if local_bytes:
            fill(thread + local, 2 * local_bytes, 0)
        store_u32(thread + L.TID, index)
        store_u32(thread + L.TID_X, index % dim_x)
        store_u32(thread + L.TID_X + 4, index // dim_x % dim_y)
        store_u32(thread + L.TID_X + 8, index // (dim_x * dim_y))
        store_u32(thread + L.GID, linear * gids + index)
        store_u32(thread + L.CLOCK, 1)
        store_u32(thread + L.BASE, 1)
        _begin_clocks(thread, block, index)
    if load_u32(launch + L.PART_COUNT):
        begin_knowing(block, launch, enter(launch, load_u32(block + L.PART)))


@native
def _begin_part(block: int, launch: int, linear: int) -> int:
    """Set up what a block has of its launch, one of several; return that one's first block."""
    number = part_of(launch, linear)
    part = enter(launch, number)
    device = load_u32(part + L.R_DEVICE)
    threads = load_u32(launch + L.BLOCK_DIM) * load_u32(launch + L.BLOCK_DIM + 4)
    store_u32(block + L.BLOCK_THREADS, threads * load_u32(launch + L.BLOCK_DIM + 8))
    store_u32(block + L.PART, number)
    store_u32(block + L.DEVICE, device)
    store_u32(block + L.DENIED, L.A_FREED | L.A_CLOSED << device)
    return load_u32(part + L.R_FIRST)


@native
def _begin_clocks(thread: int, block: int, index: int) -> None:
    """Point a thread to its vector clock, which knows nothing yet."""
    rows, words = load_u64(block + L.BLOCK_CLOCKS), load_u32(block + L.BLOCK_WORDS)
    if rows == 0:
        return
    row = rows + 4 * words * index
    fill(row, 4 * words, 0)
    first = load_u32(block + L.CLUSTER_RANK) * (load_u32(block + L.BLOCK_THREADS) + L.MOST_AGENTS)
    store_u64(thread + L.CLOCKS, row)
    store_u32(thread + L.CLOCK_WORDS, words)
    store_u32(thread + L.CLOCK_FIRST, first)
    store_u32(thread + L.CLOCK_AT, first + index)


@native
def _begin_objects(block: int) -> None:
    """Forget the mbarriers, copies, tensor memory and cluster barriers of the block before."""
    words = 4 * load_u32(block + L.BLOCK_WORDS)
    if load_u64(block + L.NAMED_CLOCKS):
        fill(load_u64(block + L.NAMED_CLOCKS), 16 * words, 0)
        fill(load_u64(block + L.CLUSTER_CLOCKS), 2 * words, 0)
        fill(load_u64(block + L.REMOTE), 2 * words, 0)
    fill(block + L.CLUSTER_ARRIVED, 16, 0)
    store_u32(block + L.CLOCKS_NEW, 0)
    store_u32(block + L.PROXY_BASE, 0)
    store_u64(block + L.ASYNC_COUNT, 0)
    store_u32(block + L.ASYNC_TOP, 0)
    tensor, threads = load_u64(block + L.TENSOR), load_u32(block + L.BLOCK_THREADS)
    if tensor:
        fill(tensor + L.TM_INIT, L.TM_LOADS - L.TM_INIT + 4 * L.TM_SITES * threads, 0)
    objects = load_u64(block + L.MBARRIERS)
    if objects:
        for index in range(L.MOST_MBARRIERS):
            store_u32(objects + index * L.M_RECORD + L.M_PLACE, 0)
            store_u32(objects + index * L.M_RECORD + L.M_CLOCK, 0)


@native
def linear_of(launch: int, unit: int, rank: int) -> int:
    """Return the linear index of a block from its cluster and its rank there."""
    if load_u32(launch + L.PART_COUNT):
        return unit
    cx, cy = load_u32(launch + L.CLUSTER_DIM), load_u32(launch + L.CLUSTER_DIM + 4)
    cz = load_u32(launch + L.CLUSTER_DIM + 8)
    gx, gy = load_u32(launch + L.GRID_DIM), load_u32(launch + L.GRID_DIM + 4)
    ux, uy = gx // cx, gy // cy
    x = unit % ux * cx + rank % cx
    y = unit // ux % uy * cy + rank // cx % cy
    z = unit // (ux * uy) * cz + rank // (cx * cy)
    return x + gx * (y + gy * z)


@native
def start_cluster(context: int, size: int, launch: int, unit: int) -> None:
    for rank in range(size):
        block = context + rank * L.BLOCK_BYTES
        store_u32(block + L.CLUSTER_RANK, rank)
        _begin(block, launch, linear_of(launch, unit, rank))
