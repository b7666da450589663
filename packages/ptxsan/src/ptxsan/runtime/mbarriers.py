"""mbarrier objects: arrivals and bytes are counted, waiters learn what arrivers knew.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". The eight bytes of
an object hold the address of the machine's record of it and carry a flag; who else touches them
is at fault. A phase completes when no arrivals are pending and no bytes are expected. Copies
that complete on an object land when a waiter needs them, one after the other, so that what is
not waited for is not there yet.
"""

from __future__ import annotations

from ptxsan.runtime import bulk, inflight, values
from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import entry_of, learn, publish, tick
from ptxsan.runtime.copies import land_until
from ptxsan.runtime.memory import rt_access_generic
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    copy_bytes,
    fill,
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.tensor_maps import completed_bytes

RELEASE, EXPECT, DROP, NO_COMPLETE = 1, 2, 4, 8  # flags of an arrival
PARITY, ACQUIRE, MAY_SUSPEND = 1, 2, 4  # flags of a test
WAIT, TRUE, FALSE = 0, 1, 2  # what a test returns


@native
def tx_of(target: int) -> int:
    """Return the bytes that the open phase still expects; negative: more came than that."""
    value = load_u32(target + L.M_TX)
    return value - (1 << 32) if value >= 1 << 31 else value


@native
def complain(thread: int, launch: int, target: int, kind: int, site: int, number: int) -> None:
    """Report a misuse of an object."""
    gid = load_u32(thread + L.GID)
    index = report_pair(launch, kind, site, gid, load_u32(target + L.M_PLACE), 0xFFFFFFFF, gid)
    if index >= 0:
        record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
        store_u32(record + L.F_SPACE, L.S_SHARED)
        store_u64(record + L.F_GRANULE, number)
        store_u32(record + L.F_EXTRA, load_u32(target + L.M_PENDING))


@native
def find(thread: int, block: int, launch: int, address: int, kind: int, site: int) -> int:
    """Return the record of the object at an address (its access is checked), or 0."""
    out = inflight.scratch_of(block)
    info = 8 | kind << 16 | L.SCOPE_CLUSTER << 20 | site << 24 | L.SYNC_OPERATION
    rt_access_generic(thread, block, launch, address, info, out)
    if load_u64(out) == load_u64(launch + L.SCRATCH):
        return 0
    if load_u8(load_u64(out + 8)) & L.OBJECT == 0:
        gid = load_u32(thread + L.GID)
        report_pair(launch, L.K_NO_OBJECT, site, gid, address, 0xFFFFFFFF, gid)
        return 0
    return int(load_u64(load_u64(out)))


@export("void(int64, int64, int64, int64, int64, int64)")
def rt_mbarrier_init(
    thread: int, block: int, launch: int, address: int, count: int, site: int
) -> None:
    """Make an object with a number of expected arrivals, 1 to 2^20 - 1."""
    out = inflight.scratch_of(block)
    info = 8 | L.WRITE << 16 | L.SCOPE_CLUSTER << 20 | site << 24 | L.SYNC_OPERATION
    rt_access_generic(thread, block, launch, address, info, out)
    data, init = load_u64(out), load_u64(out + 8)
    if data == load_u64(launch + L.SCRATCH):
        return
    if load_u8(init) & L.OBJECT:
        complain(thread, launch, load_u64(data), L.K_TWO_OBJECTS, site, 0)
        store_u32(load_u64(data) + L.M_PLACE, 0)
    elif load_u8(init) & L.LANDING:
        gid = load_u32(thread + L.GID)
        found = report_pair(launch, L.K_IN_FLIGHT, site, gid, address, 0xFFFFFFFF, 0)
        if found >= 0:
            record = load_u64(launch + L.FINDINGS) + found * L.F_RECORD
            store_u32(record + L.F_SPACE, L.S_SHARED)
            store_u32(record + L.F_BYTES, 8)
            store_u32(record + L.F_WHAT, L.WRITE)
            store_u32(record + L.F_EXTRA, L.LANDING)
    target = _free(block, launch)
    if target == 0:
        return
    store_u32(target + L.M_PLACE, address & 0xFFFFFFFF)
    store_u32(target + L.M_EXPECTED, count)
    store_u32(target + L.M_PENDING, count)
    store_u32(target + L.M_TX, 0)
    store_u32(target + L.M_PHASE, 0)
    store_u32(target + L.M_SITE, site)
    store_u32(target + L.M_FLIGHT, 0)
    store_u32(target + L.M_COPIES, 0)
    words = 4 * load_u32(block + L.BLOCK_WORDS)
    if words:
        fill(load_u64(target + L.M_OPEN), words, 0)
        fill(load_u64(target + L.M_DONE), words, 0)
    if not 1 <= count <= L.MOST_COUNT:
        complain(thread, launch, target, L.K_ARRIVALS, site, count)
    store_u64(data, target)
    fill(init, 8, 1 | L.OBJECT)


