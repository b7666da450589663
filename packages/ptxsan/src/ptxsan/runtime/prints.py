"""printf and assert: calls are kept as raw records, and put into words when the launch has ended.

A record holds the address of the format and the bytes of the arguments as the caller laid them
out in its local memory (CUDA C++ Programming Guide, "Formatted Output": int 4 bytes, others 8).
"""

from __future__ import annotations

from ptxsan.program import PARAM_WINDOW
from ptxsan.runtime import layout as L
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    add_u32,
    copy_bytes,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from ptxsan.runtime.reports import report

_LOW = (1 << 56) - 1
_LOCAL = 2


@native
def _record(thread: int, launch: int, site: int, text: int) -> int:
    """Return the address of a new record; 0 where the table is full. Every call is counted."""
    index = add_u32(launch + L.PRINT_COUNT, 1)
    if index >= load_u32(launch + L.PRINT_LIMIT):
        return 0
    record = load_u64(launch + L.PRINT) + index * L.P_RECORD
    store_u32(record + L.P_GID, load_u32(thread + L.GID))
    store_u32(record + L.P_SITE, site)
    store_u32(record + L.P_BYTES, 0)
    store_u64(record + L.P_TEXT, text)
    return record


@native
def _variable(launch: int, place: int) -> int:
    """Return the record of the local variable that an address lies in; 0 if there is none."""
    table, count = load_u64(launch + L.LOCAL_TABLE), load_u32(launch + L.LOCAL_COUNT)
    for index in range(count):
        record = table + index * L.V_RECORD
        inside = place - load_u32(record + L.V_ADDRESS)
        if 0 <= inside < load_u32(record + L.V_BYTES):
            return record
    return 0


@export("int32(int64, int64, int64, int64, int64)")
def rt_print(thread: int, launch: int, text: int, arguments: int, site: int) -> int:
    """Keep one call of vprintf; return what it returns: 0, or -1 where the table is full."""
    record = _record(thread, launch, site, text)
    if record == 0:
        return -1
    if arguments >> 56 == _LOCAL and arguments < PARAM_WINDOW:
        place = arguments & _LOW
        variable = _variable(launch, place)
        if variable != 0:
            inside = place - load_u32(variable + L.V_ADDRESS)
            given = min(load_u32(variable + L.V_BYTES) - inside, L.P_MOST)
            source = (
                thread + load_u32(launch + L.LOCAL_OFFSET) + load_u32(variable + L.V_DATA) + inside
            )
            copy_bytes(record + L.P_DATA, source, given)
            store_u32(record + L.P_BYTES, given)
    return 0


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_assert(
    thread: int, launch: int, text: int, file: int, line: int, function: int, site: int
) -> None:
    """Report a failed assertion, with where its words are."""
    found = report(launch, L.K_ASSERT, site, load_u32(thread + L.GID), 0)
    record = _record(thread, launch, site, text)
    if record == 0:
        return
    store_u64(record + L.P_DATA, file)
    store_u64(record + L.P_DATA + 8, line)
    store_u64(record + L.P_DATA + 16, function)
    store_u32(record + L.P_BYTES, L.P_ASSERTED)
    if found >= 0:
        index = (record - load_u64(launch + L.PRINT)) // L.P_RECORD
        store_u32(load_u64(launch + L.FINDINGS) + found * L.F_RECORD + L.F_EXTRA, index + 1)
