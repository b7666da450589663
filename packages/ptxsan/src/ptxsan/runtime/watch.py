"""The second look at suspected races: every access to a few granules is kept and compared.

The first run keeps one record for many readers; where that might be a race, the launch is run
again with those granules watched, and each access is compared with every earlier one. Of a granule
the latest access of each thread by each instruction is kept, with its number in their order: u64
next, u32 thread, u32 time, u64 info, u32 number.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.causality import hides, morally_strong, sees
from ptxsan.runtime.clocks import block_of, came_after, culprit, rank_in
from ptxsan.runtime.native import native
from ptxsan.runtime.order import UNFENCED, YES, knows, scope_between, scope_to
from ptxsan.runtime.raw import add_u32, load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.roles import nothing_orders, role_of

_MANY = 1 << 10  # accesses to one granule behind which a race is looked for once an instruction


@native
def _head(watch: int, place: int) -> int:
    """Return where the list of a watched granule begins, or 0 if it is not watched."""
    slots = load_u32(watch + L.W_SLOTS)
    at = (place >> 4) & (slots - 1)
    while True:
        slot = watch + L.W_TABLE + 16 * at
        found = load_u64(slot)
        if found == place:
            return slot + 8
        if found == 0:
            return 0
        at = (at + 1) & (slots - 1)


@native
def _opposed(launch: int, info: int, other: int, needed: int) -> int:
    """What two accesses are to each other when nothing orders them: a kind of finding, or 0.

    `needed` is the least scope that includes both threads.

    Two plain writes are compared as they come (races.py), where it is known whether their values
    are the same.
    """
    kind, other_kind = (info >> 16) & 15, (other >> 16) & 15
    if kind == L.WRITE and other_kind == L.WRITE:
        return 0
    writes = kind != L.READ and kind != L.STRONG_READ
    other_writes = other_kind != L.READ and other_kind != L.STRONG_READ
    if not writes and not other_writes:
        return 0
    if kind < L.ATOMIC or other_kind < L.ATOMIC:
        return L.K_RACE
    if not morally_strong(min((info >> 20) & 3, (other >> 20) & 3), needed):
        return L.K_RACE
    roles = role_of(launch, info >> 24), role_of(launch, other >> 24)
    return L.K_UNORDERED if nothing_orders(roles[0], roles[1]) else 0


@native
def check_watched(
    thread: int, block: int, launch: int, place: int, kind: int, info: int, address: int,
    space: int,
) -> None:  # fmt: skip
    """Compare an access with every earlier one to its granule, and keep it."""
    watch = load_u64(launch + L.WATCH)
    head = _head(watch, place)
    if head == 0:
        return
    gid, clock = load_u32(thread + L.GID), load_u32(thread + L.CLOCK)
    first, count = load_u32(block + L.FIRST_GID), load_u32(block + L.BLOCK_THREADS)
    node, passed, known = load_u64(head), 0, 0
    if space == L.S_SHARED and node != 0 and _gone(launch, block, load_u32(node + 8)):
        store_u64(head, 0)  # the context's memory served another block before
        node = 0
    while node != 0:
        other = load_u32(node + 8)
        other_info = load_u64(node + 16)
        inside = first <= other < first + count
        needed = scope_to(launch, block, other)
        what = _opposed(launch, info, other_info, needed) if other != gid else 0
        passed += 1
        if passed > _MANY and known == 1 + (other_info >> 24):
            what = 0  # thousands of threads race there by these two instructions: it was said
        if what != 0:
            order = knows(thread, block, launch, other, load_u32(node + 12))
            if order != YES and _was_seen(thread, block, launch, head, node):
                order = YES
            waits = (other_info >> 16) & 15 == L.STRONG_READ and kind == L.WRITE
            if order != YES and waits and info & L.SYNC_OPERATION:
                time = load_u32(node + 12)
                order = YES if came_after(thread, block, launch, other, time) else order
            if order == UNFENCED:
                what = L.K_ACQUIRE
            if order != YES:
                known = 1 + (other_info >> 24)
                what |= L.INSIDE if inside and space == L.S_GLOBAL else 0
                name = culprit(launch, block, other)
                _found(launch, what, info, gid, address, other_info, name, space, place)
        node = load_u64(node)
    _keep(watch, head, gid, clock, info)


@native
def _was_seen(thread: int, block: int, launch: int, head: int, written: int) -> bool:
    """Whether a thread knows of somebody who saw a strong write (causality.py, second clause)."""
    kind = (load_u64(written + 16) >> 16) & 15
    if kind != L.ATOMIC and kind != L.STRONG_WRITE:
        return False
    number, limit = load_u32(written + 24), 1 << 32
    node = load_u64(head)
    while node != 0:  # what hides the write ends the time in which it is seen
        other = load_u32(node + 24)
        if number < other < limit and hides((load_u64(node + 16) >> 16) & 15):
            limit = other
        node = load_u64(node)
    gids = load_u32(launch + L.BLOCK_GIDS)
    writer = block_of(launch, gids, load_u32(written + 8))
    scope = (load_u64(written + 16) >> 20) & 3
    node = load_u64(head)
    while node != 0:
        other, info = load_u32(node + 24), load_u64(node + 16)
        if number < other < limit and sees((info >> 16) & 15):
            needed = scope_between(launch, block_of(launch, gids, load_u32(node + 8)), writer)
            together = morally_strong(min(scope, (info >> 20) & 3), needed)
            reader, clock = load_u32(node + 8), load_u32(node + 12)
            if together and knows(thread, block, launch, reader, clock) == YES:
                store_u32(launch + L.CHOSEN, 1)
                return True
        node = load_u64(node)
    return False


@native
def _gone(launch: int, block: int, gid: int) -> bool:
    """Whether a thread or agent belongs to a cluster that ran before."""
    linear = block_of(launch, load_u32(launch + L.BLOCK_GIDS), gid)
    return rank_in(launch, linear, load_u32(block + L.BLOCK_LINEAR)) < 0


@native
def keep_access(launch: int, place: int, gid: int, clock: int, info: int) -> None:
    """Keep an access by an agent to a granule, if that is watched."""
    watch = load_u64(launch + L.WATCH)
    head = _head(watch, place)
    if head != 0:
        _keep(watch, head, gid, clock, info)


@native
def _found(
    launch: int,
    kind: int, info: int, gid: int, address: int, other_info: int, other: int, space: int,
    place: int,
) -> None:  # fmt: skip
    index = report_pair(launch, kind, info >> 24, gid, address, other_info >> 24, other)
    if index < 0:
        return
    record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
    store_u32(record + L.F_SPACE, space)
    store_u32(record + L.F_BYTES, info & 0xFFFF)
    store_u32(record + L.F_WHAT, (info >> 16) & 15)
    store_u32(record + L.F_OTHER_WHAT, (other_info >> 16) & 15 | 64)
    store_u32(record + L.F_EXTRA, 0)
    store_u64(record + L.F_GRANULE, place)


@native
def _keep(watch: int, head: int, gid: int, clock: int, info: int) -> None:
    """Keep an access in the list of its granule, in the place of the same one before."""
    order = add_u32(watch + L.W_ORDER, 1)
    node = load_u64(head)
    while node != 0:
        if load_u32(node + 8) == gid and load_u64(node + 16) == info:
            store_u32(node + 12, clock)
            store_u32(node + 24, order)
            return
        node = load_u64(node)
    number = add_u32(watch + L.W_COUNT, 1)
    if number >= load_u32(watch + L.W_LIMIT):
        return
    node = load_u64(watch + L.W_NODES) + L.W_NODE * number
    store_u64(node, load_u64(head))
    store_u32(node + 8, gid)
    store_u32(node + 12, clock)
    store_u64(node + 16, info)
    store_u32(node + 24, order)
    store_u64(head, node)