@native
def _free(block: int, launch: int) -> int:
    objects = load_u64(block + L.MBARRIERS)
    for index in range(L.MOST_MBARRIERS):
        target = objects + index * L.M_RECORD
        if load_u32(target + L.M_PLACE) == 0:
            return int(target)
    store_u32(launch + L.OVERFLOW, 4)
    return 0


@export("void(int64, int64, int64, int64, int64)")
def rt_mbarrier_inval(thread: int, block: int, launch: int, address: int, site: int) -> None:
    """End an object: its bytes may be used for anything again.

    Arrivals that are still to come (behind cp.async, or a commit) write nothing that anybody reads:
    a note. Until the block ends nobody knows when they come, so the bytes may not be used.
    """
    target = find(thread, block, launch, address, L.WRITE, site)
    if target == 0:
        return
    flight = load_u32(target + L.M_FLIGHT)
    late = flight != 0 and flight == load_u32(target + L.M_COPIES)
    if flight:
        kind = L.K_OBJECT_EARLY if late else L.K_OBJECT_BUSY
        complain(thread, launch, target, kind, site, flight)
    if late:
        _drop_arrivals(target)
    store_u32(target + L.M_PLACE, 0)
    fill(load_u64(inflight.scratch_of(block) + 8), 8, L.LANDING if late else 0)
    _changed(block)


@native
def _drop_arrivals(target: int) -> None:
    """Forget the arrivals that are still to come at an object."""
    home = load_u64(target + L.M_BLOCK)
    for index in range(load_u32(home + L.ASYNC_TOP)):
        entry = inflight.entry_at(home, index)
        state = load_u32(entry + inflight.STATE)
        waits = state == inflight.COPIES or state == inflight.COMMIT
        if waits and load_u64(entry + inflight.OBJECT) == target:
            inflight.end(home, entry)


@native
def _changed(block: int) -> None:
    """Count what may let somebody go on."""
    store_u32(block + L.CHANGES, load_u32(block + L.CHANGES) + 1)


@native
def _expect(thread: int, launch: int, target: int, tx: int, site: int) -> None:
    total = tx_of(target) + tx
    if not -L.MOST_TX <= total <= L.MOST_TX:
        complain(thread, launch, target, L.K_TX_RANGE, site, total)
    store_u32(target + L.M_TX, total & 0xFFFFFFFF)


@export("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_mbarrier_arrive(
    thread: int, block: int, launch: int, address: int, count: int, tx: int, flags: int, site: int
) -> int:
    """Arrive `count` times, expecting `tx` more bytes first; return the state before."""
    target = find(thread, block, launch, address, L.ATOMIC, site)
    if target == 0:
        return 0
    if flags & EXPECT:
        _expect(thread, launch, target, tx, site)
    return arrive(thread, block, launch, target, count, flags, site)


@native
def state_of(target: int) -> int:
    """Return the opaque state of an object: its phase, and the arrivals that are pending."""
    return (load_u32(target + L.M_PHASE) + 1) << 32 | load_u32(target + L.M_PENDING)


