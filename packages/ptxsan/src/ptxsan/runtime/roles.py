"""What strong accesses are for, as `machine.roles` found by reading the kernel."""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import load_u8, load_u64


@native
def role_of(launch: int, site: int) -> int:
    """Return what the strong access of an instruction is for (roles.py)."""
    table = load_u64(launch + L.ROLES)
    return 0 if table == 0 else load_u8(table + site)


@native
def nothing_orders(role: int, other: int) -> bool:
    """Whether an unordered pair of strong accesses is worth a note: data hangs on their order.

    Atomics among themselves, and whoever repeats a read until its value says go, need no order.
    """
    if role == 0 or other == 0 or (role | other) & L.POLLED or role & other & L.UPDATES:
        return False
    if (role | other) & L.LOADS == 0:
        return True
    if role & other & L.LOADS:
        return False
    return (role if role & L.LOADS else other) & L.CARRIES != 0
