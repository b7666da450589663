"""dp4a and dp2a: dot products of bytes (and halves) inside registers, added to an accumulator."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.syntax import Instruction


@emits("dp4a", "dp2a")
def emit_dot(cx: Emit, ins: Instruction) -> None:
    """c + sum of a[i] * b[i]: four bytes by four bytes, or two halves by two of four bytes."""
    a_type, b_type = ins.parts[-2], ins.parts[-1]
    a, b, c = (cx.read(one, "b32") for one in ins.operands[1:4])
    wide = ins.base == "dp2a"
    first = 2 if wide and "hi" in ins.parts else 0
    total = c.bits
    for index in range(2 if wide else 4):
        x = _field(cx, a, index, 16 if wide else 8, a_type == "s32")
        y = _field(cx, b, first + index, 8, b_type == "s32")
        total = cx.let(f"add i32 {total}, {cx.let(f'mul i32 {x}, {y}')}")
    cx.write(ins.operands[0], "b32", total, sources=(a, b, c))


def _field(cx: Emit, value: Value, index: int, bits: int, signed: bool) -> str:
    moved = cx.let(f"shl i32 {value.bits}, {32 - bits * (index + 1)}")
    return cx.let(f"{'ashr' if signed else 'lshr'} i32 {moved}, {32 - bits}")
