"""Memory accesses of a thread: where the bytes are, and whether the access may touch them.

Every function takes the thread's, block's and launch's record and the address; `info` packs bytes
(16 bits), kind (4), scope (4) and site. It writes host addresses of bytes, init flags and shadows
to `out` and returns 0, or 1 plus the index of a finding when the access raced. An access at fault
is sent to scratch memory, so that execution can go on.
"""

from __future__ import annotations

from ptxsan.program import PARAM_WINDOW
from ptxsan.runtime import heap, inflight
from ptxsan.runtime import layout as L
from ptxsan.runtime.blind import note_or_blind
from ptxsan.runtime.native import export, native
from ptxsan.runtime.places import machine_address, region_of
from ptxsan.runtime.races import check_races
from ptxsan.runtime.raw import load_u8, load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report, report_pair

_LOW = (1 << 56) - 1


@native
def _fault(
    thread: int,
    launch: int,
    kind: int,
    info: int,
    address: int,
    allocation: int,
    space: int,
    out: int,
) -> int:
    index = report(launch, kind, info >> 24, load_u32(thread + L.GID), address)
    if index >= 0:
        record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
        store_u32(record + L.F_ALLOCATION, allocation)
        store_u32(record + L.F_SPACE, space)
        store_u32(record + L.F_BYTES, info & 0xFFFF)
        store_u32(record + L.F_WHAT, (info >> 16) & 15)
    place = load_u64(launch + L.SCRATCH)
    store_u64(out, place)
    store_u64(out + 8, place + 4096)
    store_u64(out + 16, place + 8192)
    return 0


@native
def flags_of(init: int, nbytes: int) -> int:
    """Return the OR of the flags of some bytes."""
    found = 0
    for index in range(nbytes):
        found |= load_u8(init + index)
    return found


@native
def _guard(
    thread: int, launch: int, owner: int, info: int, place: int, init: int, space: int
) -> None:
    """Accesses to mbarriers, and to bytes that asynchronous copies work on, are at fault."""
    nbytes, kind = info & 0xFFFF, (info >> 16) & 15
    flags = flags_of(init, nbytes)
    if flags < L.OBJECT:
        return
    what = 0
    if flags & L.OBJECT:
        what = L.K_OBJECT_TOUCHED
    elif (
        flags & L.LANDING
        or (flags & L.LEAVING and _is_write(kind))
        or (flags & L.REDUCING and kind != L.ATOMIC)
    ):
        what = L.K_IN_FLIGHT
    if what == 0:
        return
    entry = inflight.touching(owner, place, nbytes) if space == L.S_SHARED else 0
    site, gid = 0xFFFFFFFF, 0
    if entry:
        site, gid = load_u32(entry + inflight.SITE), load_u32(entry + inflight.ISSUER)
    index = report_pair(launch, what, info >> 24, load_u32(thread + L.GID), place, site, gid)
    if index >= 0:
        record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
        store_u32(record + L.F_SPACE, space)
        store_u32(record + L.F_BYTES, nbytes)
        store_u32(record + L.F_WHAT, kind)
        store_u32(record + L.F_EXTRA, flags)


@native
def _is_write(kind: int) -> bool:
    return kind == L.WRITE or kind == L.ATOMIC or kind == L.STRONG_WRITE


@native
def _note_store(block: int, kind: int) -> None:
    """Count stores: who waits for one may go on. (Atomics count themselves.)"""
    if kind == L.WRITE or kind == L.STRONG_WRITE:
        store_u32(block + L.CHANGES, load_u32(block + L.CHANGES) + 1)


@native
def _note_strong(thread: int, info: int, address: int, space: int) -> None:
    """Remember the last strong access of a thread: who waits for ever waits there."""
    store_u64(thread + L.STRONG_AT, address)
    store_u32(thread + L.STRONG_SITE, info >> 24)
    store_u32(thread + L.STRONG_SPACE, 1 + space)


@native
def _observe(thread: int, launch: int, info: int, address: int, shared: int) -> None:
    """Keep an address of the first warp, for advice on speed."""
    table = load_u64(launch + L.OBSERVE)
    if table == 0 or (info >> 16) & 15 > L.WRITE:
        return
    cell = table + 8 * (32 * L.OBSERVED * (info >> 24) + load_u32(thread + L.GID))
    for _ in range(L.OBSERVED):
        if load_u64(cell) == 0:
            place = address & ((1 << 48) - 1)
            store_u64(cell, place | (info & 0x7F) << 56 | shared << 55)
            return
        cell += 256


