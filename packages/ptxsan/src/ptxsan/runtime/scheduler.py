"""Runs the threads of blocks: until they wait, in the order of the schedule, to the end.

One call of `rt_run` works on clusters of blocks taken from a shared counter. A block that goes
round in loops lets others run, up to as many at once as there are contexts for, also where its
loops hold barriers or warp operations; how soon it does, and when it waits, says waiting.py.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.beginning import start_cluster
from ptxsan.runtime.blockwide import arrive, try_open, went_past
from ptxsan.runtime.clusters import cluster_is_open, leave
from ptxsan.runtime.deferred import begin, finish
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    add_u32,
    add_u64,
    call_handler,
    call_step,
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.stuck import may_be_over, report_stuck, report_waiting, time_out
from ptxsan.runtime.together import all_ended, end_knowing, enter, is_held, next_block
from ptxsan.runtime.waiting import changes, repeats

_RAN, _YIELDED, _WAITED = 2, 1, 0
_FIRST_LEAP, _FURTHEST = 1 << 14, 1 << 56  # of clocks, where nobody gets on but by time
_LONGEST = 1 << 16  # rounds of a block whose blocks see nothing of each other


@native
def _random(block: int) -> int:
    """Return the next number of the block's own stream (xorshift)."""
    x = load_u64(block + L.RANDOM)
    x ^= (x << 13) & 0x7FFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= (x << 17) & 0x7FFFFFFFFFFFFFFF
    store_u64(block + L.RANDOM, x)
    return x & 0xFFFFFFFF


@native
def _run_thread(step: int, thread: int, block: int, launch: int) -> int:
    """Run a thread until it waits or ends; return whether it got anywhere."""
    reason = call_step(step, thread, block, launch)
    if load_u32(thread + L.CLOCK) >= L.LAST_TIME:
        store_u32(launch + L.OVERFLOW, 2)
    if reason == L.REASON_COLLECTIVE:
        store_u32(thread + L.STATUS, L.COLLECTIVE)
        return _RAN
    if reason == L.REASON_MEETING:
        store_u32(thread + L.STATUS, L.MEETING)
        return _RAN
    if reason == L.REASON_BARRIER:
        arrive(thread, block, launch)
        return _RAN
    if reason == L.REASON_YIELD:
        return _YIELDED
    if reason == L.REASON_MBARRIER or reason == L.REASON_CLUSTER:
        waits = L.MBARRIER if reason == L.REASON_MBARRIER else L.CLUSTER
        store_u32(thread + L.STATUS, waits)
        return _RAN
    store_u32(thread + L.STATUS, L.EXITED)
    store_u32(block + L.LIVE, load_u32(block + L.LIVE) - 1)
    if reason == L.REASON_TRAP:
        store_u32(launch + L.STOP, 1)
    for number in range(16):
        if load_u32(block + L.ARRIVALS + 8 * number):
            try_open(block, launch, number)
    leave(thread, block, launch)
    return _RAN


@native
def _wake(thread: int, block: int, launch: int) -> bool:
    """Whether a thread can run; who waits for an mbarrier tests it again where that may help."""
    status = load_u32(thread + L.STATUS)
    if status == L.READY:
        return True
    if status == L.MBARRIER:
        wanted = load_u32(thread + L.WAIT_PHASE)
        awake = may_be_over(load_u64(thread + L.WAIT_OBJECT), wanted)
    elif status == L.CLUSTER:
        awake = cluster_is_open(thread, block)
    else:
        return False
    if awake:
        store_u32(thread + L.STATUS, L.READY)
    return awake


@native
def _ready_mask(first: int, count: int, lane: int, stride: int) -> int:
    """Return the lanes of a collective if all have come, else 0."""
    thread = first + lane * stride
    mask = load_u32(thread + L.WAIT_MASK) | 1 << lane
    key, came = load_u32(thread + L.WAIT_KEY), 0
    for other in range(count):
        if (mask >> other) & 1:
            partner = first + other * stride
            status = load_u32(partner + L.STATUS)
            if status == L.EXITED:
                continue
            if status != L.COLLECTIVE or load_u32(partner + L.WAIT_KEY) != key:
                return 0
            if load_u32(partner + L.WAIT_MASK) | 1 << other != mask:
                return 0
            came |= 1 << other
    return came


