"""atom and red on floats: add, min and max, rounded to nearest, each element with its shadow.

PTX ISA 9.7.13.5: atom.add.f32 on global memory flushes subnormal operands and results, on shared
memory it keeps them; the .noftz adds of halves keep them everywhere.
"""

from __future__ import annotations

from ptxsan.emit import algebra
from ptxsan.emit.atomics import emit_update
from ptxsan.emit.context import Emit
from ptxsan.emit.floating import (
    as_double,
    as_single,
    canonical32,
    delta,
    exactly,
    flush,
    format_of,
    half_from_single,
    statistics,
)
from ptxsan.emit.halves import HALVES, element
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.isa import space_of
from ptxsan.syntax import Instruction


@emits("atom", "red", types=("f32", "f64", *HALVES))
def emit_float_atomic(cx: Emit, ins: Instruction) -> None:
    """Add to memory, or keep the smaller or larger number."""
    type_ = ins.parts[-1]
    operation = next((part for part in ins.parts[1:] if part in ("add", "min", "max")), None)
    if operation is None:
        cx.unsupported("is a float atomic that is not known")
    emit_update(cx, ins, type_, lambda old, new: _update(cx, ins, operation, old, new[0]))


def _update(cx: Emit, ins: Instruction, operation: str, old: Value, new: Value) -> Value:
    poison = cx.either(old.poison, new.poison)
    if not old.type.endswith("x2"):
        one = _element(cx, ins, operation, old, new)
        return Value(old.type, one.bits, poison, one.shadow)
    name = element(old.type)
    parts = []
    for lane in (0, 1):
        pair = []
        for value in (old, new):
            moved = cx.let(f"lshr i32 {value.bits}, {16 * lane}")
            bits = cx.let(f"trunc i32 {moved} to i16")
            pair.append(Value(name, bits, "false", (value.lane(lane),)))
        parts.append(_element(cx, ins, operation, pair[0], pair[1]))
    low = cx.let(f"zext i16 {parts[0].bits} to i32")
    high = cx.let(f"shl i32 {cx.let(f'zext i16 {parts[1].bits} to i32')}, 16")
    shadow = tuple(part.lane(0) for part in parts)
    return Value(old.type, cx.let(f"or i32 {low}, {high}"), poison, shadow)


def _element(cx: Emit, ins: Instruction, operation: str, old: Value, new: Value) -> Value:
    if operation != "add":
        if old.type not in ("f16", "bf16"):
            cx.unsupported("is a float atomic that no architecture has")
        index = ("i32", str(format_of(old.type).index))
        codes = [("i32", cx.let(f"zext i16 {one.bits} to i32")) for one in (old, new)]
        largest = ("i32", str(int(operation == "max")))
        wide = cx.call("i32", "f_extreme", *codes, index, largest, ("i32", "0"))
        bits = cx.let(f"trunc i32 {wide} to i16")
        same = cx.let(f"icmp eq i16 {bits}, {old.bits}")
        shadow = cx.let(f"select i1 {same}, double {old.lane(0)}, double {new.lane(0)}")
        return Value(old.type, bits, "false", (shadow,))
    actual = [as_double(cx, one.bits, one.type) for one in (old, new)]
    exact = [exactly(cx, text, one.lane(0)) for text, one in zip(actual, (old, new), strict=True)]
    summed = (algebra.as_shadow(cx, algebra.combine(cx, "add", old, new)),) if cx.algebra else ()
    if old.type == "f64":
        total = cx.let(f"fadd double {actual[0]}, {actual[1]}")
        return Value("f64", cx.float_bits(total, 64), "false", summed)
    x, y = as_single(cx, old.bits, old.type), as_single(cx, new.bits, new.type)
    flushes = old.type == "f32" and space_of(ins) != "shared"
    if flushes:
        x, y = flush(cx, x), flush(cx, y)
    total = cx.let(f"fadd float {x}, {y}")
    if old.type == "f32":
        bits = canonical32(cx, flush(cx, total) if flushes else total)
    else:
        bits = half_from_single(cx, total, old.type)
    if cx.algebra:
        return Value(old.type, bits, "false", summed)
    if not cx.shadow_on:
        return Value(old.type, bits)
    cx.call("void", "note_start", ("i64", statistics(cx)), ("double", actual[0]))
    whole, here = (cx.let(f"fadd double {pair[0]}, {pair[1]}") for pair in (exact, actual))
    result = as_double(cx, bits, old.type)
    return Value(old.type, bits, "false", (delta(cx, result, whole, here),))
