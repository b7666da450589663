"""Findings while a kernel runs: one record for each kind, place and partner, with a count."""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import add_u32, load_u32, load_u64, store_u32, store_u64


@native
def report(launch: int, kind: int, site: int, gid: int, address: int) -> int:
    """Count a finding at a site; return the index of its record if it is new, else -1."""
    return report_pair(launch, kind, site, gid, address, 0xFFFFFFFF, 0)


@native
def report_pair(
    launch: int, kind: int, site: int, gid: int, address: int, other: int, other_gid: int
) -> int:
    """Count a finding of two sites; return the index of its record if it is new, else -1."""
    table, count = load_u64(launch + L.FINDINGS), load_u32(launch + L.FINDING_COUNT)
    count = min(count, load_u32(launch + L.FINDING_LIMIT))
    for index in range(count):
        record = table + index * L.F_RECORD
        if (
            load_u32(record + L.F_KIND) == kind
            and load_u32(record + L.F_SITE) == site
            and load_u32(record + L.F_OTHER_SITE) == other
        ):
            add_u32(record + L.F_COUNT, 1)
            return -1
    index = add_u32(launch + L.FINDING_COUNT, 1)
    if index >= load_u32(launch + L.FINDING_LIMIT):
        return -1
    record = table + index * L.F_RECORD
    store_u32(record + L.F_SITE, site)
    store_u32(record + L.F_OTHER_SITE, other)
    store_u32(record + L.F_GID, gid)
    store_u32(record + L.F_OTHER_GID, other_gid)
    store_u32(record + L.F_COUNT, 1)
    store_u64(record + L.F_ADDRESS, address)
    store_u32(record + L.F_ALLOCATION, 0xFFFFFFFF)
    store_u32(record + L.F_KIND, kind)
    return index


@native
def same_so_far(launch: int, kind: int, site: int, other: int) -> int:
    """Return 1 plus the index of a pair of writes of equal values so far, else 0."""
    table, count = load_u64(launch + L.FINDINGS), load_u32(launch + L.FINDING_COUNT)
    for index in range(min(count, load_u32(launch + L.FINDING_LIMIT))):
        record = table + index * L.F_RECORD
        if (
            load_u32(record + L.F_KIND) == kind
            and load_u32(record + L.F_SITE) == site
            and load_u32(record + L.F_OTHER_SITE) == other
        ):
            return 0 if load_u32(record + L.F_EXTRA) else 1 + index
    return 0


@native
def last_copy_wait(thread: int) -> int:
    """Return by which instruction a thread last waited for cp.async, and whether any is pending."""
    pending = load_u32(thread + L.COPIES) < load_u32(thread + L.COPIES + 4)
    return load_u32(thread + L.COPY_WAIT) | pending << 31


@export("void(int64, int64, int64, int64, int64, int64)")
def rt_report(thread: int, block: int, launch: int, kind: int, site: int, address: int) -> None:
    """Report from compiled code."""
    index = report(launch, kind, site, load_u32(thread + L.GID), address)
    if index >= 0:
        record = load_u64(launch + L.FINDINGS) + index * L.F_RECORD
        store_u32(record + L.F_COPY_WAIT, last_copy_wait(thread))


@export("void(int64, int64, int64)")
def rt_same_value(launch: int, raced: int, same: int) -> None:
    """Say of a race between writes whether the value written was there already."""
    record = load_u64(launch + L.FINDINGS) + (raced - 1) * L.F_RECORD
    if same == 0:
        store_u32(record + L.F_EXTRA, 1)
