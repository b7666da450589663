"""Racing reads that matter to nobody: found by taking their values away.

Threads that hold a copy of somebody else's element load it as well, and Triton lets all of them
load and one store: then a thread may read what another one overwrites, and nobody uses the value.
Two more runs tell. The first learns who writes each granule of global memory, and when; in the
second the loads in question see garbage that counts as unwritten wherever they may race
(runtime/blind.py). Where nothing is different then, no store, no address, no finding and no byte
of memory, what the race could change reaches nothing. Where such a value decides a branch of a
thread without effects, other garbage and what the launch leaves behind are tried as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxsan import isa, pages
from ptxsan.program import Program
from ptxsan.record import Record
from ptxsan.records import Allocation, LaunchState
from ptxsan.runtime import layout as L

_GARBAGE = (0xBF, 0x7F)  # in every byte: about -1.5 and the largest, in any type of float
_LONGEST = 1 << 13  # instructions, up to which race records name each of them
_ABOUT_RACES = (L.K_RACE, L.K_SUSPECT, L.K_SAME_VALUE, L.K_UNORDERED, L.K_ACQUIRE)
Writers = Sequence[NDArray[np.uint8]]
Given = int | Writers


def racing_loads(program: Program, found: Sequence[Record]) -> frozenset[int]:
    """Return the instructions whose plain loads from global memory race with plain stores.

    Empty where their values cannot be taken away: there are asynchronous operations, or the
    kernel is so long that race records round the numbers of instructions.
    """
    if program.asynchronous or len(program.body) > _LONGEST:
        return frozenset()
    sites = (_load_of(program, one) for one in found)
    return frozenset(site for site in sites if site is not None)


def _load_of(program: Program, one: Record) -> int | None:
    if one.kind != L.K_RACE or one.space != L.S_GLOBAL:
        return None
    kinds = {one.other_kind: one.other_site, one.what: one.site}
    if set(kinds) != {L.READ, L.WRITE}:
        return None
    site = kinds[L.READ]
    return site if isa.is_load(program.body[site]) else None


def is_about(one: Record, loads: Collection[int]) -> bool:
    """Whether a record is of a race of one of these loads."""
    if one.kind != L.K_RACE or one.space != L.S_GLOBAL:
        return False
    first = one.what == L.READ and one.site in loads
    return first or (one.other_kind == L.READ and one.other_site in loads)


def bytes_needed(state: LaunchState) -> int:
    """Return what the table of writers and copies of all memory take at most."""
    memory = sum(one.data.size for one in state.allocations)
    return sum(_table_bytes(one) for one in state.allocations) + 2 * memory


def writers(state: LaunchState) -> Writers:
    """Return an empty table of who writes what: for each allocation a record a granule."""
    return [pages.zeros(_table_bytes(one)) for one in state.allocations]


def _table_bytes(one: Allocation) -> int:
    return L.N_RECORD * (one.meta.size // 2 + 1)


def learn(state: LaunchState, writers: Writers) -> None:
    """Let a run note who writes what."""
    _point(state, L.A_WRITERS, writers)


def _point(state: LaunchState, field: int, arrays: Writers) -> None:
    """Put an address into the record of each allocation."""
    address = state.get64(L.ALLOCATIONS)
    table = next(one for one in state.keep if one.ctypes.data == address)
    rows = table.view(np.uint64).reshape(-1, L.A_RECORD // 8)
    for row, array in zip(rows, arrays, strict=False):
        state.keep.append(array)
        row[field // 8] = array.ctypes.data


def givens(state: LaunchState) -> Iterator[Given]:
    """Yield what to give to loads, one run after another; the last is what a run left behind.

    `state` is that of an earlier run; every run so far has left the same.
    """
    yield from _GARBAGE
    yield [one.data.copy() for one in state.allocations]


def take_away(
    state: LaunchState, *, loads: Collection[int], writers: Writers, given: Given
) -> None:
    """Let a run give other bytes to these loads where they may race: one value, or memory's."""
    table = np.zeros(L.B_SITES + _LONGEST, np.uint8)
    for site in loads:
        table[L.B_SITES + site] = 1
    if isinstance(given, int):
        table[: L.B_UNWRITTEN] = given
    else:
        _point(state, L.A_GIVEN, given)
    state.table(L.BLIND, table)
    learn(state, writers)


def others(found: Iterable[Record]) -> set[tuple[int, int, int]]:
    """Return kind and instructions of findings that are not about races."""
    return {(one.kind, one.site, one.other_site) for one in found if one.kind not in _ABOUT_RACES}


def decide(found: Iterable[tuple[int, int, int]]) -> bool:
    """Whether all of some findings are branches that unwritten values decide."""
    return all(kind == L.K_POISON_BRANCH for kind, _, _ in found)
