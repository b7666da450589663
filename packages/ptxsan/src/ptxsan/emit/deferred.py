"""Updates that wait until the blocks before are done: kept by the kernel, carried out afterwards.

Where blocks see nothing of each other but sums that nobody reads (interplay.py), several host
threads run them; each keeps its updates, and all are carried out in the order of the blocks, by
`carry_out(record, block, launch, 0, 0, 0)`: a function beside the kernel's with one case for
each instruction. So roundings, shadows and findings do not depend on how many threads run.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsan.emit import cells
from ptxsan.emit.cells import Cell
from ptxsan.emit.context import Emit
from ptxsan.emit.values import Value
from ptxsan.isa import space_of
from ptxsan.runtime import layout as L
from ptxsan.syntax import Operand

Update = Callable[[list[Value], Cell, int], object]


def update(
    cx: Emit, address: Operand, cell: Cell, offset: int, operand: Value, carry_out: Update
) -> None:
    """Emit an update of one element of global memory: a record for later, or at once.

    It is done at once where the block has no place for records, and in shared memory.
    """
    table = cx.load_field("%block", L.DEFERRED, "i64")
    now = cx.let(f"icmp eq i64 {table}, 0")
    if space_of(cx.ins) == "generic":
        text, _ = cells.address(cx, address, "generic")
        inside = cx.let(f"icmp ne i64 {cx.let(f'lshr i64 {text}, 56')}, 0")
        now = cx.let(f"or i1 {now}, {inside}")
    direct, later, done = cx.fresh("now"), cx.fresh("later"), cx.fresh("updated")
    cx.branch(now, direct, later)
    cx.label(direct)
    carry_out([operand], cell, offset)
    cx.jump(done)
    cx.label(later)
    # Write the record of an update.
    place = cx.call("i64", "rt_defer", ("i64", "%block.i"), ("i64", "%launch.i"))
    record = cx.let(f"inttoptr i64 {place} to ptr")
    cx.store_field(record, L.U_GID, cx.load_field("%thread", L.GID))
    for at, pointer, step in (
        (L.U_DATA, cell.data, 1), (L.U_INIT, cell.init, 1), (L.U_SHADOW, cell.shadow, 2),
    ):  # fmt: skip
        moved = cx.let(f"getelementptr i8, ptr {pointer}, i64 {step * offset}")
        cx.store_field(record, at, moved, "ptr")
    cx.store_field(record, L.U_CASE, str(cx.site))
    cx.store_field(record, L.U_POISON, cx.let(f"zext i1 {operand.poison} to i32"))
    bits = operand.bits
    if operand.width < 64:
        bits = cx.let(f"zext i{operand.width} {bits} to i64")
    cx.store_field(record, L.U_BITS, bits, "i64")
    for lane, text in enumerate(operand.shadow):
        cx.store_field(record, L.U_LANES + 8 * lane, text, "double")
    cx.jump(done)
    cx.label(done)
    start = f"case.{cx.site}:"
    if start in cx.parts.later:
        return
    kernel, cx.lines = cx.lines, []
    places = [cx.load_field("%thread", at, "ptr") for at in (L.U_DATA, L.U_INIT, L.U_SHADOW)]
    bits = cx.load_field("%thread", L.U_BITS, "i64")
    if operand.width < 64:
        bits = cx.let(f"trunc i64 {bits} to i{operand.width}")
    poison = cx.let(f"trunc i32 {cx.load_field('%thread', L.U_POISON)} to i1")
    lanes = tuple(
        cx.load_field("%thread", L.U_LANES + 8 * lane, "double")
        for lane in range(len(operand.shadow))
    )
    given = Value(operand.type, bits, poison, lanes)
    here = Cell(data=places[0], init=places[1], shadow=places[2], raced="0", space=cell.space,
                kind=cell.kind)  # fmt: skip
    carry_out([given], here, 0)
    cx.line("ret void")
    cx.parts.later += [start, *cx.lines]
    cx.lines = kernel


def function(cx: Emit) -> list[str]:
    """Return the lines of `carry_out`; none where nothing is deferred.

    A record stands for its thread there: all that is asked of that is its number in the grid.
    """
    if not cx.parts.later:
        return []
    cases = [one[5:-1] for one in cx.parts.later if one.startswith("case.")]
    table = " ".join(f"i32 {site}, label %case.{site}" for site in cases)
    arguments = "i64 %thread.i, i64 %block.i, i64 %launch.i, i64 %a, i64 %b, i64 %c"
    return [
        "",
        f"define void @carry_out({arguments}) {{",
        *(f"  %{one} = inttoptr i64 %{one}.i to ptr" for one in _POINTERS),
        f"  %case.p = getelementptr i8, ptr %thread, i64 {L.U_CASE}",
        "  %case = load i32, ptr %case.p",
        f"  switch i32 %case, label %none [ {table} ]",
        "none:",
        "  ret void",
        *cx.parts.later,
        "}",
    ]


_POINTERS = ("thread", "block", "launch")
