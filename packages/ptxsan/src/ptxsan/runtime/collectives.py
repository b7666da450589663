"""What lanes of a warp exchange: handlers of shfl, vote, match, redux and the warp barrier.

A handler gets the address of lane 0's exchange area, the distance between lanes, the mask of the
lanes that came, where outputs begin (slot of the first) and the immediate. Slot: u64 bits,
f64 shadow of two halves, u32 poison.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import share_in_warp
from ptxsan.runtime.native import F, export, native
from ptxsan.runtime.raw import (
    load_f64,
    load_u32,
    load_u64,
    store_f64,
    store_u32,
    store_u64,
)

_SIGNATURE = "void(int64, int64, int64, int64, int64, int64)"
_PREFIX = "collective:"


def collective(name: str) -> Callable[[F], F]:
    """Compile a handler `f(area, stride, mask, inputs, outputs, immediate)` and name it."""
    return export(_SIGNATURE, _PREFIX + name)


@native
def put(slot: int, bits: int, poison: int) -> None:
    """Write an exact value into a slot."""
    store_u64(slot, bits)
    store_f64(slot + 8, 0.0)
    store_f64(slot + 16, 0.0)
    store_u32(slot + 24, poison)


@native
def copy_slot(to: int, source: int) -> None:
    """Copy a value with its shadows and poison."""
    store_u64(to, load_u64(source))
    store_f64(to + 8, load_f64(source + 8))
    store_f64(to + 16, load_f64(source + 16))
    store_u32(to + 24, load_u32(source + 24))


@native
def _source_lane(lane: int, by: int, control: int, mode: int) -> int:
    """Return the lane that shfl reads, plus 64 where it is outside of the segment."""
    clamp, segment = control & 31, (control >> 8) & 31
    low, high = lane & segment, (lane & segment) | (clamp & ~segment & 31)
    by &= 31
    if mode == 0:
        j = lane - by
        inside = j >= high
    elif mode == 1:
        j = lane + by
        inside = j <= high
    elif mode == 2:
        j = lane ^ by
        inside = j <= high
    else:
        j = low | (by & ~segment & 31)
        inside = j <= high
    return j if inside else lane + 64


@collective("shfl")
def shuffle(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """shfl.sync: a lane that does not take part gives an undefined value."""
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        own = area + lane * stride
        by, control = load_u64(own + L.SLOT), load_u64(own + 2 * L.SLOT)
        source = _source_lane(lane, by, control, mode)
        inside = 1 if source < 64 else 0
        source &= 31
        result = own + outputs * L.SLOT
        copy_slot(result, area + source * stride if (mask >> source) & 1 else own)
        unknown = load_u32(own + L.SLOT + 24) | load_u32(own + 2 * L.SLOT + 24)
        if (mask >> source) & 1 == 0:
            unknown = 1
        if unknown:
            store_u32(result + 24, 1)
        put(result + L.SLOT, inside, 0)


@collective("vote")
def vote(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """vote.sync: all, any, uni, ballot."""
    ballot, poison = 0, 0
    for lane in range(32):
        if (mask >> lane) & 1:
            ballot |= (load_u64(area + lane * stride) & 1) << lane
            poison |= load_u32(area + lane * stride + 24)
    result = ballot
    if mode == 0:
        result = 1 if ballot == mask else 0
    elif mode == 1:
        result = 1 if ballot != 0 else 0
    elif mode == 2:
        result = 1 if ballot in (0, mask) else 0
    for lane in range(32):
        if (mask >> lane) & 1:
            put(area + lane * stride + outputs * L.SLOT, result, poison)


@collective("active")
def active(area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int) -> None:
    """activemask: the lanes that came."""
    for lane in range(32):
        if (mask >> lane) & 1:
            put(area + lane * stride + outputs * L.SLOT, mask, 0)


@collective("match")
def match(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """match.any and match.all."""
    everyone = 1
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        found, poison = 0, 0
        value = load_u64(area + lane * stride)
        for other in range(32):
            if (mask >> other) & 1:
                poison |= load_u32(area + other * stride + 24)
                if load_u64(area + other * stride) == value:
                    found |= 1 << other
        if found != mask:
            everyone = 0
        put(area + lane * stride + outputs * L.SLOT, found, poison)
    for lane in range(32):
        if (mask >> lane) & 1:
            result = area + lane * stride + outputs * L.SLOT
            if mode == 1:
                put(result, mask if everyone else 0, load_u32(result + 24))
            put(result + L.SLOT, everyone, load_u32(result + 24))


@native
def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@native
def _reduce(a: int, b: int, mode: int) -> int:
    if mode == 0:
        return a + b
    if mode == 1:
        return min(a, b)
    if mode == 2:
        return max(a, b)
    if mode == 3:
        return a & b
    if mode == 4:
        return a | b
    return a ^ b


@collective("redux")
def reduce_lanes(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """redux.sync on 32-bit integers."""
    result, poison, first = 0, 0, 1
    for lane in range(32):
        if (mask >> lane) & 1:
            value = load_u64(area + lane * stride)
            if mode & 16:
                value = _signed(value)
            result = value if first else _reduce(result, value, mode & 15)
            first = 0
            poison |= load_u32(area + lane * stride + 24)
    for lane in range(32):
        if (mask >> lane) & 1:
            put(area + lane * stride + outputs * L.SLOT, result & 0xFFFFFFFF, poison)


@collective("elect")
def elect(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """elect.sync: the lowest lane leads."""
    leader = 0
    while (mask >> leader) & 1 == 0:
        leader += 1
    for lane in range(32):
        if (mask >> lane) & 1:
            result = area + lane * stride + outputs * L.SLOT
            put(result, leader, 0)
            put(result + L.SLOT, 1 if lane == leader else 0, 0)


@collective("warp_sync")
def warp_sync(area: int, stride: int, mask: int, inputs: int, outputs: int, mode: int) -> None:
    """bar.warp.sync: every lane of the mask learns what the others know."""
    thread0 = area - L.EXCHANGE
    base = 0
    for lane in range(32):
        if (mask >> lane) & 1:
            thread = thread0 + lane * stride
            store_u32(thread + L.KNOWN + 4 * lane, load_u32(thread + L.CLOCK))
            base = max(base, load_u32(thread + L.BASE))
    for other in range(32):
        latest = 0
        for lane in range(32):
            if (mask >> lane) & 1:
                latest = max(latest, load_u32(thread0 + lane * stride + L.KNOWN + 4 * other))
        for lane in range(32):
            if (mask >> lane) & 1:
                store_u32(thread0 + lane * stride + L.KNOWN + 4 * other, latest)
    _share_acquired(thread0, stride, mask)
    share_in_warp(thread0, stride, mask)
    for lane in range(32):
        if (mask >> lane) & 1:
            thread = thread0 + lane * stride
            store_u32(thread + L.CLOCK, load_u32(thread + L.CLOCK) + 1)


@native
def _share_acquired(thread0: int, stride: int, mask: int) -> None:
    """What one lane acquired from other blocks, all lanes know."""
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        for index in range(4):
            place = thread0 + lane * stride + L.FAR + 8 * index
            if load_u32(place) == 0:
                continue
            fenced = thread0 + lane * stride + L.FAR_FENCED + 8 * index
            system = load_u32(thread0 + lane * stride + L.FAR_SYS + 4 * index)
            for other in range(32):
                if (mask >> other) & 1 and other != lane:
                    _learn(thread0 + other * stride, place, fenced, system)


@native
def _learn(thread: int, source: int, fenced: int, system: int) -> None:
    """Keep what another lane saw of a variable; where no place is left, the first is given up."""
    name, found = load_u32(source), 0
    for index in range(3, -1, -1):
        if load_u32(thread + L.FAR + 8 * index) in (0, name):
            found = index
    place, own = thread + L.FAR + 8 * found, thread + L.FAR_FENCED + 8 * found
    own_system = thread + L.FAR_SYS + 4 * found
    if load_u32(place) not in (0, name):
        store_u64(place, 0)
        store_u64(own, 0)
        store_u32(own_system, 0)
    store_u32(place, name)
    store_u32(place + 4, max(load_u32(source + 4), load_u32(place + 4)))
    store_u32(own, max(load_u32(fenced), load_u32(own)))
    store_u32(own + 4, max(load_u32(fenced + 4), load_u32(own + 4)))
    store_u32(own_system, max(system, load_u32(own_system)))
