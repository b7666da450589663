"""Barriers of a block: who has come, when they open, and what everybody knows afterwards."""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import learn, publish, share, tick
from ptxsan.runtime.native import native
from ptxsan.runtime.order import (
    append,
    learn_in_thread,
    release,
    share_with_block,
    slot_of,
)
from ptxsan.runtime.raw import load_u8, load_u32, load_u64, store_u32, store_u64
from ptxsan.runtime.reports import report_pair

_BARRIER_KEY = 4 << 56


@native
def waits_at(thread: int, number: int) -> bool:
    """Whether a thread waits at a barrier of the block."""
    return load_u32(thread + L.STATUS) == L.BARRIER and load_u32(thread + L.WAIT_KEY) == number


@native
def arrive(thread: int, block: int, launch: int) -> int:
    """Take a thread's arrival at a barrier; return 1 if that opened it."""
    number = load_u32(thread + L.WAIT_KEY) & 15
    store_u32(thread + L.WAIT_KEY, number)
    count = block + L.ARRIVALS + 8 * number
    site, gid = load_u32(thread + L.WAIT_SITE), load_u32(thread + L.GID)
    if load_u32(count) != 0 and load_u32(count + 4) != load_u32(thread + L.WAIT_COUNT):
        report_pair(launch, L.K_COUNTS, site, gid, 0, 0xFFFFFFFF, gid)
    arrived = load_u32(thread + L.ARRIVED_AT)
    if (arrived >> number) & 1:
        report_pair(launch, L.K_TWICE, site, gid, 0, 0xFFFFFFFF, gid)
    store_u32(thread + L.ARRIVED_AT, arrived | 1 << number)
    store_u32(count, load_u32(count) + 1)
    store_u32(count + 4, load_u32(thread + L.WAIT_COUNT))
    if load_u32(thread + L.WAIT_OP) & 255 == L.OP_ARRIVE:
        if load_u64(thread + L.CLOCKS) == 0:
            release(thread, block, launch, _key(block, number), 1, 1, L.SCOPE_CTA)
        else:
            publish(thread, block, _clocks(block, number))
            tick(thread)
        store_u32(thread + L.STATUS, L.READY)
    else:
        store_u32(thread + L.STATUS, L.BARRIER)
    return try_open(block, launch, number)


@native
def _clocks(block: int, number: int) -> int:
    """Return the vector clock of a numbered barrier."""
    return load_u64(block + L.NAMED_CLOCKS) + 4 * load_u32(block + L.BLOCK_WORDS) * number


@native
def _key(block: int, number: int) -> int:
    return _BARRIER_KEY | (load_u32(block + L.BLOCK_LINEAR) + 1) << 8 | number


@native
def try_open(block: int, launch: int, number: int) -> int:
    """Open a barrier if everybody it waits for has come; return whether it opened."""
    count = block + L.ARRIVALS + 8 * number
    arrived, expected = load_u32(count), load_u32(count + 4)
    if arrived == 0:
        return 0
    if expected == 0:
        if arrived < load_u32(block + L.LIVE):
            return 0
    elif arrived < expected and arrived + _absent(block, number) < expected:
        return 0
    store_u32(count, 0)
    _open(block, launch, number, expected)
    return 1


@native
def _absent(block: int, number: int) -> int:
    """Lanes that have exited, in warps whose other lanes wait here: a warp counts as a whole."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, absent = load_u64(block + L.BLOCK_THREAD0), 0
    for start in range(0, threads, 32):
        waiting, exited = 0, max(0, start + 32 - threads)
        for index in range(start, min(start + 32, threads)):
            thread = first + index * stride
            if waits_at(thread, number):
                waiting += 1
            elif load_u32(thread + L.STATUS) == L.EXITED:
                exited += 1
        if waiting and waiting + exited == 32:
            absent += exited
    return absent


@native
def _open(block: int, launch: int, number: int, expected: int) -> None:
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first = load_u64(block + L.BLOCK_THREAD0)
    _check_sites(block, launch, number)
    result = _reduction(block, number)
    waiting = 0
    for index in range(threads):
        waiting += 1 if waits_at(first + index * stride, number) else 0
    if expected == 0 and load_u32(block + L.LIVE) < threads:
        _note_ended(block, launch, number)
    if expected == 0 or waiting == threads:
        _know_all(block, launch)
    else:
        _know_some(block, launch, number)
    for index in range(threads):
        thread = first + index * stride
        arrived = load_u32(thread + L.ARRIVED_AT)
        store_u32(thread + L.ARRIVED_AT, arrived & ~(1 << number))
        if waits_at(thread, number):
            store_u32(thread + L.STATUS, L.READY)
            store_u32(thread + L.WAIT_VALUE, result)
            store_u32(thread + L.BARRIERS, load_u32(thread + L.BARRIERS) + 1)


@native
def _note_ended(block: int, launch: int, number: int) -> None:
    """Note that a barrier of the whole block opens without a thread that has ended before it."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, waiting, ended = load_u64(block + L.BLOCK_THREAD0), 0, 0
    for index in range(threads):
        thread = first + index * stride
        if waiting == 0 and waits_at(thread, number):
            waiting = thread
        if ended == 0 and load_u32(thread + L.STATUS) == L.EXITED:
            ended = thread
        if waiting and ended:
            break
    if waiting and ended and not went_past(launch, waiting, ended):
        report_pair(
            launch, L.K_ENDED_BEFORE, load_u32(waiting + L.WAIT_SITE), load_u32(waiting + L.GID),
            0, 0xFFFFFFFF, load_u32(ended + L.GID),
        )  # fmt: skip