@native
def arrive(
    thread: int, block: int, launch: int, target: int, count: int, flags: int, site: int
) -> int:
    """Count arrivals on an object's open phase, which may complete it."""
    state, pending = state_of(target), load_u32(target + L.M_PENDING)
    if count < 1 or count > pending:
        complain(thread, launch, target, L.K_ARRIVALS, site, count)
        count = min(max(count, 0), pending)
    if flags & RELEASE:
        publish(thread, block, load_u64(target + L.M_OPEN))
        tick(thread)
    if flags & DROP:
        left = load_u32(target + L.M_EXPECTED) - count
        store_u32(target + L.M_EXPECTED, max(left, 0))
    store_u32(target + L.M_PENDING, pending - count)
    if flags & NO_COMPLETE and pending == count and tx_of(target) == 0:
        complain(thread, launch, target, L.K_NO_COMPLETE, site, count)
    complete_if_due(target)
    _changed(block)
    return state


@native
def complete_if_due(target: int) -> bool:
    """Complete the open phase if nothing is pending."""
    if load_u32(target + L.M_PENDING) != 0 or load_u32(target + L.M_TX) != 0:
        return False
    store_u32(target + L.M_PHASE, load_u32(target + L.M_PHASE) + 1)
    store_u32(target + L.M_PENDING, load_u32(target + L.M_EXPECTED))
    words = load_u32(load_u64(target + L.M_BLOCK) + L.BLOCK_WORDS)
    if words:
        copy_bytes(load_u64(target + L.M_DONE), load_u64(target + L.M_OPEN), 4 * words)
    return True


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_mbarrier_tx(
    thread: int, block: int, launch: int, address: int, tx: int, complete: int, site: int
) -> None:
    """Expect more bytes, or (`complete`) count bytes as arrived without an asynchronous copy."""
    target = find(thread, block, launch, address, L.ATOMIC, site)
    if target == 0:
        return
    _expect(thread, launch, target, -tx if complete else tx, site)
    if complete:
        complete_if_due(target)
    _changed(block)


@export("int64(int64, int64, int64, int64, int64, int64, int64)")
def rt_mbarrier_test(
    thread: int, block: int, launch: int, address: int, value: int, flags: int, site: int
) -> int:
    """Test whether a phase is complete: TRUE, FALSE, or WAIT where the thread may be suspended."""
    target = find(thread, block, launch, address, L.STRONG_READ, site)
    if target == 0:
        return TRUE
    phase = load_u32(target + L.M_PHASE)
    wanted = (value >> 32) - 1
    if flags & PARITY:
        wanted = phase if (phase ^ value) & 1 == 0 else phase - 1
    if is_over(launch, target, wanted):
        if flags & ACQUIRE:
            learn(thread, block, load_u64(target + L.M_DONE))
        store_u32(thread + L.TIMED_OUT, 0)
        store_u64(thread + L.WAIT_OBJECT, 0)
        return TRUE
    if flags & MAY_SUSPEND == 0 or load_u32(thread + L.TIMED_OUT):
        store_u32(thread + L.TIMED_OUT, 0)
        store_u64(thread + L.WAIT_OBJECT, target)
        return FALSE
    store_u64(thread + L.WAIT_OBJECT, target)
    store_u32(thread + L.WAIT_PHASE, wanted)
    store_u32(thread + L.WAIT_SITE, site)
    return WAIT


@native
def is_over(launch: int, target: int, phase: int) -> bool:
    """Whether a phase is complete, after the copies that can complete it have landed."""
    while load_u32(target + L.M_PHASE) <= phase:
        if load_u32(target + L.M_PENDING) > load_u32(target + L.M_COPIES):
            return False
        if load_u32(target + L.M_FLIGHT) == 0:
            return False
        land_next(launch, target)
    return True


@native
def _land_commit(home: int, launch: int, target: int, entry: int) -> None:
    """Let operations of a tensor core end, and arrive at the object: its waiters know them."""
    thread, site = load_u64(entry + inflight.THREAD), load_u32(entry + inflight.SITE)
    words = load_u32(home + L.BLOCK_WORDS)
    if words:
        linear, threads = load_u32(home + L.BLOCK_LINEAR), load_u32(home + L.BLOCK_THREADS)
        at = entry_of(launch, threads, linear, load_u64(entry + inflight.PIPE))
        cell = load_u64(target + L.M_OPEN) + 4 * at
        if at >= 0:
            store_u32(cell, max(load_u32(cell), load_u32(entry + inflight.TIME)))
    store_u32(target + L.M_COPIES, load_u32(target + L.M_COPIES) - 1)
    store_u32(target + L.M_FLIGHT, load_u32(target + L.M_FLIGHT) - 1)
    inflight.end(home, entry)
    arrive(thread, home, launch, target, 1, 0, site)


