"""malloc and free of device code: an arena that only grows, so that what is freed is never reused.

The heap's table has an allocation record for each block; its regions of addresses begin at number
HEAP_FIRST. Blocks of a kernel that calls these functions never run at once (interplay.py).
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import export, native
from ptxsan.runtime.places import region_of
from ptxsan.runtime.raw import load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report

_FULL = 9  # why the launch is inconclusive


@native
def of_region(launch: int, index: int) -> int:
    """Return the record of a region of addresses that malloc gave out; 0 if it is none."""
    heap = load_u64(launch + L.HEAP)
    number = index - L.HEAP_FIRST
    if heap == 0 or number < 0 or number >= load_u32(heap + L.H_COUNT):
        return 0
    return load_u64(heap + L.H_TABLE) + number * L.A_RECORD


@export("int64(int64, int64)")
def rt_malloc(launch: int, nbytes: int) -> int:
    """Return the address of new memory; 0 where the heap that CUDA grants has no room."""
    heap = load_u64(launch + L.HEAP)
    size = (nbytes + 15) // 16 * 16
    live = load_u64(heap + L.H_LIVE)
    if nbytes <= 0 or live + size > load_u64(heap + L.H_MOST):
        return 0
    index, used = load_u32(heap + L.H_COUNT), load_u64(heap + L.H_USED)
    if index >= load_u32(heap + L.H_LIMIT) or used + size > load_u64(heap + L.H_BYTES):
        store_u32(launch + L.OVERFLOW, _FULL)
        return 0
    record = load_u64(heap + L.H_TABLE) + index * L.A_RECORD
    region = (L.FIRST_REGION + L.HEAP_FIRST + index) << L.REGION_SHIFT
    base = region + (1 << (L.REGION_SHIFT - 1))
    shift, meta = load_u32(heap + L.H_SHIFT), load_u64(heap + L.H_META)
    store_u64(record + L.A_BASE, base)
    store_u64(record + L.A_BYTES, nbytes)
    store_u64(record + L.A_DATA, load_u64(heap + L.H_DATA) + used)
    store_u64(record + L.A_INIT, load_u64(heap + L.H_INIT) + used)
    store_u64(record + L.A_SHADOW, load_u64(heap + L.H_SHADOW) + 4 * (used >> 1))
    store_u64(record + L.A_META, meta + 16 * (used >> shift) if meta else 0)
    store_u32(record + L.A_FLAGS, 0)
    store_u32(record + L.A_SHIFT, shift)
    store_u32(heap + L.H_COUNT, index + 1)
    store_u64(heap + L.H_USED, used + size)
    store_u64(heap + L.H_LIVE, live + size)
    return base


@export("void(int64, int64, int64, int64)")
def rt_free(thread: int, launch: int, address: int, site: int) -> None:
    """Give memory back; what malloc did not return, and what is free already, is at fault."""
    if address == 0:
        return
    record = of_region(launch, region_of(address))
    if record == 0 or load_u64(record + L.A_BASE) != address:
        report(launch, L.K_BAD_FREE, site, load_u32(thread + L.GID), address)
        return
    if load_u32(record + L.A_FLAGS) & L.A_FREED:
        report(launch, L.K_FREED_TWICE, site, load_u32(thread + L.GID), address)
        return
    store_u32(record + L.A_FLAGS, L.A_FREED)
    heap = load_u64(launch + L.HEAP)
    size = (load_u64(record + L.A_BYTES) + 15) // 16 * 16
    store_u64(heap + L.H_LIVE, load_u64(heap + L.H_LIVE) - size)