@native
def _reduction(block: int, number: int) -> int:
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first = load_u64(block + L.BLOCK_THREAD0)
    total, came, operation = 0, 0, 0
    for index in range(threads):
        thread = first + index * stride
        if waits_at(thread, number):
            came += 1
            operation = load_u32(thread + L.WAIT_OP) & 255
            total += 1 if load_u32(thread + L.WAIT_VALUE) else 0
    if operation == L.OP_AND:
        return 1 if total == came else 0
    if operation == L.OP_OR:
        return 1 if total else 0
    return total


@native
def _know_all(block: int, launch: int) -> None:
    """After a barrier of the whole block everybody knows everything before it."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, latest, unfenced = load_u64(block + L.BLOCK_THREAD0), 0, 0
    for index in range(threads):
        thread = first + index * stride
        latest = max(latest, load_u32(thread + L.CLOCK))
        unfenced |= load_u32(thread + L.UNFENCED)
        share_with_block(thread, block, launch)
        for place in range(4):
            if load_u32(thread + L.FAR + 8 * place) != 0:
                store_u64(thread + L.FAR + 8 * place, 0)
                store_u64(thread + L.FAR_FENCED + 8 * place, 0)
                store_u32(thread + L.FAR_SYS + 4 * place, 0)
    for index in range(threads):
        thread = first + index * stride
        store_u32(thread + L.BASE, latest + 1)
        store_u32(thread + L.CLOCK, latest + 1)
        store_u32(thread + L.PROXY_FRESH, 0)
    store_u32(block + L.BLOCK_TIME, latest + 1)
    share(block)
    if unfenced & 1 == 0:
        store_u32(block + L.PUBLISHED, latest + 1)
    if unfenced == 0:
        store_u32(block + L.PUBLISHED_SYS, latest + 1)
    if latest + 2 >= 1 << 20:
        store_u32(launch + L.OVERFLOW, 2)


@native
def _know_some(block: int, launch: int, number: int) -> None:
    """After a barrier of some threads they know each other."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first = load_u64(block + L.BLOCK_THREAD0)
    if load_u64(block + L.BLOCK_CLOCKS) != 0:
        _know_by_clocks(block, launch, number)
        return
    slot = slot_of(launch, _key(block, number))
    if slot == 0:
        return
    for start in range(0, threads, 32):
        leader = -1
        for index in range(start, min(start + 32, threads)):
            thread = first + index * stride
            if waits_at(thread, number):
                leader = thread if leader < 0 else leader
                store_u32(thread + L.KNOWN + 4 * (index & 31), load_u32(thread + L.CLOCK))
                for other in range(32):
                    place = L.KNOWN + 4 * other
                    store_u32(
                        leader + place, max(load_u32(leader + place), load_u32(thread + place))
                    )
        if leader >= 0:
            base = load_u32(leader + L.BASE)
            append(leader, block, launch, slot, base, leader + L.KNOWN, 1, L.SCOPE_CTA)
    version = load_u32(slot + 8)
    name = (slot - load_u64(launch + L.VARIABLES)) // 16 + 1
    for index in range(threads):
        thread = first + index * stride
        if waits_at(thread, number):
            learn_in_thread(thread, block, launch, name, version, version, version, version)
            store_u32(thread + L.CLOCK, load_u32(thread + L.CLOCK) + 1)


@native
def _know_by_clocks(block: int, launch: int, number: int) -> None:
    """The same with vector clocks; what was acquired from other blocks goes to the whole block."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first, clocks = load_u64(block + L.BLOCK_THREAD0), _clocks(block, number)
    for index in range(threads):
        thread = first + index * stride
        if waits_at(thread, number):
            publish(thread, block, clocks)
            share_with_block(thread, block, launch)
    for index in range(threads):
        thread = first + index * stride
        if waits_at(thread, number):
            learn(thread, block, clocks)
            tick(thread)


@native
def _check_sites(block: int, launch: int, number: int) -> None:
    """Lanes of a warp must come to one aligned barrier, and none may have gone past it."""
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    first = load_u64(block + L.BLOCK_THREAD0)
    for start in range(0, threads, 32):
        waiting = -1
        for index in range(start, min(start + 32, threads)):
            thread = first + index * stride
            if waits_at(thread, number) and load_u32(thread + L.WAIT_OP) >> 8:
                if waiting < 0:
                    waiting = thread
                elif load_u32(waiting + L.WAIT_SITE) != load_u32(thread + L.WAIT_SITE):
                    _divergent(launch, waiting, thread, load_u32(thread + L.WAIT_SITE))
        if waiting >= 0:
            for index in range(start, min(start + 32, threads)):
                thread = first + index * stride
                if load_u32(thread + L.STATUS) == L.EXITED and went_past(launch, waiting, thread):
                    _divergent(launch, waiting, thread, 0xFFFFFFFF)


@native
def went_past(launch: int, waiting: int, exited: int) -> bool:
    """Whether an exited lane last executed code that lies behind where a thread waits."""
    row = load_u32(load_u64(launch + L.REACH_ROWS) + 4 * load_u32(waiting + L.WAIT_SITE))
    column = load_u32(exited + L.LAST_BLOCK)
    place = load_u64(launch + L.REACH) + row * load_u32(launch + L.REACH_WIDTH) + column
    return load_u8(place) != 0


@native
def _divergent(launch: int, waiting: int, thread: int, site: int) -> None:
    report_pair(
        launch, L.K_DIVERGENT_BARRIER, load_u32(waiting + L.WAIT_SITE),
        load_u32(waiting + L.GID), 0, site, load_u32(thread + L.GID),
    )  # fmt: skip
