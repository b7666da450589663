"""f64 arithmetic. Registers of 64 bits carry no shadow: they are the precision of the shadow."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.float32 import extreme
from ptxsan.emit.floating import CANONICAL_NAN, mode_of
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.numerics.formats import Rounding
from ptxsan.runtime import floats
from ptxsan.syntax import Instruction

_OPERATIONS = {"add": floats.ADD, "sub": floats.SUB, "mul": floats.MUL, "div": floats.DIV}


def _write(cx: Emit, ins: Instruction, text: str, sources: tuple[Value, ...]) -> None:
    """Write a double. A NaN operand comes out quiet, with sign and payload: that of the second
    operand before the third before the first, of a quotient the first (seen on an H200). A NaN
    that is born here is the default one.
    """
    bits = cx.float_bits(text, 64)
    nan = cx.let(f"fcmp uno double {text}, {text}")
    bits = cx.let(f"select i1 {nan}, i64 {CANONICAL_NAN[64]}, i64 {bits}")
    ranked = (sources[0], *reversed(sources[1:]))
    if ins.base == "div":
        ranked = tuple(reversed(sources))
    for value in ranked:
        wide = cx.as_float(value)
        is_nan = cx.let(f"fcmp uno double {wide}, {wide}")
        quiet = cx.let(f"or i64 {value.bits}, {1 << 51}")
        bits = cx.let(f"select i1 {is_nan}, i64 {quiet}, i64 {bits}")
    cx.write(ins.operands[0], "f64", bits, sources=sources)


@emits("add", "sub", "mul", "div", types=("f64",))
def emit_binary64(cx: Emit, ins: Instruction) -> None:
    """Add, subtract, multiply or divide, rounded once."""
    a, b = cx.read(ins.operands[1], "f64"), cx.read(ins.operands[2], "f64")
    x, y, mode = cx.as_float(a), cx.as_float(b), mode_of(ins)
    if mode is Rounding.RN:
        text = cx.let(f"f{ins.base} double {x}, {y}")
    else:
        operation = ("i32", str(_OPERATIONS[ins.base]))
        how = ("i32", str(int(mode)))
        text = cx.call("double", "d_binary", operation, ("double", x), ("double", y), how)
    _write(cx, ins, text, (a, b))


@emits("fma", "mad", types=("f64",))
def emit_fma64(cx: Emit, ins: Instruction) -> None:
    """Multiply and add, rounded once."""
    values = tuple(cx.read(operand, "f64") for operand in ins.operands[1:4])
    texts = [("double", cx.as_float(value)) for value in values]
    mode = mode_of(ins)
    if mode is Rounding.RN:
        text = cx.call("double", "llvm.fma.f64", *texts)
    else:
        text = cx.call("double", "d_fma", *texts, ("i32", str(int(mode))))
    _write(cx, ins, text, values)


@emits("rcp", "sqrt", "rsqrt", types=("f64",))
def emit_function64(cx: Emit, ins: Instruction) -> None:
    """Reciprocal and roots, correctly rounded; .approx ones flush subnormals as documented."""
    a = cx.read(ins.operands[1], "f64")
    x, mode = cx.as_float(a), mode_of(ins)
    if ins.base == "rsqrt":
        text = cx.call("double", "approximate", ("i32", str(floats.RSQRT)), ("double", x))
    elif ins.base == "sqrt" and mode is Rounding.RN:
        text = cx.call("double", "llvm.sqrt.f64", ("double", x))
    elif ins.base == "sqrt":
        text = cx.call("double", "d_sqrt", ("double", x), ("i32", str(int(mode))))
    elif mode is Rounding.RN:
        text = cx.let(f"fdiv double 1.0, {x}")
    else:
        operation = ("i32", str(floats.DIV))
        how = ("i32", str(int(mode)))
        text = cx.call("double", "d_binary", operation, ("double", "1.0"), ("double", x), how)
    _write(cx, ins, text, (a,))


@emits("neg", "abs", types=("f64",))
def emit_sign64(cx: Emit, ins: Instruction) -> None:
    """Flip or clear the sign of a number; a NaN stays as it is."""
    a = cx.read(ins.operands[1], "f64")
    text = cx.as_float(a)
    if ins.base == "neg":
        text = cx.let(f"fneg double {text}")
    else:
        text = cx.call("double", "llvm.fabs.f64", ("double", text))
    _write(cx, ins, text, (a,))


@emits("min", "max", types=("f64",))
def emit_extreme64(cx: Emit, ins: Instruction) -> None:
    """The smaller or larger number: -0 is below +0, a NaN loses."""
    a, b = cx.read(ins.operands[1], "f64"), cx.read(ins.operands[2], "f64")
    text = extreme(cx, ins, cx.as_float(a), cx.as_float(b), "double", "f64")
    cx.write(ins.operands[0], "f64", cx.float_bits(text, 64), sources=(a, b))
