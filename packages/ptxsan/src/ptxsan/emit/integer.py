"""Integer arithmetic: add to bfe, comparisons, conversions between integers."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value, is_signed, width_of
from ptxsan.syntax import Instruction

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64")


def _operands(cx: Emit, ins: Instruction, type_: str, count: int) -> list[Value]:
    return [cx.read(one, type_) for one in ins.operands[1 : 1 + count]]


def limits(type_: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    width = width_of(type_)
    return (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed(type_) else (0, (1 << width) - 1)
    )


@emits("add", "sub", types=INTEGERS)
def emit_add(cx: Emit, ins: Instruction) -> None:
    """Sum or difference, wrapping or saturating; `.cc` keeps the carry."""
    type_ = ins.parts[-1]
    a, b = _operands(cx, ins, type_, 2)
    kind = f"i{width_of(type_)}"
    if "sat" in ins.parts:
        bits = cx.call(kind, f"llvm.s{ins.base}.sat.{kind}", (kind, a.bits), (kind, b.bits))
    elif "cc" in ins.parts:
        bits = _with_carry(cx, ins.base, kind, a.bits, b.bits, None)
    else:
        bits = cx.let(f"{ins.base} {kind} {a.bits}, {b.bits}")
    cx.write(ins.operands[0], type_, bits, sources=(a, b))


@emits("addc", "subc", types=INTEGERS)
def emit_add_with_carry(cx: Emit, ins: Instruction) -> None:
    """Sum or difference with the carry of the instruction before."""
    type_ = ins.parts[-1]
    a, b = _operands(cx, ins, type_, 2)
    kind = f"i{width_of(type_)}"
    carry = cx.let("load i1, ptr %carry")
    bits = _with_carry(cx, ins.base[:3], kind, a.bits, b.bits, carry)
    cx.write(ins.operands[0], type_, bits, sources=(a, b))


def _with_carry(cx: Emit, base: str, kind: str, a: str, b: str, carry: str | None) -> str:
    wide = f"i{int(kind[1:]) + 8}"
    x, y = (cx.let(f"zext {kind} {one} to {wide}") for one in (a, b))
    total = cx.let(f"{base} {wide} {x}, {y}")
    if carry is not None:
        total = cx.let(f"{base} {wide} {total}, {cx.let(f'zext i1 {carry} to {wide}')}")
    top = cx.let(f"lshr {wide} {total}, {kind[1:]}")
    cx.line(f"store i1 {cx.let(f'icmp ne {wide} {top}, 0')}, ptr %carry")
    return cx.let(f"trunc {wide} {total} to {kind}")


@emits("mul", "mad", types=INTEGERS)
def emit_multiply(cx: Emit, ins: Instruction) -> None:
    """Product, its low or high half or all of it, and a summand for mad."""
    type_ = ins.parts[-1]
    a, b = _operands(cx, ins, type_, 2)
    if "wide" in ins.parts:
        out = f"{type_[0]}{2 * width_of(type_)}"
        bits = _wide_product(cx, a, b)
    elif "hi" in ins.parts:
        out, wide = type_, f"i{2 * a.width}"
        high = cx.let(f"lshr {wide} {_wide_product(cx, a, b)}, {a.width}")
        bits = cx.let(f"trunc {wide} {high} to i{a.width}")
    else:
        out, bits = type_, cx.let(f"mul i{a.width} {a.bits}, {b.bits}")
    sources: tuple[Value, ...] = (a, b)
    if ins.base == "mad":
        c = cx.read(ins.operands[3], out)
        kind = f"i{c.width}"
        if "sat" in ins.parts:
            bits = cx.call(kind, f"llvm.sadd.sat.{kind}", (kind, bits), (kind, c.bits))
        elif "cc" in ins.parts:
            bits = _with_carry(cx, "add", kind, bits, c.bits, None)
        else:
            bits = cx.let(f"add {kind} {bits}, {c.bits}")
        sources = (a, b, c)
    cx.write(ins.operands[0], out, bits, sources=sources)


@emits("madc", types=INTEGERS)
def emit_multiply_with_carry(cx: Emit, ins: Instruction) -> None:
    """mad that adds the carry of the instruction before."""
    type_ = ins.parts[-1]
    a, b, c = _operands(cx, ins, type_, 3)
    kind, wide = f"i{a.width}", f"i{2 * a.width}"
    product = _wide_product(cx, a, b)
    if "hi" in ins.parts:
        product = cx.let(f"lshr {wide} {product}, {a.width}")
    part = cx.let(f"trunc {wide} {product} to {kind}")
    carry = cx.let("load i1, ptr %carry")
    bits = _with_carry(cx, "add", kind, part, c.bits, carry)
    cx.write(ins.operands[0], type_, bits, sources=(a, b, c))


def _wide_product(cx: Emit, a: Value, b: Value) -> str:
    extend = "sext" if is_signed(a.type) else "zext"
    wide = f"i{2 * a.width}"
    x, y = (cx.let(f"{extend} i{a.width} {one.bits} to {wide}") for one in (a, b))
    return cx.let(f"mul {wide} {x}, {y}")


@emits("mul24", "mad24", types=INTEGERS)
def emit_multiply_24(cx: Emit, ins: Instruction) -> None:
    """Product of the low 24 bits."""
    type_ = ins.parts[-1]
    a, b = _operands(cx, ins, type_, 2)
    shift = "ashr" if is_signed(type_) else "lshr"
    x, y = (
        cx.let(f"{shift} i64 {cx.let(f'shl i64 {wide}, 40')}, 40")
        for wide in (cx.let(f"zext i32 {one.bits} to i64") for one in (a, b))
    )
    product = cx.let(f"mul i64 {x}, {y}")
    if "hi" in ins.parts:
        product = cx.let(f"lshr i64 {product}, 16")
    bits = cx.let(f"trunc i64 {product} to i32")
    sources: tuple[Value, ...] = (a, b)
    if ins.base == "mad24":
        c = cx.read(ins.operands[3], type_)
        bits, sources = cx.let(f"add i32 {bits}, {c.bits}"), (a, b, c)
    cx.write(ins.operands[0], type_, bits, sources=sources)


@emits("div", "rem", types=INTEGERS)
def emit_divide(cx: Emit, ins: Instruction) -> None:
    """Quotient or remainder; by zero all bits are set, as on NVIDIA hardware."""
    type_ = ins.parts[-1]
    a, b = _operands(cx, ins, type_, 2)
    signed, wide = is_signed(type_), f"i{2 * a.width}"
    extend = "sext" if signed else "zext"
    zero = cx.let(f"icmp eq i{b.width} {b.bits}, 0")
    safe = cx.let(f"select i1 {zero}, i{b.width} 1, i{b.width} {b.bits}")
    if a.width < 64:  # wider, so that the smallest number divided by -1 does not overflow
        x = cx.let(f"{extend} i{a.width} {a.bits} to {wide}")
        y = cx.let(f"{extend} i{a.width} {safe} to {wide}")
        quotient = cx.let(f"{'s' if signed else 'u'}{ins.base} {wide} {x}, {y}")
        bits = cx.let(f"trunc {wide} {quotient} to i{a.width}")
    else:
        bits = _divide_64(cx, ins.base, a.bits, safe, signed=signed)
    otherwise = a.bits if ins.base == "rem" else "-1"
    bits = cx.let(f"select i1 {zero}, i{a.width} {otherwise}, i{a.width} {bits}")
    cx.write(ins.operands[0], type_, bits, sources=(a, b))


def _divide_64(cx: Emit, base: str, a: str, b: str, *, signed: bool) -> str:
    if not signed:
        return cx.let(f"u{base} i64 {a}, {b}")
    minus = cx.let(f"icmp eq i64 {b}, -1")
    safe = cx.let(f"select i1 {minus}, i64 1, i64 {b}")
    bits = cx.let(f"s{base} i64 {a}, {safe}")
    negated = cx.let(f"sub i64 0, {a}") if base == "div" else "0"
    return cx.let(f"select i1 {minus}, i64 {negated}, i64 {bits}")


@emits("min", "max", types=INTEGERS)
def emit_extreme(cx: Emit, ins: Instruction) -> None:
    """The smaller or the larger of two integers."""
    type_ = ins.parts[-1]
    a, b = _operands(cx, ins, type_, 2)
    kind = f"i{a.width}"
    name = f"llvm.{'s' if is_signed(type_) else 'u'}{ins.base}.{kind}"
    bits = cx.call(kind, name, (kind, a.bits), (kind, b.bits))
    if "relu" in ins.parts:
        bits = cx.call(kind, f"llvm.smax.{kind}", (kind, bits), (kind, "0"))
    cx.write(ins.operands[0], type_, bits, sources=(a, b))


@emits("neg", "abs", types=INTEGERS)
def emit_negate(cx: Emit, ins: Instruction) -> None:
    """Negative or absolute value."""
    type_ = ins.parts[-1]
    (a,) = _operands(cx, ins, type_, 1)
    kind = f"i{a.width}"
    if ins.base == "neg":
        bits = cx.let(f"sub {kind} 0, {a.bits}")
    else:
        bits = cx.call(kind, f"llvm.abs.{kind}", (kind, a.bits), ("i1", "false"))
    cx.write(ins.operands[0], type_, bits, sources=(a,))


@emits("sad", types=INTEGERS)
def emit_sum_of_differences(cx: Emit, ins: Instruction) -> None:
    """|a - b| + c."""
    type_ = ins.parts[-1]
    a, b, c = _operands(cx, ins, type_, 3)
    kind, sign = f"i{a.width}", "s" if is_signed(type_) else "u"
    pair = ((kind, a.bits), (kind, b.bits))
    high = cx.call(kind, f"llvm.{sign}max.{kind}", *pair)
    low = cx.call(kind, f"llvm.{sign}min.{kind}", *pair)
    bits = cx.let(f"add {kind} {cx.let(f'sub {kind} {high}, {low}')}, {c.bits}")
    cx.write(ins.operands[0], type_, bits, sources=(a, b, c))


@emits("cvt", where=lambda ins: {ins.parts[-1], ins.parts[-2]} <= set(INTEGERS))
def emit_convert(cx: Emit, ins: Instruction) -> None:
    """Between integer types: cut, widened, or saturated."""
    to, source = ins.parts[-2], ins.parts[-1]
    a = cx.read(ins.operands[1], source)
    have, want = a.width, width_of(to)
    bits, poison, undefined = a.bits, a.poison, a.undefined
    if "sat" in ins.parts:
        wide = 128
        x = cx.let(f"{'sext' if is_signed(a.type) else 'zext'} i{a.width} {a.bits} to i{wide}")
        low, high = limits(to)
        kind = f"i{wide}"
        x = cx.call(kind, f"llvm.smax.{kind}", (kind, x), (kind, str(low)))
        x = cx.call(kind, f"llvm.smin.{kind}", (kind, x), (kind, str(high)))
        bits, undefined = cx.let(f"trunc {kind} {x} to i{width_of(to)}"), ""
    elif have > want:
        bits = cx.let(f"trunc i{have} {bits} to i{want}")
        if undefined:
            undefined = cx.let(f"trunc i{have} {undefined} to i{want}")
            poison = cx.let(f"icmp ne i{want} {undefined}, 0")
    elif have < want:
        undefined = ""
        bits = cx.let(f"{'sext' if is_signed(source) else 'zext'} i{have} {bits} to i{want}")
    cx.write(ins.operands[0], to, bits, poison=poison, undefined=undefined)
