"""Which memory an address means: regions of the machine, and the process's own addresses.

Arguments are given as addresses of the machine, whose regions keep allocations far apart. What lies
in memory is never changed for that, since no word tells whether it is an address: tables of
pointers hold the process's own addresses, and one that a kernel uses is looked up as it is used.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import load_u32, load_u64

_ROW = 16


@native
def region_of(address: int) -> int:
    """Return the number of the allocation whose region holds an address; negative if none does."""
    return ((address >> L.REGION_SHIFT) & 0x3FFFFFFF) - L.FIRST_REGION


@native
def machine_address(launch: int, address: int) -> int:
    """Return the machine's address of the same place.

    An address between two buffers is one behind the first of them. One that is the machine's
    already, one below every buffer, and one too far behind all of them stay as they are.
    """
    if address < 0 or region_of(address) >= 0:
        return address
    table, low, high = load_u64(launch + L.OWN_PLACES), 0, load_u32(launch + L.OWN_COUNT)
    while low < high:
        middle = (low + high) // 2
        if load_u64(table + _ROW * middle) <= address:
            low = middle + 1
        else:
            high = middle
    row = table + _ROW * (low - 1)
    if low == 0 or (address - load_u64(row)) >> (L.REGION_SHIFT - 1):
        return address
    return load_u64(row + 8) + address - load_u64(row)
