"""cp.async with commit and wait groups; bulk and tensor copies are another family."""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.runtime import layout
from ptxsan.syntax import Immediate, Instruction, Register

_OTHERS = frozenset(("bulk", "tensor", "mbarrier", "reduce"))


@emits("cp", where=lambda ins: "async" in ins.parts and not _OTHERS & set(ins.parts))
def emit_copy(cx: Emit, ins: Instruction) -> None:
    """Start a copy, close a group, or wait for groups."""
    cx.parts.uses_copies = True
    if "commit_group" in ins.parts:
        cx.call("void", "rt_copy_commit", ("i64", "%thread.i"))
    elif "wait_group" in ins.parts or "wait_all" in ins.parts:
        pending = ins.operands[0] if ins.operands else Immediate((1 << 64) - 1, "int")
        count = cx.read(pending, "s64")
        cx.store_field("%thread", layout.COPY_WAIT, str(cx.site + 1))
        cx.call(
            "void",
            "rt_copy_wait",
            *[("i64", one) for one in ("%thread.i", "%block.i", "%launch.i", count.bits)],
        )
    else:
        size = ins.operands[2]
        if not isinstance(size, Immediate) or size.bits not in (4, 8, 16):
            cx.unsupported("needs a size of 4, 8 or 16 bytes")
        places = []
        for operand, space in zip(ins.operands[:2], ("shared", "global"), strict=True):
            text, poison = cells.address(cx, operand, space)
            if poison != "false":
                cells.report_if(cx, poison, layout.K_POISON_ADDRESS, text)
            places.append(text)
        cx.call(
            "void",
            "rt_copy_start",
            *[("i64", one) for one in ("%thread.i", "%block.i", "%launch.i", *places)],
            ("i64", str(size.bits)),
            ("i64", _given(cx, ins, size.bits)),
            ("i64", str(cx.site)),
        )


def _given(cx: Emit, ins: Instruction, size: int) -> str:
    """Return how many bytes come from global memory: a source size, or nothing if ignored."""
    if len(ins.operands) < 4 or ("cache_hint" in ins.opcode and len(ins.operands) == 4):
        return str(size)
    operand = ins.operands[3]
    if isinstance(operand, Register) and cx.program.registers.get(operand.name) == "pred":
        ignored = cx.read(operand, "pred")
        return cx.let(f"select i1 {ignored.bits}, i64 0, i64 {size}")
    given: Value = cx.read(operand, "u32")
    return cx.let(f"zext i32 {given.bits} to i64")
