"""fence.proxy.async: ordinary writes must be fenced before the asynchronous proxy reads them.

PTX ISA, "Memory Consistency Model: Proxies". Fenced is what its writer fenced after the write and
before what the issuing thread waited for, what the issuing thread knew when it fenced, and what the
block knew by a barrier when any of its threads fenced. The rule is lenient where a fence of a third
thread is on the way, and where the writer has fenced more often since than is kept.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.memory import shared_variable
from ptxsan.runtime.native import export, native
from ptxsan.runtime.order import NOT, knows
from ptxsan.runtime.races import clock_of, gid_of, site_of
from ptxsan.runtime.raw import load_u32, load_u64, store_u32
from ptxsan.runtime.reports import report_pair

_FENCES = 6  # of each thread that are kept


@export("void(int64, int64)")
def rt_fence_proxy(thread: int, block: int) -> None:
    """Fence this thread's writes, and those it knows of, for the asynchronous proxy."""
    for place in range(_FENCES - 1, 0, -1):
        earlier = load_u32(thread + L.PROXY_FENCES + 4 * (place - 1))
        store_u32(thread + L.PROXY_FENCES + 4 * place, earlier)
    store_u32(thread + L.PROXY_FENCES, load_u32(thread + L.CLOCK))
    store_u32(thread + L.PROXY_FRESH, 1)
    store_u32(thread + L.CLOCK, load_u32(thread + L.CLOCK) + 1)
    base = max(load_u32(block + L.PROXY_BASE), load_u32(thread + L.BASE))
    store_u32(block + L.PROXY_BASE, base)


@native
def _is_fenced(
    thread: int, block: int, launch: int, owner: int, writer: int, clock: int
) -> bool:  # fmt: skip
    if clock < load_u32(owner + L.PROXY_BASE):
        return True
    if load_u32(thread + L.PROXY_FRESH) and writer != load_u32(thread + L.GID):
        return True
    index = writer - load_u32(owner + L.FIRST_GID)
    if not 0 <= index < load_u32(owner + L.BLOCK_THREADS):
        return True  # another block's thread, or a copy: that is the asynchronous proxy itself
    other = load_u64(owner + L.BLOCK_THREAD0) + index * load_u32(owner + L.BLOCK_STRIDE)
    for place in range(_FENCES):
        fence = load_u32(other + L.PROXY_FENCES + 4 * place)
        if fence < clock:
            return False
        if knows(thread, block, launch, writer, fence) != NOT:
            return True
    return True


@native
def check_fenced(
    thread: int, block: int, launch: int, owner: int, place: int, site: int
) -> None:  # fmt: skip
    """Report ordinary writes to 16 bytes of shared memory that no proxy fence followed."""
    meta, shift = load_u64(owner + L.SHARED_META), load_u32(launch + L.SHARED_SHIFT)
    if meta == 0:
        return
    best = shared_variable(launch, place)
    if best == 0:
        return
    offset = load_u32(best + L.V_DATA) + place - load_u32(best + L.V_ADDRESS)
    first = meta + 16 * (offset >> shift)
    for cell in range(first, first + 16 * (16 >> shift), 16):
        written = load_u64(cell)
        if written == 0:
            continue
        if _is_fenced(thread, block, launch, owner, gid_of(written), clock_of(written)):
            continue
        other = site_of(written) << load_u32(launch + L.SITE_SHIFT)
        gid = load_u32(thread + L.GID)
        index = report_pair(launch, L.K_PROXY, site, gid, place, other, gid_of(written))
        if index >= 0:
            record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
            store_u32(record + L.F_SPACE, L.S_SHARED)
            store_u32(record + L.F_BYTES, 16)
        return
