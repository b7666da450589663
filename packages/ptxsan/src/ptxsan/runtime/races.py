"""Races by happens-before, on every granule of memory that a kernel touches.

A granule has two records: its last plain write, and those who read it (or updated it by strong
operations) since. A record says who, at which local time, from which instruction:

    thread in the grid (26 bits) | time (20) | instruction (13) | flags (5)

A thread knows everything of its block before its BASE (the last barrier of the whole block), its
warp's lanes up to KNOWN, and others through releases that it acquired (order.py). When several
unordered threads read a granule, the record keeps the latest time and the flag MANY; a write that
is not after all of that is only suspected, and settled by a second run that keeps every reader
(watch.py). References: Flanagan and Freund, FastTrack (PLDI 2009); PTX ISA, Memory Consistency
Model.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import culprit
from ptxsan.runtime.native import native
from ptxsan.runtime.order import knows, knows_block
from ptxsan.runtime.raw import exchange_u64, load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.watch import check_watched

MANY, BLOCKS, STRONG_WRITES, PLAIN_READS, NARROW = 1, 2, 4, 8, 16
_GID, _CLOCK, _SITE = 38, 18, 5
_GID_MASK, _CLOCK_MASK, _SITE_MASK = (1 << 26) - 1, (1 << 20) - 1, (1 << 13) - 1


@native
def record_of(gid: int, clock: int, site: int, flags: int) -> int:
    """Pack a record."""
    return gid << _GID | clock << _CLOCK | site << _SITE | flags


@native
def gid_of(record: int) -> int:
    """Return the thread of a record."""
    return (record >> _GID) & _GID_MASK


@native
def clock_of(record: int) -> int:
    """Return the time of a record."""
    return (record >> _CLOCK) & _CLOCK_MASK


@native
def site_of(record: int) -> int:
    """Return the instruction of a record, shifted by SITE_SHIFT."""
    return (record >> _SITE) & _SITE_MASK


@native
def _ordered(record: int, thread: int, block: int, launch: int) -> bool:
    """Whether what a record stands for happened before now, as this thread knows."""
    gid, clock = gid_of(record), clock_of(record)
    if record & MANY:
        if record & BLOCKS:
            return False
        return bool(knows_block(thread, block, launch, gid, clock))
    return bool(knows(thread, block, launch, gid, clock))


@native
def _collides(record: int, kind: int, me: int, block: int, born: int) -> bool:
    """Whether an access of this kind collides with what the second record holds.

    `born`: a strong read of memory that held nothing before a strong write. It may still see that
    nothing, so that write has to come before it.
    """
    if kind == L.WRITE:
        return True
    if kind == L.READ:
        return record & STRONG_WRITES != 0
    if kind != L.STRONG_READ and record & PLAIN_READS:
        return True
    if kind == L.STRONG_READ and record & STRONG_WRITES == 0:
        return False
    if born:
        return True
    if (record | me) & NARROW == 0:
        return False
    first = load_u32(block + L.FIRST_GID)
    inside = first <= gid_of(record) < first + load_u32(block + L.BLOCK_THREADS)
    return not inside  # strong, but their scope is one block only


@native
def _race(
    thread: int, block: int, launch: int, record: int, info: int, address: int, space: int
) -> int:
    """Report a race with a record; return 1 plus the index of a new finding, else 0."""
    other = site_of(record) << load_u32(launch + L.SITE_SHIFT)
    kind = L.K_SUSPECT if record & MANY else L.K_RACE
    first, gid = load_u32(block + L.FIRST_GID), gid_of(record)
    if space == L.S_GLOBAL and first <= gid < first + load_u32(block + L.BLOCK_THREADS):
        kind |= L.INSIDE
    index = report_pair(
        launch,
        kind,
        info >> 24,
        load_u32(thread + L.GID),
        address,
        other,
        culprit(launch, block, gid),
    )
    if index < 0:
        return 0
    place = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
    store_u32(place + L.F_SPACE, space)
    store_u32(place + L.F_BYTES, info & 0xFFFF)
    store_u32(place + L.F_WHAT, (info >> 16) & 15)
    store_u32(place + L.F_OTHER_WHAT, record & 31)
    store_u32(place + L.F_EXTRA, 0)
    return 1 + index


@native
def merged(old: int, me: int, block: int) -> int:
    """Return the record of several unordered threads."""
    first = load_u32(block + L.FIRST_GID)
    gid, flags = gid_of(old), (old | me) & 31 | MANY
    if not first <= gid < first + load_u32(block + L.BLOCK_THREADS):
        flags |= BLOCKS
    clock = max(clock_of(old), clock_of(me))
    return (me & ~(_CLOCK_MASK << _CLOCK | 31)) | clock << _CLOCK | flags


@native
def _write(thread: int, block: int, launch: int, place: int, me: int, info: int) -> int:
    """Record a plain write; return the record that it races with, or 0."""
    if load_u32(launch + L.RACES) & 2:
        old = exchange_u64(place, me)
        readers = exchange_u64(place + 8, 0)
    else:
        old, readers = load_u64(place), load_u64(place + 8)
        store_u64(place, me)
        store_u64(place + 8, 0)
    if old != 0 and not _ordered(old, thread, block, launch):
        return old
    if readers != 0 and not _ordered(readers, thread, block, launch):
        return readers
    return 0


@native
def _says_so_already(old: int, me: int, block: int, kind: int) -> bool:
    """Whether a record of many readers, or of many blocks' updates, would not change by one more.

    (Which of several blocks it names means nothing: none of them is known to be before.)
    """
    if kind == L.ATOMIC:
        return (old | me & NARROW) & 31 == MANY | BLOCKS | STRONG_WRITES
    if kind != L.READ or old & (MANY | PLAIN_READS | STRONG_WRITES) != MANY | PLAIN_READS:
        return False
    if old & BLOCKS:
        return True
    first = load_u32(block + L.FIRST_GID)
    inside = first <= gid_of(old) < first + load_u32(block + L.BLOCK_THREADS)
    return inside and clock_of(old) >= clock_of(me)


@native
def _other(thread: int, block: int, launch: int, place: int, me: int, kind: int, born: int) -> int:
    """Record a read or a strong access; return the record that it races with, or 0."""
    old = load_u64(place + 8)
    if _says_so_already(old, me, block, kind):
        written = load_u64(place)
        if written != 0 and not _ordered(written, thread, block, launch):
            return written
        return 0
    free = old == 0 or _ordered(old, thread, block, launch)
    new = me if free else merged(old, me, block)
    if load_u32(launch + L.RACES) & 2:
        seen = exchange_u64(place + 8, new)
        if seen != old and seen != 0:
            old = seen
            store_u64(place + 8, merged(seen, me, block))
    elif new != old:
        store_u64(place + 8, new)
    written = load_u64(place)
    if written != 0 and not _ordered(written, thread, block, launch):
        return written
    if new != me and _collides(old, kind, me, block, born):
        return old
    return 0


@native
def check_races(
    thread: int, block: int, launch: int, first: int, last: int, info: int, address: int,
    space: int, shift: int,
) -> int:  # fmt: skip
    """Check and record an access to the granules whose records lie from `first` to `last`.

    Returns 0, or 1 plus the index of a new finding.
    """
    kind = (info >> 16) & 15
    flags = 0
    if kind == L.READ:
        flags = PLAIN_READS
    elif kind >= L.ATOMIC:
        flags = STRONG_WRITES if kind != L.STRONG_READ else 0
        if (info >> 20) & 3 == L.SCOPE_CTA:
            flags |= NARROW
    site = (info >> 24) >> load_u32(launch + L.SITE_SHIFT)
    me = record_of(load_u32(thread + L.GID), load_u32(thread + L.CLOCK), site, flags)
    raced = 0
    watch = load_u64(launch + L.WATCH)
    for place in range(first, last + 1, 16):
        if kind == L.WRITE:
            found = _write(thread, block, launch, place, me, info)
        else:
            found = _other(thread, block, launch, place, me, kind, (info >> 22) & 1)
        if found != 0:
            raced = _race(thread, block, launch, found, info, place, space)
            if raced:
                index = load_u64(launch + L.FINDINGS) + (raced - 1) * L.F_RECORD
                store_u64(index + L.F_ADDRESS, address)
                store_u64(index + L.F_GRANULE, place)
        if watch != 0:
            check_watched(thread, block, launch, place, kind, info, address, space)
    return raced
