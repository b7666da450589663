"""st.async and red.async: registers to shared memory of the cluster, completed on an mbarrier.

PTX ISA, "Data Movement: st.async" and "Parallel Synchronization: red.async". The forms of later
architectures (.mmio, .release, without a barrier) are not modelled.
"""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.cells import Cell
from ptxsan.emit.context import Emit
from ptxsan.emit.mbarriers import object_address, site_of
from ptxsan.emit.registry import emits
from ptxsan.emit.values import width_of
from ptxsan.isa import space_of
from ptxsan.runtime import inflight
from ptxsan.runtime.reductions import OPERATIONS, TYPES
from ptxsan.syntax import Instruction, Vector

_HERE = (("i64", "%thread.i"), ("i64", "%block.i"), ("i64", "%launch.i"))
_ALLOWED = {
    "add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",),
    "dec": ("u32",), "and": ("b32",), "or": ("b32",), "xor": ("b32",),
}  # fmt: skip


@emits("st", "red", where=lambda ins: "async" in ins.parts)
def emit_async_store(cx: Emit, ins: Instruction) -> None:
    """Start a store of one element or a vector, or a reduction of one element."""
    if "mbarrier::complete_tx::bytes" not in ins.parts or len(ins.operands) != 3:
        cx.unsupported("completes on no mbarrier, which only later architectures have")
    type_ = ins.parts[-1]
    given = ins.operands[1]
    items = given.items if isinstance(given, Vector) else (given,)
    size = width_of(type_) // 8
    where = object_address(cx, ins.operands[0], space_of(ins))
    barrier = object_address(cx, ins.operands[2], space_of(ins))
    arguments = (("i64", where), ("i64", barrier), ("i64", str(size * len(items))))
    place = cx.call(
        "i64", "rt_async_store", *_HERE, *arguments, ("i64", str(_how(cx, ins))), site_of(cx)
    )
    entry = cx.let(f"inttoptr i64 {place} to ptr")
    data, init, shadow = (
        cx.let(f"getelementptr i8, ptr {entry}, i64 {offset}")
        for offset in (inflight.DATA, inflight.INIT, inflight.SHADOW)
    )
    cell = Cell(data=data, init=init, shadow=shadow, raced="0", space="shared", kind="atomic")
    for index, item in enumerate(items):
        cells.store(cx, cell, index * size, cx.read(item, type_))


def _how(cx: Emit, ins: Instruction) -> int:
    """Return the operation and the type of a reduction; 0 for a store."""
    if ins.base == "st":
        return 0
    operation, type_ = ins.parts[-2], ins.parts[-1]
    if type_ not in _ALLOWED.get(operation, ()):
        cx.unsupported("is an asynchronous reduction that no architecture has")
    return OPERATIONS.index(operation) << 8 | TYPES.index(type_) << 16
