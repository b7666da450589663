"""clusterlaunchcontrol: a block takes the place of a cluster that has not begun.

PTX ISA, clusterlaunchcontrol.try_cancel and query_cancel. The response is four words of 32 bits:
the first block of the cluster that will not begin, and whether there was one. It comes as the
bytes of st.async do, at an mbarrier of each block that gets it.
"""

from __future__ import annotations

from ptxsan.runtime import inflight as F
from ptxsan.runtime import layout as L
from ptxsan.runtime.beginning import linear_of
from ptxsan.runtime.bulk_issue import in_block
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import add_u32, fill, load_u32, load_u64, store_u32
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.value_issue import rt_async_store

_BYTES = 16


@native
def _next(block: int, launch: int) -> int:
    """Return the first block, in its launch, of the next cluster to begin, which now will not; -1.

    Of several launches at once, of the block's own.
    """
    if load_u32(launch + L.PART_COUNT):
        part = load_u64(launch + L.PARTS) + load_u32(block + L.PART) * L.R_RECORD
        begun = load_u32(part + L.R_NEXT)
        if begun >= load_u32(part + L.R_BLOCKS):
            return -1
        store_u32(part + L.R_NEXT, begun + 1)
        store_u32(part + L.R_DONE, load_u32(part + L.R_DONE) + 1)
        unit = load_u32(load_u64(launch + L.ORDER) + 4 * (load_u32(part + L.R_FIRST) + begun))
        return unit - load_u32(part + L.R_FIRST)
    number = add_u32(launch + L.NEXT, 1)
    if number >= load_u32(launch + L.UNITS):
        return -1
    return linear_of(launch, load_u32(load_u64(launch + L.ORDER) + 4 * number), 0)


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_take_cluster(
    thread: int, block: int, launch: int, target: int, barrier: int, several: int, site: int
) -> None:
    """Ask for a cluster; the response goes to this block, or (`several`) to all of its cluster."""
    if load_u32(block + L.NONE_LEFT):
        gid = load_u32(thread + L.GID)
        report_pair(launch, L.K_NONE_LEFT, site, gid, 0, 0xFFFFFFFF, gid)
    found = _next(block, launch)
    linear = max(found, 0)
    width, height = load_u32(launch + L.GRID_DIM), load_u32(launch + L.GRID_DIM + 4)
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    size *= load_u32(launch + L.CLUSTER_DIM + 8)
    for rank in range(size if several else 1):
        to = in_block(target, rank) if several else target
        on = in_block(barrier, rank) if several else barrier
        entry = rt_async_store(thread, block, launch, to, on, _BYTES, 0, site)
        fill(entry + F.INIT, _BYTES, 1)
        fill(entry + F.SHADOW, 2 * _BYTES, 0)
        store_u32(entry + F.DATA, linear % width)
        store_u32(entry + F.DATA + 4, linear // width % height)
        store_u32(entry + F.DATA + 8, linear // (width * height))
        store_u32(entry + F.DATA + 12, 1 if found >= 0 else 0)
