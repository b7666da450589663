"""Integer comparisons and selections: setp, set, selp, slct."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.integer import INTEGERS
from ptxsan.emit.registry import emits
from ptxsan.emit.values import ZERO, Value, is_signed
from ptxsan.syntax import Instruction, Pair

_ORDERS = {
    "eq": ("eq", "eq"), "ne": ("ne", "ne"), "lt": ("ult", "slt"), "le": ("ule", "sle"),
    "gt": ("ugt", "sgt"), "ge": ("uge", "sge"), "lo": ("ult", "ult"), "ls": ("ule", "ule"),
    "hi": ("ugt", "ugt"), "hs": ("uge", "uge"),
}  # fmt: skip


def _compare(cx: Emit, ins: Instruction, type_: str) -> tuple[str, str]:
    """Return (i1 result, i1 poison) of the comparison that an instruction names."""
    order = next((part for part in ins.parts[1:] if part in _ORDERS), None)
    if order is None:
        cx.unsupported("names no integer comparison")
    a, b = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], type_)
    result = cx.let(f"icmp {_ORDERS[order][is_signed(type_)]} i{a.width} {a.bits}, {b.bits}")
    return result, cx.either(a.poison, b.poison)


def combine(cx: Emit, ins: Instruction, result: str, poison: str) -> Value:
    """Return a comparison's result after `.and`, `.or` or `.xor` with the third operand."""
    operation = next((part for part in ins.parts[1:] if part in ("and", "or", "xor")), None)
    if operation is None:
        return Value("pred", result, poison)
    other = cx.read(ins.operands[3], "pred")
    bits = cx.let(f"{operation} i1 {result}, {other.bits}")
    return Value("pred", bits, cx.either(poison, other.poison))


def write_predicates(cx: Emit, ins: Instruction, result: str, poison: str) -> None:
    """Write the result of setp: `p`, or `p|q` where q is that of the opposite comparison."""
    destination = ins.operands[0]
    if not isinstance(destination, Pair):
        cx.copy(destination, combine(cx, ins, result, poison))
        return
    cx_first = combine(cx, ins, result, poison)
    opposite = combine(cx, ins, cx.let(f"xor i1 {result}, true"), poison)
    cx.copy(destination.first, cx_first)
    cx.copy(destination.second, opposite)


@emits("setp", types=INTEGERS)
def emit_set_predicate(cx: Emit, ins: Instruction) -> None:
    """Compare two integers."""
    result, poison = _compare(cx, ins, ins.parts[-1])
    write_predicates(cx, ins, result, poison)


@emits("set", types=INTEGERS)
def emit_set(cx: Emit, ins: Instruction) -> None:
    """Compare two integers; the result is all ones (or 1.0) where it holds."""
    result, poison = _compare(cx, ins, ins.parts[-1])
    write_mask(cx, ins, combine(cx, ins, result, poison))


def write_mask(cx: Emit, ins: Instruction, found: Value) -> None:
    """Write the result of set in the type that it names first."""
    to = ins.parts[-2]
    one = {"f32": str(0x3F800000), "f16": str(0x3C00), "bf16": str(0x3F80)}.get(to, "-1")
    width = {"f32": 32, "f16": 16, "bf16": 16}.get(to, 32)
    bits = cx.let(f"select i1 {found.bits}, i{width} {one}, i{width} 0")
    cx.write(ins.operands[0], to, bits, poison=found.poison)


@emits("selp")
def emit_select(cx: Emit, ins: Instruction) -> None:
    """Choose by a predicate; only what is chosen can be uninitialised."""
    type_ = ins.parts[-1]
    a, b = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], type_)
    choose = cx.read(ins.operands[3], "pred")
    _choose(cx, ins, choose.bits, choose.poison, a, b)


@emits("slct")
def emit_select_by_sign(cx: Emit, ins: Instruction) -> None:
    """Choose by the sign of the third operand; -0.0 counts as not negative."""
    type_, by = ins.parts[-2], ins.parts[-1]
    a, b = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], type_)
    c = cx.read(ins.operands[3], by)
    if by == "f32":
        yes = cx.let(f"fcmp oge float {cx.as_float(c)}, 0.0")
    else:
        yes = cx.let(f"icmp sge i32 {c.bits}, 0")
    _choose(cx, ins, yes, c.poison, a, b)


def _choose(cx: Emit, ins: Instruction, yes: str, poison: str, a: Value, b: Value) -> None:
    kind = f"i{a.width}"
    bits = cx.let(f"select i1 {yes}, {kind} {a.bits}, {kind} {b.bits}")
    chosen = a.poison
    if a.poison != b.poison:
        chosen = cx.let(f"select i1 {yes}, i1 {a.poison}, i1 {b.poison}")
    undefined = ""
    if a.undefined or b.undefined:
        undefined = cx.let(f"select i1 {yes}, {kind} {cx.undefined(a)}, {kind} {cx.undefined(b)}")
        if poison != "false":
            undefined = cx.let(f"or {kind} {undefined}, {cx.everywhere(poison, a.width)}")
    shadow = []
    for lane in range(cx.lanes(a.type)):
        x, y = a.lane(lane), b.lane(lane)
        both_exact = x == ZERO and y == ZERO
        shadow.append(ZERO if both_exact else cx.let(f"select i1 {yes}, double {x}, double {y}"))
    cx.write(
        ins.operands[0], a.type, bits, poison=cx.either(chosen, poison), shadow=tuple(shadow),
        undefined=undefined,
    )  # fmt: skip
