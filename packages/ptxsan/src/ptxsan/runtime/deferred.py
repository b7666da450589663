"""Deferred updates at run time: where they are kept, and the turn in which they are carried out.

The launch's TURN counts the clusters whose updates are done, in the order of the launch. A host
thread keeps those of several clusters (a book of U_TABLES tables), so that it need not wait for a
slower one each time a cluster ends. Clusters are handed out in the order: whoever has the oldest
updates is running or comes to them next, so every wait ends.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    add_u32,
    call_handler,
    give_way,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)


@native
def _table(book: int, index: int) -> int:
    return book + L.U_HEADER + index % L.U_TABLES * L.U_BYTES


@native
def begin(block: int, number: int) -> None:
    """Begin to keep the updates of the cluster that is the `number`th in the order."""
    book = load_u64(block + L.BOOK)
    if book != 0:
        table = _table(book, load_u32(book + L.U_NEWEST))
        store_u64(block + L.DEFERRED, table)
        store_u32(table + L.U_COUNT, 0)
        store_u32(table + L.U_NUMBER, number)


@native
def _carry_out(table: int, block: int, launch: int) -> None:
    """Carry out the updates of a table in their order, and empty it."""
    function = load_u64(launch + L.CARRY_OUT)
    for index in range(load_u32(table + L.U_COUNT)):
        record = table + L.U_ENTRIES + index * L.U_RECORD
        call_handler(function, record, block, launch, 0, 0, 0)
    store_u32(table + L.U_COUNT, 0)


@native
def _has_turn(table: int, launch: int, waits: bool) -> bool:
    """Whether all before a table is done; waits for that if told to, unless all has stopped."""
    number = load_u32(table + L.U_NUMBER)
    while add_u32(launch + L.TURN, 0) != number:
        if not waits or load_u32(launch + L.STOP):
            return False
        give_way()
    return True


@native
def _settle(book: int, block: int, launch: int, most: int) -> bool:
    """Carry out what has its turn; wait until `most` ended clusters at most are left."""
    newest = load_u32(book + L.U_NEWEST)
    for index in range(load_u32(book + L.U_OLDEST), newest):
        table = _table(book, index)
        if not _has_turn(table, launch, newest - index > most):
            return newest - index <= most
        _carry_out(table, block, launch)
        store_u32(book + L.U_OLDEST, index + 1)
        add_u32(launch + L.TURN, 1)
    return True


@native
def finish(block: int, launch: int, last: bool) -> None:
    """Keep the updates of a cluster that has ended until its turn; after the `last` wait for it."""
    book = load_u64(block + L.BOOK)
    if book != 0:
        if not last:
            store_u32(book + L.U_NEWEST, load_u32(book + L.U_NEWEST) + 1)
        _settle(book, block, launch, 0 if last else L.U_TABLES - 1)


@export("int64(int64, int64)")
def rt_defer(block: int, launch: int) -> int:
    """Return the address of a record for one more update."""
    table = load_u64(block + L.DEFERRED)
    count = load_u32(table + L.U_COUNT)
    if count >= L.U_MOST:
        if _settle(load_u64(block + L.BOOK), block, launch, 0) and _has_turn(table, launch, True):
            _carry_out(table, block, launch)
        count = 0
    store_u32(table + L.U_COUNT, count + 1)
    return table + L.U_ENTRIES + count * L.U_RECORD
