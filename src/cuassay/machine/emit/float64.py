"""f64 arithmetic. Registers of 64 bits carry no shadow: they are the precision of the shadow."""

from __future__ import annotations

from cuassay.machine.emit.context import Emit
from cuassay.machine.emit.float32 import extreme
from cuassay.machine.emit.floating import mode_of
from cuassay.machine.emit.registry import emits
from cuassay.machine.emit.values import Value
from cuassay.machine.numerics.formats import Rounding
from cuassay.machine.runtime import floats
from cuassay.machine.syntax import Instruction

_OPERATIONS = {"add": floats.ADD, "sub": floats.SUB, "mul": floats.MUL, "div": floats.DIV}


def _write(cx: Emit, ins: Instruction, text: str, sources: tuple[Value, ...]) -> None:
    """Write a double; NaN keep their payload, as on the hardware."""
    cx.write(ins.operands[0], "f64", cx.float_bits(text, 64), sources=sources)


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
    """Flip or clear the sign bit."""
    a = cx.read(ins.operands[1], "f64")
    if ins.base == "neg":
        bits = cx.let(f"xor i64 {a.bits}, {-(1 << 63)}")
    else:
        bits = cx.let(f"and i64 {a.bits}, {(1 << 63) - 1}")
    cx.write(ins.operands[0], "f64", bits, sources=(a,))


@emits("min", "max", types=("f64",))
def emit_extreme64(cx: Emit, ins: Instruction) -> None:
    """The smaller or larger number: -0 is below +0, a NaN loses."""
    a, b = cx.read(ins.operands[1], "f64"), cx.read(ins.operands[2], "f64")
    text = extreme(cx, ins, cx.as_float(a), cx.as_float(b), "double", "f64")
    _write(cx, ins, text, (a, b))
