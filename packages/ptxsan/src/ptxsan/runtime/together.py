"""Launches of several devices that run at once: whose turn it is, and what they know of each other.

Each of these launches is one record (R_... in layout.py). A block runs with the fields of its own
launch in the launch record. A launch begins when those before it in its streams have ended, and
knows all that their blocks knew: each launch has a variable in the log, to which its blocks
release when they end and which those of the next one acquire when they begin.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import share
from ptxsan.runtime.native import native
from ptxsan.runtime.order import append, find_slot, learn_in_block, share_with_block, slot_of
from ptxsan.runtime.raw import copy_bytes, load_u32, load_u64, store_u32, store_u64

_KEY = 5 << 56


@native
def _part(launch: int, number: int) -> int:
    return load_u64(launch + L.PARTS) + number * L.R_RECORD


@native
def enter(launch: int, number: int) -> int:
    """Let the launch record describe one of several launches; return that one's record."""
    part = _part(launch, number)
    copy_bytes(launch + L.PARAMS, part + L.R_FIELDS, L.R_FIELDS_BYTES)
    store_u32(launch + L.DYNAMIC_BYTES, load_u32(part + L.R_DYNAMIC))
    store_u32(launch + L.KERNEL, load_u32(part + L.R_KERNEL))
    return part


@native
def part_of(launch: int, linear: int) -> int:
    """Return which launch a block belongs to."""
    for number in range(load_u32(launch + L.PART_COUNT)):
        part = _part(launch, number)
        first = load_u32(part + L.R_FIRST)
        if first <= linear < first + load_u32(part + L.R_BLOCKS):
            return number
    return -1


@native
def _may_begin(launch: int, part: int) -> bool:
    """Whether the launches before one have ended."""
    before = load_u64(part + L.R_AFTER)
    for index in range(load_u32(part + L.R_AFTER_COUNT)):
        other = _part(launch, load_u32(before + 4 * index))
        if load_u32(other + L.R_DONE) < max(1, load_u32(other + L.R_BLOCKS)):
            return False
    return True


@native
def is_held(launch: int, device: int) -> bool:
    """Whether the blocks of a device wait until nobody else gets on."""
    return (load_u32(launch + L.HELD) >> device) & 1 != 0


@native
def next_block(launch: int, units: int, helps: bool) -> int:
    """Return the place in the order of the next block that may begin, `units` if none may.

    Without `helps` those of held devices do not. Launches without blocks, which free memory, are
    done as soon as they may begin.
    """
    count = load_u32(launch + L.PART_COUNT)
    for number in range(count):
        part = _part(launch, number)
        blocks, begun = load_u32(part + L.R_BLOCKS), load_u32(part + L.R_NEXT)
        if begun >= max(1, blocks) or not _may_begin(launch, part):
            continue
        if is_held(launch, load_u32(part + L.R_DEVICE)) and not helps:
            continue
        store_u32(part + L.R_NEXT, begun + 1)
        if blocks:
            return load_u32(part + L.R_FIRST) + begun
        store_u32(part + L.R_DONE, 1)
        freed = load_u32(part + L.R_FREES)
        if freed:
            record = load_u64(launch + L.ALLOCATIONS) + (freed - 1) * L.A_RECORD
            store_u32(record + L.A_FLAGS, load_u32(record + L.A_FLAGS) | L.A_FREED)
    return units


@native
def all_ended(launch: int) -> bool:
    """Whether every launch has ended."""
    for number in range(load_u32(launch + L.PART_COUNT)):
        part = _part(launch, number)
        if load_u32(part + L.R_DONE) < max(1, load_u32(part + L.R_BLOCKS)):
            return False
    return True


@native
def begin_knowing(block: int, launch: int, part: int) -> None:
    """Let a block know what the launches before its own left behind."""
    before = load_u64(part + L.R_AFTER)
    for index in range(load_u32(part + L.R_AFTER_COUNT)):
        slot = find_slot(launch, _KEY | 1 + load_u32(before + 4 * index))
        version = load_u32(slot + 8) if slot else 0
        if version:
            name = (slot - load_u64(launch + L.VARIABLES)) // 16 + 1
            learn_in_block(block, launch, name, version, version, version, version)
    store_u32(block + L.KNOWN_BEFORE, load_u32(block + L.BLOCK_FAR))


@native
def end_knowing(block: int, launch: int) -> None:
    """Leave what a block that has ended knew to the launches behind its own."""
    number = load_u32(block + L.PART)
    part = _part(launch, number)
    store_u32(part + L.R_DONE, load_u32(part + L.R_DONE) + 1)
    slot = slot_of(launch, _KEY | 1 + number)
    if slot == 0:
        return
    first, stride = load_u64(block + L.BLOCK_THREAD0), load_u32(block + L.BLOCK_STRIDE)
    for index in range(load_u32(block + L.BLOCK_THREADS)):
        share_with_block(first + index * stride, block, launch)
        fill_far(first + index * stride)
    share(block)
    append(first, block, launch, slot, L.LAST_TIME, 0, 1, L.SCOPE_SYS)


@native
def fill_far(thread: int) -> None:
    """Forget what a thread saw by itself."""
    for index in range(4):
        store_u64(thread + L.FAR + 8 * index, 0)
        store_u64(thread + L.FAR_FENCED + 8 * index, 0)
        store_u32(thread + L.FAR_SYS + 4 * index, 0)
