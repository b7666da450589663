"""Tensor memory of a block: allocation, loads, stores, and who touched it last.

PTX ISA, "TensorCore 5th Generation Family Instructions". 128 lanes and 512 columns of 32 bits; an
address is the lane in its upper half and the column in its lower one. Everything is done where it
is issued, and recorded as not yet done: a load or store of a warp is known to nobody until that
warp has waited for it, an operation of the tensor core to whom waited for an mbarrier that a commit
behind it arrives at (tensor_products.py). So a program that depends on luck shows it in every order
of execution. Sixteen lanes of a column have one record of the last write and three of reads.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.collectives import collective
from ptxsan.runtime.inflight import scratch_of
from ptxsan.runtime.memory import rt_access_generic
from ptxsan.runtime.native import export, native
from ptxsan.runtime.order import NOT, knows
from ptxsan.runtime.races import clock_of, gid_of, record_of, site_of
from ptxsan.runtime.raw import (
    fill,
    load_u8,
    load_u32,
    load_u64,
    store_u8,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reports import report_pair

FREE, LIVE, RELEASED = 0, 1, 2  # states of a unit
STARTED = (1 << 20) - 1  # the time of what its warp has not waited for
OWN_LANES = 256  # beside a warp's quarter, in a complaint: hardware took the warp's own lanes
# What is wrong with an allocation.
BAD_COUNT, NO_ROOM, NO_PERMIT, NOT_ALLOCATED, NO_PAIR, OTHER_COUNT, ALONE = 0, 1, 2, 3, 4, 5, 6
# Fields of `shape`: kind of shape, register columns, whether halves are packed.
S32X32, S16X64, S16X128, S16X256, S16X32 = 0, 1, 2, 3, 4
PACKED = 1 << 16
WRITES = 1 << 17
_UNITS = L.TM_COLUMNS // L.TM_UNIT
_NOBODY = 0xFFFFFFFF


@collective("together")
def together(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """Nothing: the lanes of a warp execute an instruction together."""


@native
def complain(thread: int, launch: int, kind: int, site: int, place: int, extra: int) -> None:
    """Report a misuse of tensor memory."""
    gid = load_u32(thread + L.GID)
    index = report_pair(launch, kind, site, gid, place, _NOBODY, gid)
    if index >= 0:
        store_u32(load_u64(launch + L.FINDINGS) + index * L.F_RECORD + L.F_EXTRA, extra)


@native
def _meets(
    thread: int, launch: int, kind: int, site: int, place: int, record: int, block: int, what: int
) -> None:  # fmt: skip
    """Report an access that meets another one; `what`: what each is, and whether it was waited for.

    1: this one writes; 2: the other wrote; 4: the other warp has not waited for its own.
    """
    other = site_of(record) << load_u32(launch + L.SITE_SHIFT)
    index = report_pair(
        launch, kind, site, load_u32(thread + L.GID), place, other, actor(launch, block, record)
    )
    if index >= 0:
        store_u32(load_u64(launch + L.FINDINGS) + index * L.F_RECORD + L.F_EXTRA, what)


@native
def actor(launch: int, owner: int, record: int) -> int:
    """Return the thread of a record; of a pipe, the one that starts its operations."""
    gid, total = gid_of(record), load_u32(launch + L.TOTAL_THREADS)
    if gid < total:
        return gid
    linear, number = (gid - total) // L.MOST_AGENTS, (gid - total) % L.MOST_AGENTS
    home, peers = owner, load_u64(owner + L.BLOCK_PEERS)
    if peers != 0:
        size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
        for rank in range(size * load_u32(launch + L.CLUSTER_DIM + 8)):
            if load_u32(load_u64(peers + 8 * rank) + L.BLOCK_LINEAR) == linear:
                home = load_u64(peers + 8 * rank)
    cell = load_u64(home + L.TENSOR) + L.TM_PIPES + 8 * (number - L.MOST_MBARRIERS)
    return load_u32(cell) - 1


@native
def _is_late(thread: int, block: int, launch: int, record: int, pipe: int) -> int:
    """Return 0 where what a record stands for is before now, 1 where not, 2 where not waited for.

    `pipe`: the agent that acts for the thread, 0: the thread's warp does.
    """
    gid, mine = gid_of(record), load_u32(thread + L.GID)
    if pipe != 0 and gid == pipe:
        return 0
    total = load_u32(launch + L.TOTAL_THREADS)
    if gid < total:
        if clock_of(record) == STARTED:
            return 2
        first = load_u32(block + L.FIRST_GID)
        if first <= gid and (gid - first) // 32 == (mine - first) // 32:
            return 0  # the same warp, which has waited
    return 1 if knows(thread, block, launch, gid, clock_of(record)) == NOT else 0


@native
def _lacks_fence(thread: int, launch: int, written: int, pipe: int) -> bool:
    """Whether a thread has not fenced since it learnt that another's operation has ended."""
    of_pipe = gid_of(written) >= load_u32(launch + L.TOTAL_THREADS) and gid_of(written) != pipe
    return of_pipe and load_u32(thread + L.TENSOR_FRESH) == 0


