"""Races by happens-before, on every granule of memory that a kernel touches.

A granule has two records: its last plain write, and those who read it (or updated it by strong
operations) since. A record says who, at which local time, from which instruction:

    thread in the grid (25 bits) | time (20) | instruction (13) | flags (6)

A thread knows everything of its block before its BASE (the last barrier of the whole block), its
warp's lanes up to KNOWN, and others through releases that it acquired (order.py): base causality
order. Causality order has a second clause (causality.py): a strong write is also before whatever
comes after a strong read or an atomic that saw it. So a record of one strong access stands for the
strong writes that it saw as well (flag SAW), and an atomic that meets it takes its place.

When several unordered threads read a granule, the record keeps the latest time and the flag MANY; a
write that is not after all of that is only suspected, and settled by a second run that keeps every
reader (watch.py). References: Flanagan and Freund, FastTrack (PLDI 2009); PTX ISA, Memory
Consistency Model.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.causality import morally_strong, sees
from ptxsan.runtime.clocks import culprit
from ptxsan.runtime.native import native
from ptxsan.runtime.order import NOT, UNFENCED, YES, knows, knows_block, scope_to
from ptxsan.runtime.raw import (
    exchange_u64,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reports import last_copy_wait, report_pair, same_so_far
from ptxsan.runtime.roles import nothing_orders, role_of
from ptxsan.runtime.watch import check_watched

MANY, BLOCKS, STRONG_WRITES, PLAIN_READS, NARROW, NEAR = 1, 2, 4, 8, 16, 32
# (NARROW: at the scope of a block, NEAR: at that of a cluster or GPU; else at the system's)
SAW = BLOCKS  # of a record without MANY: strong writes that nothing orders are before this one
BOTH = STRONG_WRITES | PLAIN_READS
_GID, _CLOCK, _SITE = 39, 19, 6
_GID_MASK, _CLOCK_MASK, _SITE_MASK = (1 << 25) - 1, (1 << 20) - 1, (1 << 13) - 1
_FLAGS = (1 << _SITE) - 1


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
def holds_strong_writes(record: int) -> bool:
    """Whether a record stands for strong writes: a strong read may have seen some."""
    return record & STRONG_WRITES != 0 or record & (MANY | SAW) == SAW


@native
def _strong_together(record: int, me: int, block: int, launch: int) -> bool:
    """Whether a strong access `me` and the strong ones of a record are morally strong.

    A record of several blocks names one of them; the others may run on any device.
    """
    flags, scope = (record | me) & (NARROW | NEAR), L.SCOPE_SYS
    if flags:
        scope = L.SCOPE_CTA if flags & NARROW else L.SCOPE_GPU
    needed = scope_to(launch, block, gid_of(record))
    if record & BLOCKS and record & MANY and load_u64(launch + L.DEVICES):
        needed = L.SCOPE_SYS
    return morally_strong(scope, needed)


@native
def _sees(record: int, me: int, block: int, launch: int) -> bool:
    """Whether a strong read or atomic `me` sees strong writes, and a record holds nothing else.

    It sees the last one, and through atomics those before (observation order).
    """
    if record & (MANY | PLAIN_READS) or record & STRONG_WRITES == 0:
        return False
    return _strong_together(record, me, block, launch)


@native
def _rests_on_what_was_seen(
    record: int, thread: int, block: int, launch: int, space: int
) -> None:  # fmt: skip
    """Note that a plain access is in order since an atomic came when it did."""
    if record & (MANY | SAW) != SAW:
        return
    first, gid = load_u32(block + L.FIRST_GID), gid_of(record)
    inside = first <= gid < first + load_u32(block + L.BLOCK_THREADS)
    by_barrier = inside and clock_of(record) < load_u32(thread + L.BASE)
    if space == L.S_GLOBAL or not by_barrier:  # of shared memory a barrier orders all of it
        store_u32(launch + L.CHOSEN, 1)


@native
def order_of(record: int, thread: int, block: int, launch: int) -> int:
    """Whether what a record stands for happened before now: NOT, YES, UNFENCED (order.py)."""
    gid, clock = gid_of(record), clock_of(record)
    if record & MANY:
        if record & BLOCKS:
            return NOT
        return int(knows_block(thread, block, launch, gid, clock))
    return int(knows(thread, block, launch, gid, clock))


@native
def _collides(record: int, kind: int, me: int, block: int, launch: int, born: int) -> bool:
    """Whether an access of this kind makes a data race with what the second record holds.

    `born`: a strong read of memory that held nothing before a strong write. It may still see that
    nothing, so that write has to come before it.
    """
    if kind == L.WRITE:
        return True
    if kind == L.READ:
        return holds_strong_writes(record)
    if kind != L.STRONG_READ and record & PLAIN_READS:
        return True
    if kind == L.STRONG_READ and not holds_strong_writes(record):
        return False
    if born:
        return True
    return not _strong_together(record, me, block, launch)


@native
def _race(
    thread: int, block: int, launch: int, record: int, info: int, address: int, space: int,
    what: int,
) -> int:  # fmt: skip
    """Report a pair (`what`: a race, or what else it is) with a record.

    Returns 1 plus the index of the finding if it is new, or if it is one of equal values so far.
    """
    other = site_of(record) << load_u32(launch + L.SITE_SHIFT)
    # (A strong read stands before the strong writes that it saw: which of them is in question?)
    seen = record & (MANY | SAW | STRONG_WRITES) == SAW
    # (Of an mbarrier that ends: had the wait ended by a barrier of the cluster? watch.py knows.)
    waits = info & L.SYNC_OPERATION and record & (NEAR | BOTH) == NEAR
    several = record & MANY or record & BOTH == BOTH or seen or waits
    kind = L.K_SUSPECT if several else what
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
        writes = (info >> 16) & 15 in (L.WRITE, L.STRONG_WRITE)
        return same_so_far(launch, kind, info >> 24, other) if writes else 0
    place = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
    store_u32(place + L.F_SPACE, space)
    store_u32(place + L.F_BYTES, info & 0xFFFF)
    store_u32(place + L.F_WHAT, (info >> 16) & 15)
    store_u32(place + L.F_OTHER_WHAT, record & _FLAGS)
    store_u32(place + L.F_EXTRA, 0)
    store_u32(place + L.F_COPY_WAIT, last_copy_wait(thread))
    store_u64(place + L.F_ADDRESS, address)
    return 1 + index


@native
def _role_of_record(launch: int, record: int) -> int:
    """Return the roles of the instructions that a record may stand for."""
    shift, found = load_u32(launch + L.SITE_SHIFT), 0
    for index in range(1 << shift):
        found |= role_of(launch, (site_of(record) << shift) + index)
    return found


@native
def _strong_pair(launch: int, record: int, info: int, kind: int) -> bool:
    """Whether two strong accesses that nothing orders are worth a note."""
    if kind < L.ATOMIC or record & PLAIN_READS:
        return False
    role = role_of(launch, info >> 24)
    return role != 0 and nothing_orders(role, _role_of_record(launch, record))


@native
def merged(old: int, me: int, block: int) -> int:
    """Return the record of several unordered threads: of two instructions it names the later."""
    first = load_u32(block + L.FIRST_GID)
    gid, flags = gid_of(old), me & _FLAGS | MANY
    # Who knows the one that saw the others knows them: of a block it says no more than that.
    flags |= old & _FLAGS if old & MANY else old & _FLAGS & ~SAW
    if holds_strong_writes(old):
        flags |= STRONG_WRITES
    if not first <= gid < first + load_u32(block + L.BLOCK_THREADS):
        flags |= BLOCKS
    clock = max(clock_of(old), clock_of(me))
    return (me & ~(_CLOCK_MASK << _CLOCK | _FLAGS)) | clock << _CLOCK | flags


@native
def _write(
    thread: int, block: int, launch: int, place: int, me: int, space: int, out: int
) -> int:  # fmt: skip
    """Record a plain write; put the record that it meets at `out` and return what that makes."""
    if load_u32(launch + L.RACES) & 2:
        old = exchange_u64(place, me)
        readers = exchange_u64(place + 8, 0)
    else:
        old, readers = load_u64(place), load_u64(place + 8)
        store_u64(place, me)
        store_u64(place + 8, 0)
    best = 0
    for record in (old, readers):
        if record != 0:
            order = order_of(record, thread, block, launch)
            if order == NOT:
                store_u64(out, record)
                return L.K_RACE
            if order == UNFENCED:
                store_u64(out, record)
                best = L.K_ACQUIRE
            if record == readers:
                _rests_on_what_was_seen(record, thread, block, launch, space)
    return best


@native
def _says_so_already(old: int, me: int, block: int, kind: int) -> bool:
    """Whether a record of many readers, or of many blocks' updates, would not change by one more.

    (Which of several blocks it names means nothing: none of them is known to be before.)
    """
    if kind == L.ATOMIC:
        as_wide = (me & ~old) & (NARROW | NEAR) == 0
        return as_wide and old & ~NEAR & _FLAGS == MANY | BLOCKS | STRONG_WRITES
    if kind != L.READ or old & (MANY | PLAIN_READS | STRONG_WRITES) != MANY | PLAIN_READS:
        return False
    if old & BLOCKS:
        return True
    first = load_u32(block + L.FIRST_GID)
    inside = first <= gid_of(old) < first + load_u32(block + L.BLOCK_THREADS)
    return inside and clock_of(old) >= clock_of(me)


@native
def _after_write(thread: int, block: int, launch: int, place: int, out: int) -> int:
    """What an access is to the last plain write of its granule, whose record goes to `out`."""
    written = load_u64(place)
    if written == 0:
        return 0
    order = order_of(written, thread, block, launch)
    if order == YES:
        return 0
    store_u64(out, written)
    return L.K_RACE if order == NOT else L.K_ACQUIRE


@native
def _take_place(launch: int, place: int, old: int, me: int, block: int) -> None:
    """Let an atomic stand for the strong writes that it saw."""
    own = gid_of(old) == gid_of(me)
    new = me | (old & SAW if own else SAW)
    if load_u32(launch + L.RACES) & 2:
        seen = exchange_u64(place + 8, new)
        if seen != old and seen != 0 and not _sees(seen, me, block, launch):
            store_u64(place + 8, merged(seen, me, block))
    else:
        store_u64(place + 8, new)


@native
def _other(
    thread: int, block: int, launch: int, place: int, me: int, kind: int, info: int, space: int,
    out: int,
) -> int:  # fmt: skip
    """Record another access; put the record that it meets at `out` and return what that makes."""
    old = load_u64(place + 8)
    saw = sees(kind) and _sees(old, me, block, launch)
    if saw and kind == L.ATOMIC and not _strong_pair(launch, old, info, kind):
        _take_place(launch, place, old, me, block)
        return int(_after_write(thread, block, launch, place, out))
    if _says_so_already(old, me, block, kind):
        return int(_after_write(thread, block, launch, place, out))
    order = YES if old == 0 else order_of(old, thread, block, launch)
    new = me if order != NOT else me | SAW if saw else merged(old, me, block)
    if order != NOT and old & MANY == 0 and gid_of(old) == gid_of(me):
        if kind == L.READ:
            new |= old & STRONG_WRITES  # the own atomic before: _race has both told apart
        elif kind == L.STRONG_READ and holds_strong_writes(old):
            new |= SAW
    if order == YES and kind == L.READ:
        _rests_on_what_was_seen(old, thread, block, launch, space)
    if load_u32(launch + L.RACES) & 2:
        seen = exchange_u64(place + 8, new)
        if seen != old and seen != 0:
            old = seen
            store_u64(place + 8, merged(seen, me, block))
    elif new != old:
        store_u64(place + 8, new)
    found = _after_write(thread, block, launch, place, out)
    if found != 0 or order == YES:
        return int(found)
    collides = _collides(old, kind, me, block, launch, (info >> 22) & 1)
    if collides or _strong_pair(launch, old, info, kind):
        store_u64(out, old)
        if order == UNFENCED:
            return L.K_ACQUIRE
        return L.K_RACE if collides else L.K_UNORDERED
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
        scope = (info >> 20) & 3
        if scope != L.SCOPE_SYS:
            flags |= NARROW if scope == L.SCOPE_CTA else NEAR
    site = (info >> 24) >> load_u32(launch + L.SITE_SHIFT)
    me = record_of(load_u32(thread + L.GID), load_u32(thread + L.CLOCK), site, flags)
    raced = 0
    watch, out = load_u64(launch + L.WATCH), thread + L.MET
    for place in range(first, last + 1, 16):
        if kind == L.WRITE:
            found = _write(thread, block, launch, place, me, space, out)
        else:
            found = _other(thread, block, launch, place, me, kind, info, space, out)
        if found != 0:
            raced = _race(thread, block, launch, load_u64(out), info, address, space, found)
            if raced:
                index = load_u64(launch + L.FINDINGS) + (raced - 1) * L.F_RECORD
                store_u64(index + L.F_GRANULE, place)
        if watch != 0:
            check_watched(thread, block, launch, place, kind, info, address, space)
    return raced
