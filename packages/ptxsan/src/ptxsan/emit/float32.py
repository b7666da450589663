"""f32 arithmetic: inline IR for rounding to nearest, calls for the directed modes."""

from __future__ import annotations

from ptxsan import origins
from ptxsan.emit.context import Emit
from ptxsan.emit.floating import (
    as_single,
    canonical32,
    delta,
    exact_of,
    flags_of,
    flush,
    mode_of,
    saturate,
    statistics,
)
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.numerics.approx import WIDTHS
from ptxsan.numerics.formats import F32, Rounding
from ptxsan.runtime import floats
from ptxsan.syntax import Instruction

_OPERATIONS = {"add": floats.ADD, "sub": floats.SUB, "mul": floats.MUL, "div": floats.DIV}
_APPROXIMATE = {
    "ex2": floats.EX2, "lg2": floats.LG2, "rcp": floats.RCP, "rsqrt": floats.RSQRT,
    "sqrt": floats.SQRT, "sin": floats.SIN, "cos": floats.COS, "tanh": floats.TANH,
}  # fmt: skip


def _single(cx: Emit, ins: Instruction, value: Value) -> str:
    text = cx.as_float(value)
    return flush(cx, text) if "ftz" in ins.parts else text


def _finish(
    cx: Emit, ins: Instruction, text: str, sources: tuple[Value, ...], exact: str, here: str
) -> None:
    """Apply .ftz and .sat to a result, make NaN canonical, write it with its shadow."""
    if "ftz" in ins.parts:
        text = flush(cx, text)
    if "sat" in ins.parts:
        text = saturate(cx, text)
    write32(cx, ins, canonical32(cx, text), sources, exact, here)


def write32(
    cx: Emit, ins: Instruction, bits: str, sources: tuple[Value, ...], exact: str, here: str
) -> None:
    """Write an f32 result; `exact` and `here` are doubles, or empty without shadows."""
    shadow: tuple[str, ...] = ()
    if cx.shadow_on and not rounds_on_purpose(cx, ins):
        if "sat" in ins.parts:
            exact, here = saturate(cx, exact, "double"), saturate(cx, here, "double")
        single = cx.let(f"bitcast i32 {bits} to float")
        result = cx.let(f"fpext float {single} to double")
        shadow = (delta(cx, result, exact, here),)
    cx.write(ins.operands[0], "f32", bits, sources=sources, shadow=shadow)


def rounds_on_purpose(cx: Emit, ins: Instruction) -> bool:
    """Whether this adds a constant of 2**23 to 2**24, the way in which exp and its like round.

    The result is then the integer that is meant, and no inexact sum.
    """
    if ins.base not in ("add", "sub", "fma", "mad"):
        return False
    addends = ins.operands[3:4] if ins.base in ("fma", "mad") else ins.operands[1:3]
    known = [origins.of(cx.program).constant(one) for one in addends]
    return any(one is not None and 2.0**23 <= abs(one) < 2.0**24 for one in known)


def _doubles(cx: Emit, value: Value) -> tuple[str, str]:
    return exact_of(cx, value) if cx.shadow_on else ("", "")


def _exactly(cx: Emit, operation: str, *operands: str) -> str:
    """Return an operation on doubles; an empty text where there are no shadows."""
    if not cx.shadow_on:
        return ""
    if operation == "fma":
        product = cx.let(f"fmul double {operands[0]}, {operands[1]}")
        return cx.let(f"fadd double {product}, {operands[2]}")
    return cx.let(f"f{operation} double {operands[0]}, {operands[1]}")


def _is_mixed(ins: Instruction) -> bool:
    """Whether its factors, or its first addend, are halves and the rest f32 (`fma.rn.f32.bf16`)."""
    return ins.parts[-1] in ("f16", "bf16") and ins.parts[-2] == "f32"


def _operands(cx: Emit, ins: Instruction) -> list[Value]:
    """Return the sources as f32; a half is one exactly."""
    found, last = [], len(ins.operands) - 1
    for index, operand in enumerate(ins.operands[1:], 1):
        if not _is_mixed(ins) or index == last:
            found.append(cx.read(operand, "f32"))
            continue
        half = cx.read(operand, ins.parts[-1])
        bits = cx.let(f"bitcast float {as_single(cx, half.bits, half.type)} to i32")
        found.append(Value("f32", bits, half.poison, (half.lane(0),)))
    return found


@emits("add", "sub", types=("f16", "bf16"), where=_is_mixed)
@emits("add", "sub", "mul", types=("f32",))
def emit_binary32(cx: Emit, ins: Instruction) -> None:
    """Add, subtract or multiply, rounded once."""
    _binary(cx, ins)


