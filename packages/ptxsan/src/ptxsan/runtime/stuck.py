"""When nobody of a cluster can run: waits that may time out do so, else it is a deadlock."""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report_pair

_PATIENCE = 3  # times that waits give up in a row before nothing will ever change


@native
def time_out(context: int, size: int) -> bool:
    """Let the waits of mbarrier.try_wait give up, unless that has changed nothing before."""
    changes = 0
    for rank in range(size):
        changes += load_u32(context + rank * L.BLOCK_BYTES + L.CHANGES)
    again = load_u32(context + L.TIMEOUTS)
    if load_u32(context + L.TIMEOUT_CHANGES) != changes & 0xFFFFFFFF:
        again = 0
    store_u32(context + L.TIMEOUT_CHANGES, changes)
    store_u32(context + L.TIMEOUTS, again + 1)
    if again >= _PATIENCE:
        return False
    found = False
    for rank in range(size):
        block = context + rank * L.BLOCK_BYTES
        first, stride = load_u64(block + L.BLOCK_THREAD0), load_u32(block + L.BLOCK_STRIDE)
        for index in range(load_u32(block + L.BLOCK_THREADS)):
            thread = first + index * stride
            if load_u32(thread + L.STATUS) == L.MBARRIER:
                store_u32(thread + L.STATUS, L.READY)
                store_u32(thread + L.TIMED_OUT, 1)
                found = True
    return found


@native
def may_be_over(target: int, phase: int) -> bool:
    """Whether a phase is complete, or copies that could complete it wait for somebody to ask."""
    if load_u32(target + L.M_PHASE) > phase:
        return True
    ready = load_u32(target + L.M_PENDING) <= load_u32(target + L.M_COPIES)
    return ready and load_u32(target + L.M_FLIGHT) != 0


@native
def report_object(thread: int, launch: int) -> None:
    """Report a thread that waits for an mbarrier, with what is missing there."""
    target, gid = load_u64(thread + L.WAIT_OBJECT), load_u32(thread + L.GID)
    place, site = load_u32(target + L.M_PLACE), load_u32(thread + L.WAIT_SITE)
    index = report_pair(launch, L.K_OBJECT_WAIT, site, gid, place, 0xFFFFFFFF, gid)
    if index < 0:
        return
    record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
    store_u32(record + L.F_SPACE, L.S_SHARED)
    store_u32(record + L.F_EXTRA, load_u32(target + L.M_PENDING))
    store_u32(record + L.F_BYTES, load_u32(target + L.M_PHASE))
    store_u64(record + L.F_GRANULE, load_u32(target + L.M_TX))


@native
def _who_loops(block: int) -> int:
    """Return a thread of a block that can run, one that accessed memory strongly first; or 0."""
    first, stride = load_u64(block + L.BLOCK_THREAD0), load_u32(block + L.BLOCK_STRIDE)
    found = 0
    for index in range(load_u32(block + L.BLOCK_THREADS)):
        thread = first + index * stride
        if load_u32(thread + L.STATUS) == L.EXITED:
            continue
        if load_u32(thread + L.STRONG_SPACE):
            return int(thread)
        if found == 0 and load_u32(thread + L.STATUS) == L.READY:
            found = thread
    return int(found)


@native
def report_waiting(contexts: int, room: int, group: int, size: int, launch: int) -> None:
    """Report a thread that waits for memory that nobody will change, and one of another block."""
    one = other = waiting = 0
    for index in range(room):
        context = contexts + index * group
        for rank in range(size if load_u32(context + L.IN_USE) else 0):
            block = context + rank * L.BLOCK_BYTES
            if load_u32(block + L.BLOCK_STATE):
                continue
            thread = _who_loops(block)
            if thread == 0:
                continue
            waiting += 1
            if load_u64(thread + L.WAIT_OBJECT):
                report_object(thread, launch)
                return
            if one == 0:
                one = thread
            elif other == 0 or load_u64(other + L.STRONG_AT) == load_u64(one + L.STRONG_AT):
                other = thread  # rather one that waits for something else
    if one == 0:
        return
    partner, gid = 0xFFFFFFFF, 0
    if other:
        partner, gid = _loop_site(other), load_u32(other + L.GID)
    address = load_u64(one + L.STRONG_AT)
    index = report_pair(
        launch, L.K_SPIN, _loop_site(one), load_u32(one + L.GID), address, partner, gid
    )
    if index >= 0:
        record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
        store_u32(record + L.F_SPACE, load_u32(one + L.STRONG_SPACE))
        store_u32(record + L.F_EXTRA, waiting)
        store_u32(record + L.F_BYTES, load_u32(other + L.STRONG_SPACE) if other else 0)
        store_u64(record + L.F_GRANULE, load_u64(other + L.STRONG_AT) if other else 0)


@native
def _loop_site(thread: int) -> int:
    if load_u32(thread + L.STRONG_SPACE):
        return load_u32(thread + L.STRONG_SITE)
    return load_u32(thread + L.WAIT_SITE)


@native
def report_stuck(context: int, size: int, launch: int) -> None:
    """Report why nobody of a cluster can run: first who waits for an mbarrier."""
    blocked = context
    for rank in range(size):
        block = context + rank * L.BLOCK_BYTES
        if load_u32(block + L.BLOCK_STATE) == 1:
            continue
        blocked = block
        first, stride = load_u64(block + L.BLOCK_THREAD0), load_u32(block + L.BLOCK_STRIDE)
        for index in range(load_u32(block + L.BLOCK_THREADS)):
            thread = first + index * stride
            if load_u32(thread + L.STATUS) == L.MBARRIER:
                report_object(thread, launch)
                return
    _report_block(blocked, launch)


@native
def _report_block(block: int, launch: int) -> None:
    """Report who waits for what when nobody of a block can run."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, kind = load_u64(block + L.BLOCK_THREAD0), L.K_DEADLOCK
    one = -1
    for index in range(threads):  # a thread in a collective tells more than one at a barrier
        thread = first + index * stride
        status = load_u32(thread + L.STATUS)
        if status == L.COLLECTIVE:
            one, kind = thread, L.K_DIVERGENT_COLLECTIVE
            break
        if status in (L.BARRIER, L.CLUSTER) and one < 0:
            one = thread
    for index in range(threads):
        other = first + index * stride
        status = load_u32(other + L.STATUS)
        if status == L.EXITED or load_u32(other + L.WAIT_SITE) == load_u32(one + L.WAIT_SITE):
            continue
        report_pair(
            launch, kind, load_u32(one + L.WAIT_SITE), load_u32(one + L.GID), 0,
            load_u32(other + L.WAIT_SITE), load_u32(other + L.GID),
        )  # fmt: skip
        return
    report_pair(launch, kind, load_u32(one + L.WAIT_SITE), load_u32(one + L.GID), 0, 0xFFFFFFFF, 0)