@export("int64(int64, int64, int64, int64, int64, int64)")
def rt_access_global(
    thread: int, block: int, launch: int, address: int, info: int, out: int
) -> int:
    """Access global memory: the region of the address says which allocation is meant."""
    nbytes, kind = info & 0xFFFF, (info >> 16) & 15
    address = machine_address(launch, address)
    index = region_of(address)
    if index < 0 or index >= load_u32(launch + L.ALLOCATION_COUNT):
        record = heap.of_region(launch, index)
        if record == 0:
            return _fault(thread, launch, L.K_BOUNDS, info, address, 0xFFFFFFFF, L.S_GLOBAL, out)
        if load_u32(record + L.A_FLAGS) & L.A_FREED:
            return _fault(thread, launch, L.K_FREED, info, address, index, L.S_GLOBAL, out)
    else:
        record = load_u64(launch + L.ALLOCATIONS) + index * L.A_RECORD
    offset = address - load_u64(record + L.A_BASE)
    if offset < 0 or offset + nbytes > load_u64(record + L.A_BYTES):
        return _fault(thread, launch, L.K_BOUNDS, info, address, index, L.S_GLOBAL, out)
    if nbytes > 1 and address & (nbytes - 1) and nbytes & (nbytes - 1) == 0:
        return _fault(thread, launch, L.K_MISALIGNED, info, address, index, L.S_GLOBAL, out)
    closed = load_u32(record + L.A_FLAGS) & load_u32(block + L.DENIED)
    if closed:  # of several devices alone
        what = L.K_FREED if closed & L.A_FREED else L.K_PEER
        return _fault(thread, launch, what, info, address, index, L.S_GLOBAL, out)
    if _is_write(kind):
        if load_u32(record + L.A_FLAGS) & 1:
            return _fault(thread, launch, L.K_READ_ONLY, info, address, index, L.S_GLOBAL, out)
        store_u32(thread + L.UNFENCED, 3)
        _note_store(block, kind)
    if kind >= L.ATOMIC:
        _note_strong(thread, info, address, L.S_GLOBAL)
    mark = record + (L.A_UPDATED if kind == L.ATOMIC else L.A_SEEN)
    if load_u32(mark) == 0:
        # Remember how an allocation is used; stop where updates that nobody may see are
        # looked at
        store_u32(mark, 1)
        both = load_u32(record + L.A_SEEN) & load_u32(record + L.A_UPDATED)
        if both and load_u32(launch + L.APART):
            store_u32(launch + L.STOP, 4)
    store_u64(out, load_u64(record + L.A_DATA) + offset)
    store_u64(out + 8, load_u64(record + L.A_INIT) + offset)
    store_u64(out + 16, load_u64(record + L.A_SHADOW) + 4 * (offset >> 1))
    if load_u64(block + L.MBARRIERS) and info & L.SYNC_OPERATION == 0:
        _guard(thread, launch, block, info, address, load_u64(out + 8), L.S_GLOBAL)
    if load_u32(thread + L.GID) < 32:
        _observe(thread, launch, info, address, 0)
    meta = load_u64(record + L.A_META)
    if meta == 0:
        return 0
    if kind == L.STRONG_READ and load_u8(load_u64(out + 8)) & 2:
        info |= 1 << 22
    shift = load_u32(record + L.A_SHIFT)
    first, last = offset >> shift, (offset + nbytes - 1) >> shift
    if load_u64(record + L.A_WRITERS):
        note_or_blind(thread, block, launch, record, first, last, info, out)
    first, last = meta + 16 * first, meta + 16 * last
    return check_races(thread, block, launch, first, last, info, address, L.S_GLOBAL, shift)


@native
def note_remote(thread: int, block: int, owner: int, site: int) -> None:
    """Remember that a thread of another block used shared memory: its block must outlive that."""
    table = load_u64(owner + L.REMOTE)
    if table != 0:
        cell = table + 8 * load_u32(thread + L.CLOCK_AT)
        store_u32(cell, load_u32(thread + L.CLOCK))
        store_u32(cell + 4, site)


@native
def variable_below(table: int, count: int, place: int) -> int:
    """Return the record of the last variable that begins at an address or below it, or 0."""
    best = 0
    for index in range(count):
        record = table + index * L.V_RECORD
        if load_u32(record + L.V_ADDRESS) <= place:
            best = record
    return best


@native
def shared_variable(launch: int, place: int) -> int:
    """Return the record of the last shared variable that begins at an address or below, or 0."""
    table, count = load_u64(launch + L.SHARED_TABLE), load_u32(launch + L.SHARED_COUNT)
    return variable_below(table, count, place)


