"""cp.async: a copy from global to shared memory arrives as late as the program lets it.

At its start the target counts as written by this thread and holds nothing defined; the bytes come
when the thread waits for the copy's group, or ends, and count as a second write then. So a read in
between races, and reads what nobody wrote. Whoever touches the bytes in between is at fault too
where barriers put it after the start and before the wait: nothing but the wait says when they come.

Lanes that copy the same bytes to one place by one statement do no harm: of two writes that nothing
orders a later read may see either (PTX ISA, memory consistency model: coherence order is partial).
The bytes are compared where a copy starts or lands on those of one that has landed, so of two
copies the later one to land says whether they are the same.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.memory import rt_access_global, rt_access_shared
from ptxsan.runtime.native import export, native
from ptxsan.runtime.order import NOT
from ptxsan.runtime.races import gid_of, order_of, site_of
from ptxsan.runtime.raw import (
    copy_bytes,
    fill,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_u16,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reports import report_pair, rt_same_value


@native
def _entry(thread: int, launch: int, number: int) -> int:
    ring = thread + load_u32(launch + L.COPY_OFFSET)
    slot = number & (load_u32(launch + L.COPY_SLOTS) - 1)
    return ring + L.COPY_SCRATCH + slot * L.COPY_RECORD


@export("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_copy_start(
    thread: int, block: int, launch: int, target: int, source: int, size: int, given: int,
    site: int,
) -> None:  # fmt: skip
    """Start a copy of `size` bytes, of which `given` come from global memory, the rest are zero."""
    head, tail = load_u32(thread + L.COPIES), load_u32(thread + L.COPIES + 4)
    if tail - head >= load_u32(launch + L.COPY_SLOTS):
        store_u32(launch + L.OVERFLOW, 3)
        return
    out = thread + load_u32(launch + L.COPY_OFFSET)
    entry = _entry(thread, launch, tail)
    store_u64(entry, target)
    given = min(given, size)
    if given > 0:
        info = given | L.READ << 16 | L.SCOPE_GPU << 20 | site << 24
        rt_access_global(thread, block, launch, source, info, out)
        store_u64(entry + 8, load_u64(out))
        store_u64(entry + 16, load_u64(out + 8))
        store_u64(entry + 24, load_u64(out + 16))
    store_u32(entry + 32, load_u32(thread + L.GROUPS))
    store_u16(entry + 36, size)
    store_u16(entry + 38, given)
    store_u32(entry + 40, site)
    info = size | L.WRITE << 16 | L.SCOPE_GPU << 20 | site << 24
    raced = rt_access_shared(thread, block, launch, target, info, out)
    if raced:
        same = _brings_what_is_there(entry, load_u64(out), load_u64(out + 8))
        rt_same_value(launch, raced, same)
    fill(load_u64(out + 8), size, 0)
    store_u32(entry + 44, load_u64(out + 8) - load_u64(block + L.SHARED_INIT))
    store_u32(thread + L.COPIES + 4, tail + 1)


@export("void(int64)")
def rt_copy_commit(thread: int) -> None:
    """Close the open group of copies."""
    store_u32(thread + L.GROUPS, load_u32(thread + L.GROUPS) + 1)


@export("void(int64, int64, int64, int64)")
def rt_copy_wait(thread: int, block: int, launch: int, pending: int) -> None:
    """Let all groups but the last `pending` arrive; -1: every copy, in a group or not."""
    groups = load_u32(thread + L.GROUPS)
    if pending < 0:
        groups += 1
        pending = 0
        store_u32(thread + L.GROUPS, groups)
    head, tail = load_u32(thread + L.COPIES), load_u32(thread + L.COPIES + 4)
    while head < tail:
        entry = _entry(thread, launch, head)
        if load_u32(entry + 32) + pending >= groups:
            break
        _land(thread, block, launch, entry)
        head += 1
    store_u32(thread + L.COPIES, head)


@native
def land_until(thread: int, block: int, launch: int, tail: int) -> None:
    """Let the copies that were started before number `tail` arrive."""
    head = load_u32(thread + L.COPIES)
    while head < tail:
        _land(thread, block, launch, _entry(thread, launch, head))
        head += 1
    store_u32(thread + L.COPIES, max(head, load_u32(thread + L.COPIES)))


@native
def _land(thread: int, block: int, launch: int, entry: int) -> None:
    out = thread + load_u32(launch + L.COPY_OFFSET)
    size, given, site = load_u16(entry + 36), load_u16(entry + 38), load_u32(entry + 40)
    _check_meanwhile(thread, block, launch, entry, size)
    info = size | L.WRITE << 16 | L.SCOPE_GPU << 20 | site << 24
    raced = rt_access_shared(thread, block, launch, load_u64(entry), info, out)
    data, init, shadow = load_u64(out), load_u64(out + 8), load_u64(out + 16)
    if raced:
        rt_same_value(launch, raced, _brings_what_is_there(entry, data, init))
    if given > 0:
        copy_bytes(data, load_u64(entry + 8), given)
        copy_bytes(init, load_u64(entry + 16), given)
        copy_bytes(shadow, load_u64(entry + 24), 2 * given)
    if given < size:
        fill(data + given, size - given, 0)
        fill(init + given, size - given, 1)
        fill(shadow + 2 * given, 2 * (size - given), 0)


@native
def _brings_what_is_there(entry: int, data: int, init: int) -> int:
    """Return 1 where a copy brings the bytes that lie at `data`, 0 else.

    Bytes that another copy still has to bring differ from none.
    """
    given = load_u16(entry + 38)
    for index in range(load_u16(entry + 36)):
        byte = load_u8(load_u64(entry + 8) + index) if index < given else 0
        if load_u8(init + index) & 1 and byte != load_u8(data + index):
            return 0
    return 1


@native
def _check_meanwhile(thread: int, block: int, launch: int, entry: int, size: int) -> None:
    """Report who has touched the bytes of a copy that lands, since it was started.

    Only those whose access is ordered before this wait: what is not races with the landing.
    """
    meta, offset = load_u64(block + L.SHARED_META), load_u32(entry + 44)
    if meta == 0 or offset >= load_u32(launch + L.SHARED_BYTES):  # the copy went nowhere
        return
    init, shift = load_u64(block + L.SHARED_INIT), load_u32(launch + L.SHARED_SHIFT)
    for at in range(offset, offset + size):
        place = meta + 16 * (at >> shift)
        written, touched, kind = load_u64(place), load_u64(place + 8), L.READ
        own = gid_of(written) == load_u32(thread + L.GID) and load_u8(init + at) & 1 == 0
        if touched == 0 and not own:
            touched, kind = written, L.WRITE
        if touched == 0 or order_of(touched, thread, block, launch) == NOT:
            continue
        by = site_of(touched) << load_u32(launch + L.SITE_SHIFT)
        where = (load_u64(entry) & (L.RANK_UNIT - 1)) + at - offset
        copy, me = load_u32(entry + 40), load_u32(thread + L.GID)
        data, here = load_u64(block + L.SHARED_DATA) + offset, init + offset
        same = kind == L.WRITE and _brings_what_is_there(entry, data, here) != 0
        what = L.K_SAME_VALUE if same else L.K_IN_FLIGHT
        found = report_pair(launch, what, by, gid_of(touched), where, copy, me)
        if found >= 0:
            record = load_u64(launch + L.FINDINGS) + found * L.F_RECORD
            store_u32(record + L.F_SPACE, L.S_SHARED)
            store_u32(record + L.F_BYTES, size)
            store_u32(record + L.F_WHAT, kind)
            store_u32(record + L.F_EXTRA, L.LANDING)
            store_u32(record + L.F_COPY_WAIT, load_u32(thread + L.COPY_WAIT))
        return