@emits("div", types=("f32",))
def emit_divide32(cx: Emit, ins: Instruction) -> None:
    """Divide; .approx and .full give the correctly rounded quotient and note their width."""
    _binary(cx, ins)
    for spelled in ("approx", "full"):
        if spelled in ins.parts:
            _note_width(cx, ins, f"div.{spelled}.f32")


def _binary(cx: Emit, ins: Instruction) -> None:
    a, b = _operands(cx, ins)
    exact_a, here_a = _doubles(cx, a)
    exact_b, here_b = _doubles(cx, b)
    exact = _exactly(cx, ins.base, exact_a, exact_b)
    here = _exactly(cx, ins.base, here_a, here_b)
    if cx.shadow_on and ins.base in ("add", "sub"):
        _note_start(cx, here_a)
    mode = mode_of(ins)
    if mode is Rounding.RN:
        text = cx.let(f"f{ins.base} float {_single(cx, ins, a)}, {_single(cx, ins, b)}")
        _finish(cx, ins, text, (a, b), exact, here)
        return
    bits = cx.call(
        "i32",
        "f_binary",
        ("i32", str(_OPERATIONS[ins.base])),
        ("i32", a.bits),
        ("i32", b.bits),
        *_how(ins, mode),
    )
    write32(cx, ins, bits, (a, b), exact, here)


def _how(ins: Instruction, mode: Rounding) -> tuple[tuple[str, str], ...]:
    return ("i32", str(F32.index)), ("i32", str(int(mode))), ("i32", str(flags_of(ins)))


def _note_start(cx: Emit, accumulator: str) -> None:
    cx.call("void", "note_start", ("i64", statistics(cx)), ("double", accumulator))


@emits("fma", types=("f16", "bf16"), where=_is_mixed)
@emits("fma", "mad", types=("f32",))
def emit_fma32(cx: Emit, ins: Instruction) -> None:
    """Multiply and add, rounded once (mad.f32 is fma on every architecture that is modelled)."""
    a, b, c = _operands(cx, ins)
    doubles = [_doubles(cx, value) for value in (a, b, c)]
    exact = _exactly(cx, "fma", *(one for one, _ in doubles))
    here = _exactly(cx, "fma", *(one for _, one in doubles))
    if cx.shadow_on:
        _note_start(cx, doubles[2][1])
    mode = mode_of(ins)
    if mode is Rounding.RN:
        texts = [("float", _single(cx, ins, value)) for value in (a, b, c)]
        _finish(cx, ins, cx.call("float", "llvm.fma.f32", *texts), (a, b, c), exact, here)
        return
    codes = [("i32", value.bits) for value in (a, b, c)]
    bits = cx.call("i32", "f_fma", *codes, *_how(ins, mode))
    write32(cx, ins, bits, (a, b, c), exact, here)


@emits("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", types=("f32",))
def emit_function32(cx: Emit, ins: Instruction) -> None:
    """A function of one number: the correctly rounded value; .approx notes its width."""
    a = cx.read(ins.operands[1], "f32")
    exact_a, here_a = _doubles(cx, a)
    approximate = "approx" in ins.parts
    operation = str(_APPROXIMATE[ins.base])
    exact = here = ""
    if cx.shadow_on:
        exact = cx.call("double", "approximate", ("i32", operation), ("double", exact_a))
        here = cx.call("double", "approximate", ("i32", operation), ("double", here_a))
    mode = mode_of(ins)
    if ins.base in ("rcp", "sqrt") and not approximate and mode is not Rounding.RN:
        how = _how(ins, mode)
        if ins.base == "sqrt":
            bits = cx.call("i32", "f_sqrt", ("i32", a.bits), *how)
        else:
            one = ("i32", str(0x3F800000))
            bits = cx.call("i32", "f_binary", ("i32", str(floats.DIV)), one, ("i32", a.bits), *how)
        write32(cx, ins, bits, (a,), exact, here)
        return
    text = _single(cx, ins, a)
    if ins.base == "rcp":
        text = cx.let(f"fdiv float 1.0, {text}")
    elif ins.base == "sqrt":
        text = cx.call("float", "llvm.sqrt.f32", ("float", text))
    else:
        wide = cx.let(f"fpext float {text} to double")
        wide = cx.call("double", "approximate", ("i32", operation), ("double", wide))
        text = cx.let(f"fptrunc double {wide} to float")
    _finish(cx, ins, text, (a,), exact, here)
    if approximate:
        _note_width(cx, ins, f"{ins.base}.approx.f32")


