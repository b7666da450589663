"""Blocks that wait for others: they give way, and are known by coming back to what they were.

Whether a block waits or works cannot be seen from one instruction, since a loop that waits may hold
barriers, warp operations and shared memory. So a block gives way after so many rounds, and keeps
what it was then: the registers and local memory of its threads, its shared memory, its mbarriers,
and how often memory has changed that others see. Threads run in a fixed order. So a block that is
what it was before does the same for ever, until somebody else changes memory: it waits. Where all
blocks wait, and none is left to begin, nobody ever goes on.

What a block is worth at first is few rounds, and twice as many each time that it gets on, so that
many blocks that wait take little time and those that work lose none.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import load_u8, load_u32, load_u64, store_u32, store_u64

FIRST_PATIENCE = 64
_MASK = 0xFFFFFFFF


@native
def changes(contexts: int, room: int, group: int, size: int) -> int:
    """Return how often blocks that run have changed memory."""
    total = 0
    for index in range(room):
        for rank in range(size):
            total += load_u32(contexts + index * group + rank * L.BLOCK_BYTES + L.CHANGES)
    return total


@native
def _mix(state: int, word: int) -> int:
    """Return a digest of 60 bits with a word added; no product leaves 63 bits."""
    low = ((state ^ word) & _MASK) * 0x45D9F3B
    high = ((state >> 30) ^ (word >> 32) ^ (low >> 11)) & _MASK
    high = high * 0x2C1B3C6D
    return ((low ^ (low >> 29)) & 0x3FFFFFFF) | ((high ^ (high >> 27)) & 0x3FFFFFFF) << 30


@native
def _mix_bytes(state: int, place: int, size: int) -> int:
    for offset in range(0, size - 7, 8):
        state = _mix(state, load_u64(place + offset))
    for offset in range(size & ~7, size):
        state = _mix(state, load_u8(place + offset))
    return state


@native
def _state(block: int, launch: int, stamp: int) -> int:
    """Return a digest of all that decides what a block will do."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, found = load_u64(block + L.BLOCK_THREAD0), _mix(1, stamp)
    size = load_u32(launch + L.THREAD_BYTES) - L.EXCHANGE
    for index in range(threads):
        thread = first + index * stride
        found = _mix(found, load_u64(thread + L.RESUME))  # STATUS is the upper half
        if load_u32(thread + L.STATUS) != L.EXITED:
            found = _mix(found, load_u32(thread + L.WAIT_VALUE))
            found = _mix_bytes(found, thread + L.EXCHANGE, size)
    found = _mix_bytes(found, load_u64(block + L.SHARED_DATA), load_u32(launch + L.SHARED_BYTES))
    found = _mix_bytes(found, block + L.ARRIVALS, 128)
    objects = load_u64(block + L.MBARRIERS)
    if objects:
        found = _mix_bytes(found, objects, L.MOST_MBARRIERS * L.M_RECORD)
        found = _mix(found, load_u64(block + L.ASYNC_COUNT))
    return found


@native
def repeats(block: int, launch: int, stamp: int) -> bool:
    """Whether a block that gives way is what it was before; `stamp` counts changes of memory."""
    found, seen = _state(block, launch, stamp), False
    for index in range(L.MOST_STATES):
        seen = seen or load_u64(block + L.STATES + 8 * index) == found
    if not seen:
        turn = load_u32(block + L.STATE_TURN)
        store_u64(block + L.STATES + 8 * (turn % L.MOST_STATES), found)
        store_u32(block + L.STATE_TURN, turn + 1)
        store_u64(block + L.WAITS_SINCE, 0)
        return False
    start = min(FIRST_PATIENCE, load_u32(launch + L.MOST_FUEL))
    store_u32(block + L.PATIENCE, start)
    if load_u32(launch + L.IDLE_ROUNDS) == 1:
        store_u64(block + L.WAITS_SINCE, 1 + stamp)
    return True
