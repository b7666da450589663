"""Runs that ask whether a racing read matters: who writes what, and loads that see garbage.

First every granule of global memory learns who writes it, and when. Then the launch is run again
in the same order, and the loads in question see other bytes that count as unwritten where they may
race: where another thread writes those bytes, neither behind a barrier that the load is before nor
so that the loading thread knows of it. What a lane writes after its whole warp has met, in a
shuffle, endangers nothing that another lane loaded before: PTX promises no order there, but no
load is issued late.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.order import knows
from ptxsan.runtime.raw import load_u8, load_u32, load_u64, store_u32, store_u64


@native
def note_or_blind(
    thread: int, block: int, launch: int, record: int, first: int, last: int, info: int, out: int
) -> None:
    """Keep who writes the granules from `first` to `last`, or take a load's value away."""
    kind = (info >> 16) & 15
    if kind == L.STRONG_READ:
        return
    table, writers = load_u64(launch + L.BLIND), load_u64(record + L.A_WRITERS)
    for index in range(first, last + 1):
        place = writers + L.N_RECORD * index
        if kind != L.READ:
            _note(thread, place)
            continue
        asked = table != 0 and load_u8(table + L.B_SITES + (info >> 24)) != 0
        if asked and _may_race(thread, block, launch, place):
            given = load_u64(record + L.A_GIVEN)
            if given != 0:
                store_u64(out, given + load_u64(out) - load_u64(record + L.A_DATA))
            else:
                store_u64(out, table + L.B_GARBAGE)
            store_u64(out + 8, table + L.B_UNWRITTEN)
            return


@native
def _note(thread: int, place: int) -> None:
    """Keep the first barriers behind which a thread writes here, and the last time."""
    me, clock = load_u32(thread + L.GID) + 1, load_u32(thread + L.CLOCK)
    base, met = load_u32(thread + L.BASE), load_u32(thread + L.MEETINGS)
    for slot in range(place, place + L.N_WRITERS * L.N_WRITER, L.N_WRITER):
        known = load_u32(slot + L.N_GID)
        if known == 0:
            store_u32(slot + L.N_GID, me)
            store_u32(slot + L.N_BASE, base)
            store_u32(slot + L.N_CLOCK, clock)
            store_u32(slot + L.N_MEETINGS, met)
            return
        if known == me:
            store_u32(slot + L.N_BASE, min(base, load_u32(slot + L.N_BASE)))
            store_u32(slot + L.N_MEETINGS, min(met, load_u32(slot + L.N_MEETINGS)))
            store_u32(slot + L.N_CLOCK, max(clock, load_u32(slot + L.N_CLOCK)))
            return
    store_u32(place + L.N_MORE, 1)


@native
def _may_race(thread: int, block: int, launch: int, place: int) -> bool:
    """Whether a read now is unordered with a write of another thread, or might be."""
    if load_u32(place + L.N_MORE):
        return True
    mine, now = load_u32(thread + L.GID), load_u32(thread + L.CLOCK)
    first, own = load_u32(block + L.FIRST_GID), load_u32(thread + L.TID)
    met = load_u32(thread + L.MEETINGS)
    for slot in range(place, place + L.N_WRITERS * L.N_WRITER, L.N_WRITER):
        gid = load_u32(slot + L.N_GID) - 1
        if gid < 0:
            return False
        before = gid == mine
        if 0 <= gid - first < load_u32(block + L.BLOCK_THREADS):
            before |= now < load_u32(slot + L.N_BASE)
            before |= (gid - first) >> 5 == own >> 5 and met < load_u32(slot + L.N_MEETINGS)
        if not before and not knows(thread, block, launch, gid, load_u32(slot + L.N_CLOCK)):
            return True
    return False
