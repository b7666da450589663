"""The table of asynchronous operations in flight: bulk and tensor copies that have not landed.

A block's table holds what completes on one of its mbarriers, and what its threads have started
in bulk groups. The bytes that an operation will write, or still reads, carry flags until it
lands; whoever touches them in between is at fault, whatever the order of execution.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import fill, load_u32, load_u64, store_u32, store_u64

ENTRIES, RECORD, SCRATCH = 4096, 192, 192  # 12 stages of 128 threads with cp.async are 1536
MAP_READ = 128  # of SCRATCH: a tensor map that was in hardware's form
# states; 0: free; COPIES: an arrival behind cp.async; VALUE: a store or reduction of a register;
# COMMIT: an arrival behind operations of the tensor core, PIPE says of whom and TIME how many
TO_SHARED, TO_GLOBAL, ACROSS, COPIES, VALUE, COMMIT = 1, 2, 3, 4, 5, 6
STATE, SITE, OBJECT, BYTES, NUMBER, ISSUER, GROUP = 0, 4, 8, 16, 20, 24, 28
SOURCE, TARGET, SOURCE_BLOCK, TARGET_BLOCK, REDUCE, TYPE = 32, 40, 48, 56, 64, 68
COORDINATES, FLAGS, THREAD, OFFSETS, MAP = 80, 100, 104, 112, 128
PIPE, TIME = 32, 40  # of a COMMIT
DATA, INIT, SHADOW = 128, 144, 160  # of a VALUE: up to 16 bytes, their flags and shadows
DONE, TENSOR = 1, 2  # flags: its source was read; a tile


@native
def entry_at(block: int, index: int) -> int:
    """Return the address of an entry of a block's table."""
    return load_u64(block + L.ASYNC) + SCRATCH + index * RECORD


@native
def begin(block: int, launch: int, state: int, site: int, issuer: int) -> int:
    """Return a fresh entry of a block's table, or 0 where it is full."""
    for index in range(ENTRIES):
        entry = entry_at(block, index)
        if load_u32(entry + STATE) == 0:
            fill(entry, RECORD, 0)
            number = load_u32(block + L.ASYNC_NEXT)
            store_u32(block + L.ASYNC_NEXT, number + 1)
            store_u32(block + L.ASYNC_COUNT, load_u32(block + L.ASYNC_COUNT) + 1)
            store_u32(block + L.ASYNC_TOP, max(load_u32(block + L.ASYNC_TOP), index + 1))
            store_u32(entry + STATE, state)
            store_u32(entry + SITE, site)
            store_u32(entry + NUMBER, number)
            store_u32(entry + ISSUER, issuer)
            return int(entry)
    store_u32(launch + L.OVERFLOW, 5)
    return 0


@native
def end(block: int, entry: int) -> None:
    """Forget an entry."""
    store_u32(entry + STATE, 0)
    store_u32(block + L.ASYNC_COUNT, load_u32(block + L.ASYNC_COUNT) - 1)
    top = load_u32(block + L.ASYNC_TOP)
    while top and load_u32(entry_at(block, top - 1) + STATE) == 0:
        top -= 1
    store_u32(block + L.ASYNC_TOP, top)


@native
def next_of(block: int, launch: int, target: int) -> int:
    """Return the operation that completes on an mbarrier and lands next, or 0: by the schedule."""
    best = chosen = 0
    newest = load_u32(launch + L.SCHEDULE) == 1
    for index in range(load_u32(block + L.ASYNC_TOP)):
        entry = entry_at(block, index)
        if load_u32(entry + STATE) == 0 or load_u64(entry + OBJECT) != target:
            continue
        number = load_u32(entry + NUMBER)
        if chosen == 0 or (number > best) == newest:
            best, chosen = number, entry
    if chosen and load_u32(chosen + STATE) == COMMIT:
        return _first_commit(block, target, load_u64(chosen + PIPE))
    return int(chosen)


@native
def _first_commit(block: int, target: int, pipe: int) -> int:
    """Return the first arrival behind a pipe: its operations end in their order."""
    best = chosen = 0
    for index in range(load_u32(block + L.ASYNC_TOP)):
        entry = entry_at(block, index)
        if load_u32(entry + STATE) != COMMIT or load_u64(entry + OBJECT) != target:
            continue
        number = load_u32(entry + NUMBER)
        if load_u64(entry + PIPE) == pipe and (chosen == 0 or number < best):
            best, chosen = number, entry
    return int(chosen)


@native
def touching(block: int, place: int, nbytes: int) -> int:
    """Return an operation in flight over bytes of a block's shared memory, or 0."""
    for index in range(load_u32(block + L.ASYNC_TOP)):
        entry = entry_at(block, index)
        state = load_u32(entry + STATE)
        if state == 0:
            continue
        size = load_u32(entry + BYTES)
        if load_u64(entry + TARGET_BLOCK) == block:
            start = load_u64(entry + TARGET) & (L.RANK_UNIT - 1)
            if start < place + nbytes and place < start + size:
                return int(entry)
        if load_u64(entry + SOURCE_BLOCK) == block:
            start = load_u64(entry + SOURCE) & (L.RANK_UNIT - 1)
            if start < place + nbytes and place < start + size:
                return int(entry)
    return 0


@native
def others_reduce(block: int, mine: int) -> bool:
    """Whether another reduction of a value is under way to the bytes of this one."""
    start = load_u64(mine + TARGET)
    for index in range(load_u32(block + L.ASYNC_TOP)):
        entry = entry_at(block, index)
        if entry == mine or load_u32(entry + STATE) != VALUE or load_u32(entry + REDUCE) == 0:
            continue
        other = load_u64(entry + TARGET)
        if other < start + load_u32(mine + BYTES) and start < other + load_u32(entry + BYTES):
            return True
    return False


@native
def scratch_of(block: int) -> int:
    """Return memory for the results of an access."""
    return load_u64(block + L.ASYNC)


@native
def set_object(entry: int, target: int) -> None:
    """Let an operation complete on an mbarrier."""
    store_u64(entry + OBJECT, target)
    if target:
        store_u32(target + L.M_FLIGHT, load_u32(target + L.M_FLIGHT) + 1)