@native
def _collect(first: int, count: int, block: int, launch: int) -> int:
    """Carry out the collectives of a warp whose lanes have all come; return how many.

    -1 where there are none, and lanes ask who is with them.
    """
    stride, done, asks = load_u32(block + L.BLOCK_STRIDE), 0, False
    for lane in range(count):
        thread = first + lane * stride
        status = load_u32(thread + L.STATUS)
        if status != L.COLLECTIVE:
            asks = asks or status == L.MEETING
            continue
        mask = _ready_mask(first, count, lane, stride)
        if mask == 0:
            continue
        record = load_u64(launch + L.COLLECTIVES) + load_u32(thread + L.WAIT_KEY) * L.C_RECORD
        inputs = load_u32(record + L.C_INPUTS)
        if load_u32(thread + L.WAIT_MASK) >> lane & 1 == 0:
            site, gid = load_u32(thread + L.WAIT_SITE), load_u32(thread + L.GID)
            report_pair(launch, L.K_DIVERGENT_COLLECTIVE, site, gid, 1, 0xFFFFFFFF, gid)
        _check_absent(thread, first, count, stride, launch)
        call_handler(
            load_u64(record + L.C_HANDLER), first + L.EXCHANGE, stride, mask, inputs, inputs,
            load_u64(record + L.C_IMMEDIATE),
        )  # fmt: skip
        whole = mask == (1 << count) - 1
        for other in range(count):
            if (mask >> other) & 1:
                partner = first + other * stride
                store_u32(partner + L.STATUS, L.READY)
                store_u32(partner + L.MEETINGS, load_u32(partner + L.MEETINGS) + whole)
        done += 1
    return -1 if asks and done == 0 else done


@native
def _meet(first: int, count: int, block: int, launch: int) -> None:
    """Let lanes that ask who is with them go on, those at one instruction together.

    No other lane of the warp can run, so whoever comes to that instruction has come.
    """
    stride = load_u32(block + L.BLOCK_STRIDE)
    for lane in range(count):
        thread = first + lane * stride
        if load_u32(thread + L.STATUS) != L.MEETING:
            continue
        site, mask = load_u32(thread + L.WAIT_SITE), 0
        for other in range(lane, count):
            partner = first + other * stride
            if load_u32(partner + L.STATUS) != L.MEETING:
                continue
            if load_u32(partner + L.WAIT_SITE) == site:
                store_u32(partner + L.STATUS, L.READY)
                mask |= 1 << other
        record = load_u64(launch + L.COLLECTIVES) + load_u32(thread + L.WAIT_KEY) * L.C_RECORD
        inputs = load_u32(record + L.C_INPUTS)
        call_handler(
            load_u64(record + L.C_HANDLER), first + L.EXCHANGE, stride, mask, inputs, inputs,
            load_u64(record + L.C_IMMEDIATE),
        )  # fmt: skip


@native
def _check_absent(thread: int, first: int, count: int, stride: int, launch: int) -> None:
    """Lanes of the mask that have exited must not have gone around the operation."""
    mask = load_u32(thread + L.WAIT_MASK)
    for other in range(count):
        partner = first + other * stride
        if (mask >> other) & 1 and load_u32(partner + L.STATUS) == L.EXITED:
            if went_past(launch, thread, partner):
                report_pair(
                    launch, L.K_DIVERGENT_COLLECTIVE, load_u32(thread + L.WAIT_SITE),
                    load_u32(thread + L.GID), 2, 0xFFFFFFFF, load_u32(partner + L.GID),
                )  # fmt: skip
            return


@native
def _run_warp(step: int, first: int, count: int, block: int, launch: int, rounds: int) -> int:
    """Run a warp until all its lanes wait at block barriers, yield or have ended.

    After `rounds` it stops where it is. Returns what its lanes did, and the rounds left << 8.
    """
    best = _WAITED
    while load_u32(launch + L.STOP) == 0:
        stride, schedule = load_u32(block + L.BLOCK_STRIDE), load_u32(launch + L.SCHEDULE)
        ran, turn = _WAITED, 0
        if schedule == 1:
            turn = count - 1
        elif schedule == 2:
            turn = _random(block) % count
        for index in range(count):
            lane = turn - index if schedule == 1 else (turn + index) % count
            thread = first + lane * stride
            if _wake(thread, block, launch):
                ran = max(ran, _run_thread(step, thread, block, launch))
        best = max(best, ran)
        rounds -= 1
        met = _collect(first, count, block, launch)
        if met <= 0 and ran != _RAN:
            if met == 0:
                break
            _meet(first, count, block, launch)
            best = _RAN
        if rounds <= 0:
            break
    return best | max(rounds, 0) << 8


