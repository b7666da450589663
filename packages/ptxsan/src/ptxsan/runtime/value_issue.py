"""st.async and red.async: a value for shared memory of the cluster, counted by an mbarrier there.

The bytes are marked until the operation lands: nobody may touch what a store will write, atomics
alone what reductions are under way to. PTX ISA, st.async and red.async.
"""

from __future__ import annotations

from ptxsan.runtime import bulk
from ptxsan.runtime import inflight as F
from ptxsan.runtime import layout as L
from ptxsan.runtime.bulk_issue import attach, beside, owner_of
from ptxsan.runtime.memory import rt_access_shared
from ptxsan.runtime.native import export
from ptxsan.runtime.raw import load_u32, load_u64, store_u32, store_u64


@export("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_async_store(
    thread: int, block: int, launch: int, target: int, barrier: int, nbytes: int, how: int,
    site: int,
) -> int:  # fmt: skip
    """Start a store, or (bits 8 to 15 of `how`, type from 16) a reduction, of `nbytes`.

    Returns where its bytes, init flags and shadows are to be left: F.DATA, F.INIT, F.SHADOW
    behind it.
    """
    nowhere, place = load_u64(launch + L.SCRATCH), target & 0xFFFFFFFF
    owner = owner_of(block, launch, place)
    found = beside(thread, block, launch, place, owner, barrier, site, False)
    if found == 0:
        return nowhere
    reduces = (how >> 8) & 255
    out, kind = F.scratch_of(block), L.ATOMIC if reduces else L.WRITE
    info = nbytes | kind << 16 | L.SCOPE_CLUSTER << 20 | site << 24
    rt_access_shared(thread, block, launch, place, info, out)
    if load_u64(out) == nowhere:
        return nowhere
    kept, flag = (255, L.REDUCING) if reduces else (0, L.LANDING)
    bulk.mark(load_u64(out + 8), nbytes, kept, flag)
    entry = F.begin(owner, launch, F.VALUE, site, load_u32(thread + L.GID))
    if entry == 0:
        return nowhere
    store_u32(entry + F.BYTES, nbytes)
    store_u32(entry + F.REDUCE, reduces)
    store_u32(entry + F.TYPE, (how >> 16) & 255)
    store_u64(entry + F.TARGET, place & (L.RANK_UNIT - 1))
    store_u64(entry + F.TARGET_BLOCK, owner)
    attach(entry, thread, block, found)
    return entry