@native
def check_cell(
    thread: int, block: int, launch: int, owner: int, lane: int, column: int, writes: int,
    pipe: int, time: int, site: int,
) -> None:  # fmt: skip
    """Hold an access to 16 lanes of a column against those before, and record it.

    As an access of `pipe`'s operation number `time`; where `pipe` is 0, as one of the thread's warp
    that has not been waited for.
    """
    tensor = load_u64(owner + L.TENSOR)
    cell = tensor + L.TM_META + L.TM_RECORD * ((lane >> 4) * L.TM_COLUMNS + column)
    place = lane << 16 | column
    written = load_u64(cell)
    number = site >> load_u32(launch + L.SITE_SHIFT)
    if pipe:
        me = record_of(pipe, time, number, 0)
    else:
        gid = load_u32(thread + L.GID) - (load_u32(thread + L.TID) & 31)
        me = record_of(gid, STARTED, number, 0)
    if written != 0:
        late = _is_late(thread, block, launch, written, pipe)
        if late:
            what = writes | 2 | (4 if late == 2 else 0)
            _meets(thread, launch, L.K_TENSOR_RACE, site, place, written, owner, what)
        elif _lacks_fence(thread, launch, written, pipe):
            _meets(thread, launch, L.K_TENSOR_FENCE, site, place, written, owner, writes | 2)
    oldest = cell + 8
    for index in range(L.TM_READERS):
        at = cell + 8 + 8 * index
        read = load_u64(at)
        if writes:
            if read != 0:
                late = _is_late(thread, block, launch, read, pipe)
                if late:
                    what = 1 | (4 if late == 2 else 0)
                    _meets(thread, launch, L.K_TENSOR_RACE, site, place, read, owner, what)
                store_u64(at, 0)
        elif read == 0 or gid_of(read) == gid_of(me):
            oldest = at
            break
    if writes:
        store_u64(cell, me)
    else:
        store_u64(oldest, me)