@native
def _run_warps(step: int, block: int, launch: int, rounds: int) -> int:
    """Run every warp of a block once; return as _run_warp does."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, warps = load_u64(block + L.BLOCK_THREAD0), (threads + 31) // 32
    schedule = load_u32(launch + L.SCHEDULE)
    best, turn = _WAITED, 0
    if schedule == 2:
        turn = _random(block) % warps
    for index in range(warps):
        warp = warps - 1 - index if schedule == 1 else (turn + index) % warps
        count = min(32, threads - 32 * warp)
        place = first + 32 * warp * stride
        found = _run_warp(step, place, count, block, launch, rounds)
        best, rounds = max(best, found & 255), found >> 8
    return best | rounds << 8


@native
def run_block(step: int, block: int, launch: int, outside: int, peers: int, size: int) -> int:
    """Run a block until it has to wait, or others should run.

    `outside`: changes of memory by blocks outside of its cluster, whose records lie at `peers`.
    Returns 1 when it has ended, 0 when it can only go on once memory changes, 3 when others should
    run, 4 when every thread waits at a barrier or for an mbarrier.
    """
    gives_way = load_u32(launch + L.GIVES_WAY)
    while load_u32(launch + L.STOP) == 0:
        rounds = _LONGEST
        if gives_way:
            rounds = load_u32(block + L.PATIENCE)
            store_u32(launch + L.FUEL, rounds)
        while load_u32(launch + L.STOP) == 0:
            found = _run_warps(step, block, launch, rounds)
            best, rounds = found & 255, found >> 8
            if load_u32(block + L.LIVE) == 0:
                return 1
            if best == _WAITED:
                return 4
            if best == _YIELDED or rounds == 0:
                break
        if repeats(block, launch, outside + changes(peers, 1, 0, size)):
            return 0
        patience = 2 * load_u32(block + L.PATIENCE)
        if not gives_way or patience > load_u32(launch + L.MOST_FUEL):
            return 3
        store_u32(block + L.PATIENCE, patience)
    return 2


@native
def _advance(step: int, context: int, size: int, launch: int, outside: int) -> int:
    """Run the blocks of a cluster for a while; return as run_block does for all of them."""
    ended = yielded = waiting = 0
    before = changes(context, 1, 0, size)
    if load_u32(launch + L.PART_COUNT):
        enter(launch, load_u32(context + L.PART))
    for rank in range(size):
        block = context + rank * L.BLOCK_BYTES
        if load_u32(block + L.BLOCK_STATE) == 0:
            state = run_block(step, block, launch, outside, context, size)
            store_u32(block + L.BLOCK_STATE, state if state < 3 else 0)
            if state == 2:
                return 2
            if state == 1:
                if load_u64(launch + L.ENDING):
                    call_handler(load_u64(launch + L.ENDING), block, launch, 0, 0, 0, 0)
                if load_u32(launch + L.PART_COUNT):
                    end_knowing(block, launch)
                threads, stride = (
                    load_u32(block + L.BLOCK_THREADS),
                    load_u32(block + L.BLOCK_STRIDE),
                )
                first, total = load_u64(block + L.BLOCK_THREAD0), 0
                for index in range(threads):
                    total += load_u64(first + index * stride + L.COUNT)
                add_u64(launch + L.EXECUTED, total)
                add_u32(launch + L.BLOCKS_DONE, 1)
            yielded = 3 if state in (1, 3) else yielded
            waiting += 1 if state == 4 else 0
        ended += 1 if load_u32(block + L.BLOCK_STATE) == 1 else 0
    if ended == size:
        return 1
    if ended + waiting < size or before != changes(context, 1, 0, size):
        return yielded if ended + waiting < size else 3
    if time_out(context, size):
        return 3
    report_stuck(context, size, launch)
    return 2


@export("int64(int64, int64, int64, int64, int64, int64)")
def rt_run(step: int, launch: int, contexts: int, room: int, order: int, units: int) -> int:
    """Run clusters from the shared counter until none is left.

    `contexts` are `room` groups of block records, one record a block of a cluster; `order` lists
    the clusters (u32). Returns 0, 2 where a block was stuck, and where the launch PAUSES, 4 once
    all blocks wait for memory, 5 where they got on before that, or had so many turns: the next call
    goes on from there. A loop that counts while it waits never stands still.

    Each turn begins one cluster more; as many as there are where all of them wait, since the one
    that they wait for may be the last. Those that wait are passed over until memory changes.
    Every other turn goes the other way, as chains of blocks that wait may do. Where all wait, time
    passes faster and faster, for loops that end by a clock. Blocks of HELD devices take a turn only
    after one in which nobody else got on.
    """
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    size *= load_u32(launch + L.CLUSTER_DIM + 8)
    group = size * L.BLOCK_BYTES
    store_u64(launch + L.ORDER, order)
    store_u32(launch + L.UNITS, units)
    idle = turn = taken = 0
    active, pauses = _resumed(contexts, room, group), load_u32(launch + L.PAUSES)
    total, moved = changes(contexts, room, group, size), active == 0
    held = 1 if load_u32(launch + L.HELD) else 0
    while load_u32(launch + L.STOP) == 0:
        wanted = min(max(1, active) if idle else 1, room - active)
        started = _start(contexts, room, size, launch, order, units, wanted, idle > 0)
        active += started
        if active == 0 and (load_u32(launch + L.PART_COUNT) == 0 or all_ended(launch)):
            finish(contexts, launch, True)
            return 0
        all_wait = started == 0 and idle >= load_u32(launch + L.IDLE_ROUNDS) + held
        if pauses and (all_wait or taken >= pauses):
            return 5 if moved else 4
        if all_wait:
            if load_u32(launch + L.NEXT) >= units or active < room:
                report_waiting(contexts, room, group, size, launch)
            else:
                store_u32(launch + L.OVERFLOW, L.TOO_MANY_WAIT)
            store_u32(launch + L.STOP, 1)
            return 2
        turn += 1
        progress = started > 0
        for index in range(room):
            context = contexts + (index if turn & 1 else room - 1 - index) * group
            if load_u8(context + L.IN_USE) == 0:
                continue
            if held and idle == 0 and is_held(launch, load_u32(context + L.DEVICE)):
                continue
            if size == 1 and load_u64(context + L.WAITS_SINCE) == 1 + total:
                continue
            before = changes(context, 1, 0, size)
            state = _advance(step, context, size, launch, total - before)
            taken += 1
            changed = changes(context, 1, 0, size) - before
            total += changed
            progress = progress or state != 0 or changed != 0
            if state == 2:
                store_u32(launch + L.STOP, max(1, load_u32(launch + L.STOP)))
                return 2
            if state == 1:
                finish(context, launch, False)
                store_u32(context + L.IN_USE, 0)
                active -= 1
        moved = moved or progress
        idle = 0 if progress else idle + 1
        if idle and not pauses and load_u32(launch + L.READS_CLOCKS):
            ahead = load_u64(launch + L.CLOCK_AHEAD)
            store_u64(launch + L.CLOCK_AHEAD, min(ahead + max(ahead, _FIRST_LEAP), _FURTHEST))
    return 2


@native
def _resumed(contexts: int, room: int, group: int) -> int:
    """Let blocks that waited look again at memory; return how many there are."""
    count = 0
    for index in range(room):
        context = contexts + index * group
        if load_u8(context + L.IN_USE):
            store_u64(context + L.WAITS_SINCE, 0)
            count += 1
    return count


@native
def _start(
    contexts: int, room: int, size: int, launch: int, order: int, units: int, wanted: int,
    helps: bool,
) -> int:  # fmt: skip
    """Begin clusters from the shared counter, as many as wanted; return how many there were.

    Of several launches, the first one that may begin has its next block begin.
    """
    group, count = size * L.BLOCK_BYTES, 0
    while count < wanted:
        if load_u32(launch + L.PART_COUNT):
            number = next_block(launch, units, helps)
        else:
            number = add_u32(launch + L.NEXT, 1)
        if number >= units:
            break
        place = contexts + _free(contexts, room, group) * group
        start_cluster(place, size, launch, load_u32(order + 4 * number))
        begin(place, number)
        count += 1
    return count


@native
def _free(contexts: int, room: int, group: int) -> int:
    for index in range(room):
        if load_u32(contexts + index * group + L.IN_USE) == 0:
            store_u32(contexts + index * group + L.IN_USE, 1)
            return index
    return 0
