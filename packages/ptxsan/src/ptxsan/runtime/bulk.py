"""Bulk and tensor copies: checked where they are issued, moved where they land.

A copy is a list of chunks of 16 bytes. At its issue every chunk is checked like an access of the
issuing thread, and its bytes are marked; when it lands the bytes move, and count as written by the
mbarrier that the copy completes on (or by the issuing thread, for copies in bulk groups). PTX
ISA, "Data Movement and Conversion Instructions: Asynchronous copy".
"""

from __future__ import annotations

from ptxsan.runtime import inflight as F
from ptxsan.runtime import layout as L
from ptxsan.runtime.memory import (
    access_shared_of,
    rt_access_global,
    rt_access_shared,
    shared_variable,
)
from ptxsan.runtime.native import native
from ptxsan.runtime.places import machine_address, region_of
from ptxsan.runtime.proxies import check_fenced
from ptxsan.runtime.races import PLAIN_READS, STRONG_WRITES, merged, record_of
from ptxsan.runtime.raw import (
    copy_bytes,
    fill,
    load_u8,
    load_u32,
    load_u64,
    store_u8,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reductions import reduce_bytes
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.tensor_maps import (
    C_GLOBAL,
    C_HIGH,
    C_LOW,
    C_SHARED,
    chunk,
    element_bytes,
)
from ptxsan.runtime.watch import keep_access

_CHUNK = 16


@native
def _place(entry: int, number: int, out: int) -> None:
    """Write where a chunk is: its shared address in its block, its other address, valid bytes."""
    state = load_u32(entry + F.STATE)
    inner, other = load_u64(entry + F.TARGET), load_u64(entry + F.SOURCE)
    if state == F.TO_GLOBAL:
        inner, other = other, inner
    if load_u32(entry + F.FLAGS) & F.TENSOR:
        chunk(entry, inner, number, out)
        return
    store_u64(out + C_SHARED, inner + _CHUNK * number)
    store_u64(out + C_GLOBAL, other + _CHUNK * number)
    store_u32(out + C_LOW, 0)
    store_u32(out + C_HIGH, _CHUNK)


@native
def mark(init: int, nbytes: int, keep: int, flag: int) -> None:
    for index in range(nbytes):
        store_u8(init + index, load_u8(init + index) & keep | flag)


@native
def issue(entry: int, thread: int, block: int, launch: int) -> None:
    """Check every chunk of a copy as accesses of the issuing thread, and mark its bytes."""
    state, site = load_u32(entry + F.STATE), load_u32(entry + F.SITE)
    out, scratch = F.scratch_of(block), load_u64(launch + L.SCRATCH)
    for number in range(load_u32(entry + F.BYTES) // _CHUNK):
        _place(entry, number, out)
        inner, other = load_u64(out + C_SHARED), load_u64(out + C_GLOBAL)
        low, high = load_u32(out + C_LOW), load_u32(out + C_HIGH)
        read = L.READ << 16 | L.SCOPE_GPU << 20 | site << 24
        write = L.WRITE << 16 | L.SCOPE_GPU << 20 | site << 24
        if state == F.TO_GLOBAL:
            _shared(entry, thread, block, launch, F.SOURCE_BLOCK, inner, _CHUNK | read, out)
            if load_u64(out) != scratch:
                check_fenced(thread, block, launch, block, inner, site)
                mark(load_u64(out + 8), _CHUNK, 255, L.LEAVING)
            if low < high:
                kind = L.ATOMIC << 16 | L.SCOPE_GPU << 20 | site << 24
                kind = kind if load_u32(entry + F.REDUCE) else write
                rt_access_global(thread, block, launch, other + low, high - low | kind, out)
                if load_u64(out) != scratch and load_u32(entry + F.REDUCE) == 0:
                    mark(load_u64(out + 8), high - low, 255, L.LANDING)
            continue
        if state == F.TO_SHARED and low < high:
            rt_access_global(thread, block, launch, other + low, high - low | read, out)
        elif state == F.ACROSS:
            _shared(entry, thread, block, launch, F.SOURCE_BLOCK, other, _CHUNK | read, out)
            if load_u64(out) != scratch:
                check_fenced(thread, block, launch, block, other, site)
                mark(load_u64(out + 8), _CHUNK, 255, L.LEAVING)
        if load_u32(entry + F.REDUCE):
            write = L.ATOMIC << 16 | L.SCOPE_CLUSTER << 20 | site << 24
        _shared(entry, thread, block, launch, F.TARGET_BLOCK, inner, _CHUNK | write, out)
        if load_u64(out) != scratch and load_u32(entry + F.REDUCE) == 0:
            mark(load_u64(out + 8), _CHUNK, 0, L.LANDING)


@native
def _shared(
    entry: int, thread: int, block: int, launch: int, which: int, place: int, info: int, out: int
) -> None:
    owner = load_u64(entry + which)
    if owner != block and load_u32(owner + L.BLOCK_STATE) == 1:
        rank = load_u32(owner + L.CLUSTER_RANK) + 1
        rt_access_shared(thread, block, launch, place + rank * L.RANK_UNIT, info, out)
        return
    access_shared_of(thread, block, launch, owner, place, info, out)


@native
def find_shared(owner: int, launch: int, place: int, nbytes: int, out: int) -> bool:
    """Write where bytes of a block's shared memory are on the host; False if they are nobody's."""
    best = shared_variable(launch, place)
    if best == 0:
        return False
    inside = place - load_u32(best + L.V_ADDRESS)
    if inside + nbytes > load_u32(best + L.V_BYTES):
        return False
    offset = load_u32(best + L.V_DATA) + inside
    store_u64(out, load_u64(owner + L.SHARED_DATA) + offset)
    store_u64(out + 8, load_u64(owner + L.SHARED_INIT) + offset)
    store_u64(out + 16, load_u64(owner + L.SHARED_SHADOW) + 4 * (offset >> 1))
    meta, shift = load_u64(owner + L.SHARED_META), load_u32(launch + L.SHARED_SHIFT)
    store_u64(out + 24, meta + 16 * (offset >> shift) if meta else 0)
    return True


@native
def _find_global(launch: int, address: int, nbytes: int, out: int) -> bool:
    """Write where bytes of global memory are on the host; False if they are nobody's."""
    address = machine_address(launch, address)
    index = region_of(address)
    if index < 0 or index >= load_u32(launch + L.ALLOCATION_COUNT):
        return False
    record = load_u64(launch + L.ALLOCATIONS) + index * L.A_RECORD
    offset = address - load_u64(record + L.A_BASE)
    if offset < 0 or offset + nbytes > load_u64(record + L.A_BYTES):
        return False
    store_u64(out, load_u64(record + L.A_DATA) + offset)
    store_u64(out + 8, load_u64(record + L.A_INIT) + offset)
    store_u64(out + 16, load_u64(record + L.A_SHADOW) + 4 * (offset >> 1))
    return True


@native
def move(to: int, source: int, low: int, nbytes: int) -> None:
    """Copy bytes with their init flags and shadows; `to` and `source` are results of an access."""
    copy_bytes(load_u64(to) + low, load_u64(source), nbytes)
    for index in range(nbytes):
        written = load_u8(load_u64(source + 8) + index) & 1
        store_u8(load_u64(to + 8) + low + index, written)
    copy_bytes(load_u64(to + 16) + 2 * low, load_u64(source + 16), 2 * nbytes)


@native
def _fill(to: int, low: int, high: int, entry: int) -> None:
    """Fill what lies outside of the tensor: zeros, or NaNs where the tensor map says so."""
    data, kind = load_u64(to), load_u8(entry + F.MAP + L.T_TYPE)
    fill(load_u64(to + 8) + low, high - low, 1)
    fill(load_u64(to + 16) + 2 * low, 2 * (high - low), 0)
    fill(data + low, high - low, 0)
    if load_u8(entry + F.MAP + L.T_FILL) == 0:
        return
    size = element_bytes(kind)
    for index in range(low, high):  # the pattern of all ones is a NaN in every floating format
        store_u8(data + index, 0x7F if index % size == size - 1 else 0xFF)


@native
def land(entry: int, home: int, launch: int, agent: int, clock: int) -> None:
    """Move the bytes of a copy to shared memory; they count as written by an agent at a time."""
    out = F.scratch_of(home) + 32
    state, owner = load_u32(entry + F.STATE), load_u64(entry + F.TARGET_BLOCK)
    base = F.scratch_of(home)
    for number in range(load_u32(entry + F.BYTES) // _CHUNK):
        _place(entry, number, base)
        inner, other = load_u64(base + C_SHARED), load_u64(base + C_GLOBAL)
        low, high = load_u32(base + C_LOW), load_u32(base + C_HIGH)
        if not find_shared(owner, launch, inner, _CHUNK, base):
            continue
        if state == F.TO_SHARED:
            if low >= high or not _find_global(launch, other + low, high - low, out):
                low = high = 0
            else:
                move(base, out, low, high - low)
            _fill(base, 0, low, entry)
            _fill(base, high, _CHUNK, entry)
        elif find_shared(load_u64(entry + F.SOURCE_BLOCK), launch, other, _CHUNK, out):
            if load_u32(entry + F.REDUCE):
                reduce_bytes(
                    base, out, _CHUNK, load_u32(entry + F.REDUCE), load_u32(entry + F.TYPE)
                )
            else:
                move(base, out, 0, _CHUNK)
            mark(load_u64(out + 8), _CHUNK, 255 - L.LEAVING, 0)
            read_by(load_u64(out + 24), launch, agent, clock, load_u32(entry + F.SITE), home)
        site = load_u32(entry + F.SITE)
        if load_u32(entry + F.REDUCE):
            reduced_by(load_u64(base + 24), launch, agent, clock, site, _CHUNK, home)
        else:
            written_by(load_u64(base + 24), launch, agent, clock, site, _CHUNK)


@native
def reduced_by(
    meta: int, launch: int, agent: int, clock: int, site: int, nbytes: int, home: int
) -> None:
    """Add an agent to those who updated some bytes of shared memory."""
    if meta == 0:
        return
    record = record_of(agent, clock, site >> load_u32(launch + L.SITE_SHIFT), STRONG_WRITES)
    for place in range(meta, meta + 16 * (nbytes >> load_u32(launch + L.SHARED_SHIFT)), 16):
        _add(place, record, home)
        if load_u64(launch + L.WATCH):
            info = nbytes | L.ATOMIC << 16 | L.SCOPE_CLUSTER << 20 | site << 24
            keep_access(launch, place, agent, clock, info)


@native
def _add(place: int, record: int, home: int) -> None:
    old = load_u64(place + 8)
    store_u64(place + 8, record if old == 0 else merged(old, record, home))


@native
def written_by(meta: int, launch: int, agent: int, clock: int, site: int, nbytes: int) -> None:
    """Make an agent the last writer of some bytes of shared memory."""
    if meta == 0:
        return
    record = record_of(agent, clock, site >> load_u32(launch + L.SITE_SHIFT), 0)
    for place in range(meta, meta + 16 * (nbytes >> load_u32(launch + L.SHARED_SHIFT)), 16):
        store_u64(place, record)
        store_u64(place + 8, 0)
        if load_u64(launch + L.WATCH):
            keep_access(launch, place, agent, clock, nbytes | L.WRITE << 16 | site << 24)


@native
def read_by(meta: int, launch: int, agent: int, clock: int, site: int, home: int) -> None:
    """Add an agent to the readers of a chunk."""
    if meta == 0:
        return
    record = record_of(agent, clock, site >> load_u32(launch + L.SITE_SHIFT), PLAIN_READS)
    for place in range(meta, meta + 16 * (_CHUNK >> load_u32(launch + L.SHARED_SHIFT)), 16):
        _add(place, record, home)
        if load_u64(launch + L.WATCH):
            keep_access(launch, place, agent, clock, _CHUNK | L.READ << 16 | site << 24)


@native
def land_outward(entry: int, thread: int, block: int, launch: int, visible: int) -> None:
    """Move the bytes of a copy to global memory; they are written by its thread once `visible`."""
    base = F.scratch_of(block)
    out = base + 32
    done = load_u32(entry + F.FLAGS) & F.DONE
    site, reduce = load_u32(entry + F.SITE), load_u32(entry + F.REDUCE)
    info = L.SCOPE_GPU << 20 | site << 24 | L.SYNC_OPERATION
    for number in range(load_u32(entry + F.BYTES) // _CHUNK):
        _place(entry, number, base)
        inner, other = load_u64(base + C_SHARED), load_u64(base + C_GLOBAL)
        low, high = load_u32(base + C_LOW), load_u32(base + C_HIGH)
        if not done and find_shared(block, launch, inner, _CHUNK, base):
            mark(load_u64(base + 8), _CHUNK, 255 - L.LEAVING, 0)
            kind = _CHUNK | L.READ << 16 | info
            access_shared_of(thread, block, launch, block, inner, kind, base)
            if low < high and _find_global(launch, other + low, high - low, out):
                _leave(entry, thread, launch, base, out, low, high - low)
        if visible and low < high and _find_global(launch, other + low, high - low, out):
            kind = L.ATOMIC if reduce else L.WRITE
            kind = high - low | kind << 16 | info
            rt_access_global(thread, block, launch, other + low, kind, out)
            mark(load_u64(out + 8), high - low, 255 - L.LANDING, 0)
    store_u32(entry + F.FLAGS, load_u32(entry + F.FLAGS) | F.DONE)


@native
def _leave(
    entry: int, thread: int, launch: int, base: int, out: int, low: int, nbytes: int
) -> None:
    """Write or reduce some bytes of a chunk into global memory."""
    for index in range(nbytes):
        if load_u8(load_u64(base + 8) + low + index) & 1 == 0:
            gid, site = load_u32(thread + L.GID), load_u32(entry + F.SITE)
            report_pair(launch, L.K_POISON_STORE, site, gid, 0, 0xFFFFFFFF, 0)
            break
    store_u64(base, load_u64(base) + low)
    store_u64(base + 8, load_u64(base + 8) + low)
    store_u64(base + 16, load_u64(base + 16) + 2 * low)
    if load_u32(entry + F.REDUCE):
        reduce_bytes(out, base, nbytes, load_u32(entry + F.REDUCE), load_u32(entry + F.TYPE))
        return
    copy_bytes(load_u64(out), load_u64(base), nbytes)
    copy_bytes(load_u64(out + 16), load_u64(base + 16), 2 * nbytes)
    for index in range(nbytes):
        written = load_u8(load_u64(base + 8) + index) & 1
        flags = load_u8(load_u64(out + 8) + index)
        store_u8(load_u64(out + 8) + index, flags & 254 | written)