def _note_width(cx: Emit, ins: Instruction, key: str) -> None:
    if not cx.shadow_on:
        return
    written = cx.as_float(cx.read(ins.operands[0], "f32"))
    width = WIDTHS[key]
    cx.call(
        "void",
        "note_width",
        ("i64", statistics(cx)),
        ("double", cx.let(f"fpext float {written} to double")),
        ("double", repr(width.ulps)),
        ("double", f"{width.absolute:.20e}"),
    )


@emits("neg", "abs", types=("f32",))
def emit_sign32(cx: Emit, ins: Instruction) -> None:
    """Flip or clear the sign; a NaN becomes the canonical one."""
    a = cx.read(ins.operands[1], "f32")
    text = _single(cx, ins, a)
    shadow = a.lane(0)
    if ins.base == "neg":
        text = cx.let(f"fneg float {text}")
        turned = cx.let(f"fneg double {shadow}")
    else:
        negative = cx.let(f"icmp slt i32 {a.bits}, 0")
        text = cx.call("float", "llvm.fabs.f32", ("float", text))
        flipped = cx.let(f"fneg double {shadow}")
        turned = cx.let(f"select i1 {negative}, double {flipped}, double {shadow}")
    cx.write(ins.operands[0], "f32", canonical32(cx, text), sources=(a,), shadow=(turned,))


@emits("copysign", types=("f32", "f64"))
def emit_copysign(cx: Emit, ins: Instruction) -> None:
    """The second operand's magnitude with the first one's sign."""
    type_ = ins.parts[-1]
    sign, size = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], type_)
    width = size.width
    top = 1 << (width - 1)
    kept = cx.let(f"and i{width} {size.bits}, {top - 1}")
    moved = cx.let(f"and i{width} {sign.bits}, {-top}")
    cx.write(ins.operands[0], type_, cx.let(f"or i{width} {kept}, {moved}"), sources=(sign, size))


@emits("min", "max", types=("f32",))
def emit_extreme32(cx: Emit, ins: Instruction) -> None:
    """The smaller or larger number: -0 is below +0, a NaN loses unless .NaN."""
    if len(ins.operands) == 4:
        cx.unsupported("with three sources is not known")
    a, b = cx.read(ins.operands[1], "f32"), cx.read(ins.operands[2], "f32")
    x, y = _single(cx, ins, a), _single(cx, ins, b)
    text = extreme(cx, ins, x, y, "float", "f32")
    bits = canonical32(cx, text)
    shadow: tuple[str, ...] = ()
    if cx.shadow_on:
        (exact_a, here_a), (exact_b, here_b) = exact_of(cx, a), exact_of(cx, b)
        exact = extreme(cx, ins, exact_a, exact_b, "double", "f64")
        single = cx.let(f"bitcast i32 {bits} to float")
        result = cx.let(f"fpext float {single} to double")
        shadow = (delta(cx, result, exact, result),)
        for operand in (here_a, here_b):
            given = ("i64", statistics(cx)), ("double", operand), ("double", result)
            cx.call("void", "note_swallowed", *given)
    cx.write(ins.operands[0], "f32", bits, sources=(a, b), shadow=shadow)


def extreme(cx: Emit, ins: Instruction, x: str, y: str, kind: str, suffix: str) -> str:
    """Return min or max of two LLVM floats by an instruction's modifiers."""
    if "xorsign" in ins.parts:
        first, second = x, y
        x = cx.call(kind, f"llvm.fabs.{suffix}", (kind, x))
        y = cx.call(kind, f"llvm.fabs.{suffix}", (kind, y))
    name = "llvm.maximum" if ins.base == "max" else "llvm.minimum"
    text = cx.call(kind, f"{name}.{suffix}", (kind, x), (kind, y))
    if "NaN" not in ins.parts:
        x_is_nan, y_is_nan = (
            cx.let(f"fcmp uno {kind} {x}, {x}"),
            cx.let(f"fcmp uno {kind} {y}, {y}"),
        )
        text = cx.let(f"select i1 {y_is_nan}, {kind} {x}, {kind} {text}")
        text = cx.let(f"select i1 {x_is_nan}, {kind} {y}, {kind} {text}")
    if "xorsign" in ins.parts:
        one = cx.call(kind, f"llvm.copysign.{suffix}", (kind, "1.0"), (kind, first))
        other = cx.call(kind, f"llvm.copysign.{suffix}", (kind, "1.0"), (kind, second))
        sign = cx.let(f"fmul {kind} {one}, {other}")
        text = cx.call(kind, f"llvm.copysign.{suffix}", (kind, text), (kind, sign))
    return text