@native
def commit(
    thread: int, block: int, launch: int, address: int, pipe: int, time: int, site: int
) -> None:  # fmt: skip
    """Arrive at an object when the first `time` operations of a pipe have ended."""
    target = find(thread, block, launch, address, L.ATOMIC, site)
    if target == 0:
        return
    home = load_u64(target + L.M_BLOCK)
    entry = inflight.begin(home, launch, inflight.COMMIT, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    store_u64(entry + inflight.THREAD, thread)
    store_u64(entry + inflight.PIPE, pipe)
    store_u64(entry + inflight.TIME, time)
    inflight.set_object(entry, target)
    store_u32(target + L.M_COPIES, load_u32(target + L.M_COPIES) + 1)
    publish(thread, block, load_u64(target + L.M_OPEN))
    tick(thread)
    _changed(home)


@export("void(int64, int64, int64, int64, int64, int64)")
def rt_copy_arrive(
    thread: int, block: int, launch: int, address: int, noinc: int, site: int
) -> None:
    """Arrive at an object when all cp.async of this thread so far have arrived."""
    target = find(thread, block, launch, address, L.ATOMIC, site)
    if target == 0:
        return
    entry = inflight.begin(block, launch, inflight.COPIES, site, load_u32(thread + L.GID))
    if entry == 0:
        return
    store_u64(entry + inflight.THREAD, thread)
    store_u32(entry + inflight.GROUP, load_u32(thread + L.COPIES + 4))
    inflight.set_object(entry, target)
    store_u32(target + L.M_COPIES, load_u32(target + L.M_COPIES) + 1)
    if noinc == 0:
        store_u32(target + L.M_PENDING, load_u32(target + L.M_PENDING) + 1)
    _changed(block)


@native
def land_next(launch: int, target: int) -> None:
    """Let the next copy on an object land and count its bytes."""
    home = load_u64(target + L.M_BLOCK)
    entry = inflight.next_of(home, launch, target)
    if load_u32(entry + inflight.STATE) == inflight.COPIES:
        thread, site = load_u64(entry + inflight.THREAD), load_u32(entry + inflight.SITE)
        store_u32(target + L.M_COPIES, load_u32(target + L.M_COPIES) - 1)
        land_until(thread, home, launch, load_u32(entry + inflight.GROUP))
        store_u32(target + L.M_FLIGHT, load_u32(target + L.M_FLIGHT) - 1)
        inflight.end(home, entry)
        arrive(thread, home, launch, target, 1, RELEASE, site)
        return
    if load_u32(entry + inflight.STATE) == inflight.COMMIT:
        _land_commit(home, launch, target, entry)
        return
    clock = load_u32(target + L.M_CLOCK) + 1
    store_u32(target + L.M_CLOCK, clock)
    total, linear = load_u32(launch + L.TOTAL_THREADS), load_u32(home + L.BLOCK_LINEAR)
    agent = total + linear * L.MOST_AGENTS + load_u32(target + L.M_INDEX)
    if load_u32(entry + inflight.STATE) == inflight.VALUE:
        values.land(entry, home, launch, agent, clock)
    else:
        bulk.land(entry, home, launch, agent, clock)
    if load_u32(home + L.BLOCK_WORDS):
        at = entry_of(launch, load_u32(home + L.BLOCK_THREADS), linear, agent)
        store_u32(load_u64(target + L.M_OPEN) + 4 * at, clock)
    tx = tx_of(target) - completed_bytes(entry)
    store_u32(target + L.M_TX, tx & 0xFFFFFFFF)
    store_u32(target + L.M_FLIGHT, load_u32(target + L.M_FLIGHT) - 1)
    inflight.end(home, entry)
    _changed(home)
    complete_if_due(target)