@native
def access_shared_of(
    thread: int, block: int, launch: int, owner: int, place: int, info: int, out: int
) -> int:
    """Access the shared memory of a block (`owner`: its record) at an offset in its window."""
    nbytes = info & 0xFFFF
    table, count = load_u64(launch + L.SHARED_TABLE), load_u32(launch + L.SHARED_COUNT)
    if count == 0:
        return _fault(thread, launch, L.K_BOUNDS, info, place, 0xFFFFFFFF, L.S_SHARED, out)
    record = variable_below(table, count, place)
    record = table if record == 0 else record
    inside = place - load_u32(record + L.V_ADDRESS)
    if inside < 0 or inside + nbytes > load_u32(record + L.V_BYTES):
        name = (record - table) // L.V_RECORD
        return _fault(thread, launch, L.K_BOUNDS, info, place, name, L.S_SHARED, out)
    if nbytes > 1 and place & (nbytes - 1) and nbytes & (nbytes - 1) == 0:
        name = (record - table) // L.V_RECORD
        return _fault(thread, launch, L.K_MISALIGNED, info, place, name, L.S_SHARED, out)
    kind = (info >> 16) & 15
    if load_u64(block + L.BLOCK_PEERS):
        _note_store(block, kind)  # own shared memory alone is part of a block's state (waiting.py)
    if kind >= L.ATOMIC:
        _note_strong(thread, info, place, L.S_SHARED)
    offset = load_u32(record + L.V_DATA) + inside
    store_u64(out, load_u64(owner + L.SHARED_DATA) + offset)
    store_u64(out + 8, load_u64(owner + L.SHARED_INIT) + offset)
    store_u64(out + 16, load_u64(owner + L.SHARED_SHADOW) + 4 * (offset >> 1))
    if load_u64(owner + L.MBARRIERS) and info & L.SYNC_OPERATION == 0:
        _guard(thread, launch, owner, info, place, load_u64(out + 8), L.S_SHARED)
    if owner != block:
        note_remote(thread, block, owner, info >> 24)
    if load_u32(thread + L.GID) < 32:
        _observe(thread, launch, info, offset, 1)
    meta = load_u64(owner + L.SHARED_META)
    if meta == 0:
        return 0
    shift = load_u32(launch + L.SHARED_SHIFT)
    first = meta + 16 * (offset >> shift)
    last = meta + 16 * ((offset + nbytes - 1) >> shift)
    return check_races(thread, block, launch, first, last, info, place, L.S_SHARED, shift)


@export("int64(int64, int64, int64, int64, int64, int64)")
def rt_access_shared(
    thread: int, block: int, launch: int, address: int, info: int, out: int
) -> int:
    """Access shared memory of the own block, or of another one of the cluster."""
    place = address & _LOW if address >= 0 else address
    rank = (place >> 27) & 31 if 0 <= place < (1 << 32) else 0
    if rank == 0:
        return access_shared_of(thread, block, launch, block, place, info, out)
    peers = load_u64(block + L.BLOCK_PEERS)
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    if rank > size * load_u32(launch + L.CLUSTER_DIM + 8):
        return _fault(thread, launch, L.K_BOUNDS, info, place, 0xFFFFFFFF, L.S_SHARED, out)
    # A launch without clusters has clusters of one block.
    owner = load_u64(peers + 8 * (rank - 1)) if peers else block
    if load_u32(owner + L.BLOCK_STATE) == 1:
        return _fault(thread, launch, L.K_EXITED_SHARED, info, place, 0xFFFFFFFF, L.S_SHARED, out)
    return access_shared_of(thread, block, launch, owner, place & ((1 << 27) - 1), info, out)


@export("int64(int64, int64, int64, int64, int64, int64)")
def rt_access_local(thread: int, block: int, launch: int, address: int, info: int, out: int) -> int:
    """Access the thread's own memory; nobody else can race there."""
    nbytes = info & 0xFFFF
    place = address & _LOW if address >= 0 else address
    table, count = load_u64(launch + L.LOCAL_TABLE), load_u32(launch + L.LOCAL_COUNT)
    if count == 0:
        return _fault(thread, launch, L.K_BOUNDS, info, place, 0xFFFFFFFF, L.S_LOCAL, out)
    record = variable_below(table, count, place)
    record = table if record == 0 else record
    inside = place - load_u32(record + L.V_ADDRESS)
    name = (record - table) // L.V_RECORD
    if inside < 0 or inside + nbytes > load_u32(record + L.V_BYTES):
        return _fault(thread, launch, L.K_BOUNDS, info, place, name, L.S_LOCAL, out)
    if nbytes > 1 and place & (nbytes - 1) and nbytes & (nbytes - 1) == 0:
        return _fault(thread, launch, L.K_MISALIGNED, info, place, name, L.S_LOCAL, out)
    offset = load_u32(record + L.V_DATA) + inside
    start = thread + load_u32(launch + L.LOCAL_OFFSET)
    size = load_u32(launch + L.LOCAL_BYTES)
    store_u64(out, start + offset)
    store_u64(out + 8, start + size + offset)
    store_u64(out + 16, start + 2 * size + 4 * (offset >> 1))
    return 0


@export("int64(int64, int64, int64, int64, int64, int64)")
def rt_access_generic(
    thread: int, block: int, launch: int, address: int, info: int, out: int
) -> int:
    """Access memory by a generic address, whose top byte names the space."""
    top = (address >> 56) & 255
    if top == 1:
        return rt_access_shared(thread, block, launch, address, info, out)
    if top == 2:
        return rt_access_local(thread, block, launch, address, info, out)
    if top == 3:
        offset = address - PARAM_WINDOW
        if (info >> 16) & 15 != L.READ or offset + (info & 0xFFFF) > load_u32(
            launch + L.PARAM_BYTES
        ):
            return _fault(thread, launch, L.K_BOUNDS, info, offset, 0xFFFFFFFF, L.S_PARAM, out)
        store_u64(out, load_u64(launch + L.PARAMS) + offset)
        store_u64(out + 8, load_u64(launch + L.SCRATCH) + 16384)  # flags that are all set
        store_u64(out + 16, load_u64(launch + L.SCRATCH) + 8192)
        return 0
    return rt_access_global(thread, block, launch, address, info, out)