@native
def usable(
    thread: int, launch: int, owner: int, column: int, count: int, site: int
) -> bool:  # fmt: skip
    """Whether columns are allocated; who uses others is told so."""
    tensor = load_u64(owner + L.TENSOR)
    for at in range(column, column + count):
        state = FREE
        if 0 <= at < L.TM_COLUMNS:
            state = load_u32(tensor + L.TM_UNITS + 16 * (at // L.TM_UNIT))
        if state != LIVE:
            complain(thread, launch, L.K_TENSOR_OUTSIDE, site, at, state)
            return False
    return True


# ---- allocation


@native
def peer_of(block: int, launch: int, rank: int) -> int:
    """Return block `rank` (0 or 1) of the pair of a block; 0 where there is none."""
    peers = load_u64(block + L.BLOCK_PEERS)
    if peers == 0:
        return 0
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    mine = (load_u32(block + L.CLUSTER_RANK) & ~1) + rank
    if mine >= size * load_u32(launch + L.CLUSTER_DIM + 8):
        return 0
    return load_u64(peers + 8 * mine)


@native
def _run_of(tensor: int, other: int, units: int) -> int:
    """Return the first of so many units that are free, in another block too unless 0, or -1."""
    for first in range(_UNITS - units + 1):
        found = True
        for unit in range(first, first + units):
            if load_u32(tensor + L.TM_UNITS + 16 * unit) == LIVE:
                found = False
            if other and load_u32(other + L.TM_UNITS + 16 * unit) == LIVE:
                found = False
        if found:
            return first
    return -1


@native
def _take(tensor: int, first: int, units: int, site: int) -> None:
    """Mark units as allocated; nobody has written them."""
    for unit in range(first, first + units):
        at = tensor + L.TM_UNITS + 16 * unit
        store_u32(at, LIVE)
        store_u32(at + 4, first)
        store_u32(at + 8, units)
        store_u32(at + 12, site)
        for lane in range(L.TM_LANES):
            fill(tensor + L.TM_INIT + lane * L.TM_COLUMNS + unit * L.TM_UNIT, L.TM_UNIT, 0)


@native
def _given(tensor: int) -> int:
    """Return the next allocation that the other block of a pair made for this one, or -1."""
    made, came = load_u32(tensor + L.TM_GIVEN), load_u32(tensor + L.TM_GIVEN + 4)
    if came >= made:
        return -1
    return load_u32(tensor + L.TM_GIVEN + 8 + 4 * (came % L.MOST_GIVEN))


@native
def _leads(thread: int) -> bool:
    return load_u32(thread + L.TID) & 31 == 0


@native
def _is_count(columns: int) -> bool:
    return 32 <= columns <= L.TM_COLUMNS and columns & (columns - 1) == 0


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_tensor_alloc(
    thread: int, block: int, launch: int, to: int, columns: int, group: int, site: int
) -> None:
    """Allocate columns and write their address to shared memory; every lane of a warp comes."""
    if not _leads(thread):
        return
    tensor, other, given = load_u64(block + L.TENSOR), 0, -1
    if group == 2:
        peer = peer_of(block, launch, 1 - (load_u32(block + L.CLUSTER_RANK) & 1))
        if peer == 0:
            complain(thread, launch, L.K_TENSOR_ALLOC, site, columns, NO_PAIR)
        else:
            other, given = load_u64(peer + L.TENSOR), _given(tensor)
    if load_u32(tensor + L.TM_PERMIT):
        complain(thread, launch, L.K_TENSOR_ALLOC, site, columns, NO_PERMIT)
    if not _is_count(columns):
        complain(thread, launch, L.K_TENSOR_ALLOC, site, columns, BAD_COUNT)
        return
    units = columns // L.TM_UNIT
    first = given >> 16 if given >= 0 else _run_of(tensor, other, units)
    if given >= 0:  # both blocks of a pair allocate together: the other one came first
        store_u32(tensor + L.TM_GIVEN + 4, load_u32(tensor + L.TM_GIVEN + 4) + 1)
        if given & 0xFFFF != units:
            complain(thread, launch, L.K_TENSOR_ALLOC, site, columns, OTHER_COUNT)
    elif first < 0:
        complain(thread, launch, L.K_TENSOR_ALLOC, site, columns, NO_ROOM)
        first = 0
    else:
        _take(tensor, first, units, site)
        if other:
            made = load_u32(other + L.TM_GIVEN)
            _take(other, first, units, site)
            at = other + L.TM_GIVEN + 8 + 4 * (made % L.MOST_GIVEN)
            store_u32(at, first << 16 | units)
            store_u32(other + L.TM_GIVEN, made + 1)
    out = scratch_of(block)
    info = 4 | L.WRITE << 16 | L.SCOPE_CTA << 20 | site << 24
    rt_access_generic(thread, block, launch, to, info, out)
    store_u32(load_u64(out), first * L.TM_UNIT)
    fill(load_u64(out + 8), 4, 1)
    fill(load_u64(out + 16), 8, 0)


@export("void(int64, int64, int64, int64, int64, int64)")
def rt_tensor_dealloc(
    thread: int, block: int, launch: int, address: int, columns: int, site: int
) -> None:
    """Release columns; what is under way to or from them is in danger."""
    if not _leads(thread):
        return
    tensor, first = load_u64(block + L.TENSOR), (address & 0xFFFF) // L.TM_UNIT
    whole = _is_count(columns) and address & (L.TM_UNIT - 1) == 0 and first < _UNITS
    at = tensor + L.TM_UNITS + 16 * min(first, _UNITS - 1)
    if (
        not whole
        or load_u32(at) != LIVE
        or load_u32(at + 4) != first
        or load_u32(at + 8) != columns // L.TM_UNIT
    ):
        complain(thread, launch, L.K_TENSOR_ALLOC, site, address & 0xFFFF, NOT_ALLOCATED)
        return
    fresh = load_u32(thread + L.TENSOR_FRESH)
    store_u32(thread + L.TENSOR_FRESH, 1)  # nothing is read or written: no fence is asked for
    for column in range(address & 0xFFFF, (address & 0xFFFF) + columns):
        for lane in range(0, L.TM_LANES, 16):
            cell = L.TM_RECORD * ((lane >> 4) * L.TM_COLUMNS + column)
            if load_u32(launch + L.RACES):
                check_cell(thread, block, launch, block, lane, column, 1, 0, 0, site)
            fill(tensor + L.TM_META + cell, L.TM_RECORD, 0)
    store_u32(thread + L.TENSOR_FRESH, fresh)
    for unit in range(first, first + columns // L.TM_UNIT):
        store_u32(tensor + L.TM_UNITS + 16 * unit, RELEASED)
        store_u32(tensor + L.TM_UNITS + 16 * unit + 12, site)


@export("void(int64, int64)")
def rt_tensor_relinquish(thread: int, block: int) -> None:
    """Give up the permit to allocate."""
    store_u32(load_u64(block + L.TENSOR) + L.TM_PERMIT, 1)


@native
def check_released(block: int, launch: int) -> None:
    """Say which columns a block that ends has not released."""
    tensor = load_u64(block + L.TENSOR)
    if tensor == 0:
        return
    given = _given(tensor)
    if given >= 0:
        gid, site = (
            load_u32(block + L.FIRST_GID),
            load_u32(tensor + L.TM_UNITS + 16 * (given >> 16) + 12),
        )
        columns = (given & 0xFFFF) * L.TM_UNIT
        index = report_pair(launch, L.K_TENSOR_ALLOC, site, gid, columns, _NOBODY, gid)
        if index >= 0:
            store_u32(load_u64(launch + L.FINDINGS) + index * L.F_RECORD + L.F_EXTRA, ALONE)
    for unit in range(_UNITS):
        at = tensor + L.TM_UNITS + 16 * unit
        if load_u32(at) == LIVE and load_u32(at + 4) == unit:
            gid, site = load_u32(block + L.FIRST_GID), load_u32(at + 12)
            columns = load_u32(at + 8) * L.TM_UNIT
            report_pair(launch, L.K_TENSOR_LEFT, site, gid, columns, _NOBODY, gid)


# ---- loads and stores


@native
def registers_of(shape: int) -> int:
    """Return how many registers a lane gives or takes."""
    kind, count = shape & 15, (shape >> 4) & 0xFFF
    if kind == S16X128:
        return 2 * count
    if kind == S16X256:
        return 4 * count
    return count


@native
def _columns_of(shape: int) -> int:
    """Return how many columns an access covers from its address on."""
    kind, count = shape & 15, (shape >> 4) & 0xFFF
    if kind == S16X64:
        count *= 2
    elif kind == S16X128:
        count *= 4
    elif kind == S16X256:
        count *= 8
    return 2 * count if shape & PACKED else count


@native
def _row(kind: int, lane: int, register: int) -> int:
    """Return the lane of tensor memory, from its address on, of a register of a lane."""
    if kind == S32X32:
        return lane
    if kind == S16X64:
        return lane // 4 + 8 * (lane % 2)
    if kind == S16X128:
        return lane // 4 + 8 * (register % 2)
    if kind == S16X256:
        return lane // 4 + 8 * (register // 2 % 2)
    return lane % 16


@native
def _column(kind: int, lane: int, register: int, half: int) -> int:
    """Return the column of 32 bits, from its address on; `half`: where 16x32bx2 goes on."""
    if kind == S32X32:
        return register
    if kind == S16X64:
        return lane // 2 % 2 + 2 * register
    if kind == S16X128:
        return lane % 4 + 4 * (register // 2)
    if kind == S16X256:
        return register % 2 + 2 * (lane % 4) + 8 * (register // 4)
    return register + half * (lane // 16)


@native
def _reached(
    thread: int, block: int, launch: int, address: int, shape: int, half: int, site: int
) -> int:  # fmt: skip
    """Return the address of what an access covers, -1 where its warp may not touch that.

    An address in the first warp's lanes means the warp's own ones: an example of NVIDIA's that
    leaves the lane out has the right results on a B200 (CUTLASS, 1cta_mma_a_from_tmem.py).
    """
    lane, quarter = (address >> 16) & 0xFFFF, (load_u32(thread + L.TID) >> 5) & 3
    inside = lane - 32 * quarter
    if lane < 32 and quarter:
        complain(thread, launch, L.K_TENSOR_LANES, site, lane, quarter | OWN_LANES)
        address, inside = address + (quarter << 21), lane
    if inside != 0 and not (inside == 16 and shape & 15 != S32X32):
        complain(thread, launch, L.K_TENSOR_LANES, site, lane, quarter)
        return -1
    columns = _columns_of(shape)
    if not usable(thread, launch, block, address & 0xFFFF, columns, site):
        return -1
    if shape & 15 == S16X32 and not usable(
        thread, launch, block, (address & 0xFFFF) + half, columns, site
    ):
        return -1
    return address


@native
def _touch(
    thread: int, block: int, launch: int, address: int, shape: int, half: int, site: int
) -> None:  # fmt: skip
    """Check and record an access of a warp, and keep it until the warp waits for it."""
    if load_u32(launch + L.RACES) == 0:
        return
    lane, first, writes = (address >> 16) & 0xFFFF, address & 0xFFFF, int(shape & WRITES != 0)
    rows, columns = 32 if shape & 15 == S32X32 else 16, _columns_of(shape)
    for turn in range(2 if shape & 15 == S16X32 else 1):
        for column in range(first + turn * half, first + turn * half + columns):
            for row in range(lane, lane + rows, 16):
                check_cell(thread, block, launch, block, row, column, writes, 0, 0, site)
    warp = load_u64(block + L.TENSOR) + L.TM_WARPS + L.TM_WARP * (load_u32(thread + L.TID) >> 5)
    count = load_u32(warp)
    if count >= L.TM_STARTED:
        store_u32(launch + L.OVERFLOW, L.TOO_MANY_STARTED)
        return
    at = warp + 16 + 16 * count
    store_u32(at, address)
    store_u32(at + 4, shape)
    store_u32(at + 8, site)
    store_u32(at + 12, half)
    store_u32(warp, count + 1)


@native
def _read(
    thread: int, block: int, address: int, shape: int, half: int
) -> int:  # fmt: skip
    """Write bits (lower half) and whether somebody wrote them for each register; return where."""
    tensor = load_u64(block + L.TENSOR)
    kind, lane = shape & 15, load_u32(thread + L.TID) & 31
    room = tensor + L.TM_ROOM
    for register in range(registers_of(shape)):
        row = (address >> 16) + _row(kind, lane, register)
        column = (address & 0xFFFF) + _column(kind, lane, register, half)
        if shape & PACKED:
            column = (address & 0xFFFF) + 2 * (column - (address & 0xFFFF))
            place = row * L.TM_COLUMNS + column
            low, high = (
                load_u32(tensor + L.TM_DATA + 4 * place),
                load_u32(tensor + L.TM_DATA + 4 * place + 4),
            )
            bits = low & 0xFFFF | (high & 0xFFFF) << 16
            known = load_u8(tensor + L.TM_INIT + place) & load_u8(tensor + L.TM_INIT + place + 1)
        else:
            place = row * L.TM_COLUMNS + column
            bits = load_u32(tensor + L.TM_DATA + 4 * place)
            known = load_u8(tensor + L.TM_INIT + place)
        store_u64(room + 8 * register, bits | known << 32)
    return int(room)


@export("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_tensor_load(
    thread: int, block: int, launch: int, address: int, shape: int, half: int, number: int,
    site: int,
) -> None:  # fmt: skip
    """Start load `number` of a kernel: its registers are there once the warp has waited."""
    cell = load_u64(block + L.TENSOR) + L.TM_LOADS
    cell += 4 * (L.TM_SITES * load_u32(thread + L.TID) + number)
    store_u32(cell, 0)
    address = _reached(thread, block, launch, address, shape, half, site)
    if address < 0:
        return
    store_u32(cell, 1 + address)
    if _leads(thread):
        _touch(thread, block, launch, address, shape, half, site)


@export("int64(int64, int64, int64, int64, int64, int64)")
def rt_tensor_take(thread: int, block: int, launch: int, shape: int, half: int, number: int) -> int:
    """Return where the registers of load `number` are, or 0 where it has not been started."""
    cell = load_u64(block + L.TENSOR) + L.TM_LOADS
    cell += 4 * (L.TM_SITES * load_u32(thread + L.TID) + number)
    address = load_u32(cell)
    if address == 0:
        return 0
    store_u32(cell, 0)
    return _read(thread, block, address - 1, shape, half)


@export("int64(int64, int64, int64, int64, int64, int64, int64)")
def rt_tensor_store(
    thread: int, block: int, launch: int, address: int, shape: int, half: int, site: int
) -> int:
    """Store the registers in the room, as bits and whether they were written; 0: not allowed."""
    address = _reached(thread, block, launch, address, shape, half, site)
    if address < 0:
        return 0
    if _leads(thread):
        _touch(thread, block, launch, address, shape | WRITES, half, site)
    tensor = load_u64(block + L.TENSOR)
    kind, lane, first = shape & 15, load_u32(thread + L.TID) & 31, address & 0xFFFF
    for register in range(registers_of(shape)):
        word = load_u64(tensor + L.TM_ROOM + 8 * register)
        row = (address >> 16) + _row(kind, lane, register)
        column = _column(kind, lane, register, half)
        bits, known = word & 0xFFFFFFFF, word >> 32 & 1
        if shape & PACKED:
            place = row * L.TM_COLUMNS + first + 2 * column
            store_u32(tensor + L.TM_DATA + 4 * place, bits & 0xFFFF)
            store_u32(tensor + L.TM_DATA + 4 * place + 4, bits >> 16)
            store_u8(tensor + L.TM_INIT + place, known)
            store_u8(tensor + L.TM_INIT + place + 1, known)
        else:
            place = row * L.TM_COLUMNS + first + column
            store_u32(tensor + L.TM_DATA + 4 * place, bits)
            store_u8(tensor + L.TM_INIT + place, known)
    return 1


@export("int64(int64)")
def rt_tensor_room(block: int) -> int:
    """Return where a store finds its registers."""
    return load_u64(block + L.TENSOR) + L.TM_ROOM


@export("void(int64, int64, int64, int64)")
def rt_tensor_wait(thread: int, block: int, launch: int, writes: int) -> None:
    """Loads (or stores) of this warp have ended: they count as done now."""
    if not _leads(thread):
        return
    tensor = load_u64(block + L.TENSOR)
    warp = tensor + L.TM_WARPS + L.TM_WARP * (load_u32(thread + L.TID) >> 5)
    kept, count = 0, load_u32(warp)
    for index in range(count):
        at = warp + 16 + 16 * index
        shape = load_u32(at + 4)
        if int(shape & WRITES != 0) == writes:
            _finish(thread, launch, tensor, at)
        else:
            to = warp + 16 + 16 * kept
            store_u64(to, load_u64(at))
            store_u64(to + 8, load_u64(at + 8))
            kept += 1
    store_u32(warp, kept)


@native
def _finish(thread: int, launch: int, tensor: int, started: int) -> None:
    """Give the records of an access that has ended the time of its thread."""
    address, shape = load_u32(started), load_u32(started + 4)
    lane, first = address >> 16, address & 0xFFFF
    half = load_u32(started + 12)
    number = load_u32(started + 8) >> load_u32(launch + L.SITE_SHIFT)
    gid = load_u32(thread + L.GID)
    mine = record_of(gid, STARTED, number, 0)
    done = record_of(gid, load_u32(thread + L.CLOCK), number, 0)
    rows, columns = 32 if shape & 15 == S32X32 else 16, _columns_of(shape)
    for turn in range(2 if shape & 15 == S16X32 else 1):
        for column in range(first + turn * half, first + turn * half + columns):
            for row in range(lane, lane + rows, 16):
                cell = tensor + L.TM_META + L.TM_RECORD * ((row >> 4) * L.TM_COLUMNS + column)
                for index in range(1 + L.TM_READERS):
                    if load_u64(cell + 8 * index) == mine:
                        store_u64(cell + 8 * index, done)


@export("void(int64, int64)")
def rt_tensor_fence(thread: int, after: int) -> None:
    """Order operations of the tensor core around a synchronization of threads."""
    if after:
        store_u32(thread + L.TENSOR_FRESH, 1)
