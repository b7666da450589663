"""f16 and bf16 arithmetic, alone and packed in pairs; every half has its own shadow.

A sum, product or quotient of two f16 or two bf16 codes is exact or safe to round twice in f32
(24 >= 2 * 11 + 2 bits: Figueroa, "When is double rounding innocuous?", SIGNUM 1995), except where
a bf16 product falls below f32's normal range; those and every fma go through float64.
"""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.floating import (
    CANONICAL_NAN,
    as_double,
    as_single,
    delta,
    exactly,
    flags_of,
    format_of,
    half_from_single,
    mode_of,
    statistics,
)
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.numerics.approx import WIDTHS
from ptxsan.numerics.halves import NAN_WINS, XORSIGN
from ptxsan.runtime import floats
from ptxsan.syntax import Instruction, Operand

HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_APPROXIMATE = {"ex2": floats.EX2, "tanh": floats.TANH}
_MARKS = (0x0101, 0x01010000)  # of the bytes of either half
_OPERATIONS = {"add": floats.ADD, "sub": floats.SUB, "mul": floats.MUL}


def element(type_: str) -> str:
    """Return the type of one half: `bf16` for `bf16x2`."""
    return type_.removesuffix("x2")


def halves(cx: Emit, operand: Operand, type_: str) -> list[Value]:
    """Return the halves of an operand, low one first, as values of the element type."""
    value = cx.read(operand, type_)
    if not type_.endswith("x2"):
        return [value]
    low = cx.let(f"trunc i32 {value.bits} to i16")
    high = cx.let(f"trunc i32 {cx.let(f'lshr i32 {value.bits}, 16')} to i16")
    name = element(type_)
    poisons = [value.poison, value.poison]
    if value.undefined:
        parts = [cx.let(f"and i32 {value.undefined}, {marks}") for marks in _MARKS]
        poisons = [cx.let(f"icmp ne i32 {part}, 0") for part in parts]
    return [
        Value(name, low, poisons[0], (value.lane(0),)),
        Value(name, high, poisons[1], (value.lane(1),)),
    ]


def write_halves(
    cx: Emit, operand: Operand, type_: str, results: list[Value], sources: list[Value]
) -> None:
    """Write one half, or two packed ones (low first), with their shadows.

    Of an even number of sources, every second one is of the low half.
    """
    shadow = tuple(one.lane(0) for one in results)
    bits = results[0].bits
    if type_.endswith("x2"):
        low = cx.let(f"zext i16 {bits} to i32")
        high = cx.let(f"shl i32 {cx.let(f'zext i16 {results[1].bits} to i32')}, 16")
        bits = cx.let(f"or i32 {low}, {high}")
    if not (type_.endswith("x2") and len(sources) % 2 == 0):
        undefined = ""
    else:
        # The marks of packed results: each half is made from that half of its sources
        poisons = [cx.either(*(one.poison for one in sources[half::2])) for half in (0, 1)]
        if poisons == ["false", "false"]:
            undefined = ""
        else:
            low, high = (
                cx.let(f"select i1 {poison}, i32 {marks}, i32 0")
                for poison, marks in zip(poisons, _MARKS, strict=True)
            )
            undefined = cx.let(f"or i32 {low}, {high}")
    cx.write(operand, type_, bits, sources=tuple(sources), shadow=shadow, undefined=undefined)


def exact_half(cx: Emit, value: Value) -> tuple[str, str]:
    """Return (exact, actual) of one half as doubles."""
    actual = as_double(cx, value.bits, value.type)
    return exactly(cx, actual, value.lane(0)), actual


def _result(cx: Emit, bits: str, name: str, exact: str, here: str) -> Value:
    if not cx.shadow_on:
        return Value(name, bits)
    return Value(name, bits, "false", (delta(cx, as_double(cx, bits, name), exact, here),))


def _each(cx: Emit, ins: Instruction, count: int) -> tuple[list[list[Value]], list[Value]]:
    """Return the operands of each half, and all of them."""
    columns = [halves(cx, operand, ins.parts[-1]) for operand in ins.operands[1 : count + 1]]
    return [list(row) for row in zip(*columns, strict=True)], [v for c in columns for v in c]


def _call(cx: Emit, name: str, *arguments: str) -> str:
    wide = cx.call("i32", name, *(("i32", one) for one in arguments))
    return cx.let(f"trunc i32 {wide} to i16")


def _wide(cx: Emit, value: Value) -> str:
    return cx.let(f"zext i16 {value.bits} to i32")


def _how(ins: Instruction) -> tuple[str, str, str]:
    index = format_of(element(ins.parts[-1])).index
    return str(index), str(int(mode_of(ins))), str(flags_of(ins))


@emits("add", "sub", "mul", types=HALVES)
def emit_binary16(cx: Emit, ins: Instruction) -> None:
    """Add, subtract or multiply halves, rounded once."""
    rows, sources = _each(cx, ins, 2)
    name = element(ins.parts[-1])
    plain = flags_of(ins) == 0 and not (ins.base == "mul" and name == "bf16")
    results = []
    for a, b in rows:
        (exact_a, here_a), (exact_b, here_b) = exact_half(cx, a), exact_half(cx, b)
        if cx.shadow_on and ins.base != "mul":
            cx.call("void", "note_start", ("i64", statistics(cx)), ("double", here_a))
        if plain:
            single = cx.let(
                f"f{ins.base} float {as_single(cx, a.bits, name)}, {as_single(cx, b.bits, name)}"
            )
            bits = half_from_single(cx, single, name)
        else:
            operation = str(_OPERATIONS[ins.base])
            bits = _call(cx, "f_binary", operation, _wide(cx, a), _wide(cx, b), *_how(ins))
        exact = cx.let(f"f{ins.base} double {exact_a}, {exact_b}")
        here = cx.let(f"f{ins.base} double {here_a}, {here_b}")
        results.append(_result(cx, bits, name, exact, here))
    write_halves(cx, ins.operands[0], ins.parts[-1], results, sources)


@emits("fma", types=HALVES)
def emit_fma16(cx: Emit, ins: Instruction) -> None:
    """Multiply and add halves, rounded once."""
    rows, sources = _each(cx, ins, 3)
    name = element(ins.parts[-1])
    results = []
    for a, b, c in rows:
        pairs = [exact_half(cx, one) for one in (a, b, c)]
        if cx.shadow_on:
            cx.call("void", "note_start", ("i64", statistics(cx)), ("double", pairs[2][1]))
        bits = _call(cx, "f_fma", _wide(cx, a), _wide(cx, b), _wide(cx, c), *_how(ins))
        exact, here = (_multiply_add(cx, [pair[which] for pair in pairs]) for which in (0, 1))
        if "relu" in ins.parts:
            exact, here = positive_part(cx, exact), positive_part(cx, here)
        results.append(_result(cx, bits, name, exact, here))
    write_halves(cx, ins.operands[0], ins.parts[-1], results, sources)


def _multiply_add(cx: Emit, operands: list[str]) -> str:
    product = cx.let(f"fmul double {operands[0]}, {operands[1]}")
    return cx.let(f"fadd double {product}, {operands[2]}")


def positive_part(cx: Emit, text: str) -> str:
    """Return a double, or 0.0 where it is below that."""
    negative = cx.let(f"fcmp olt double {text}, 0.0")
    return cx.let(f"select i1 {negative}, double 0.0, double {text}")


@emits("neg", "abs", types=HALVES)
def emit_sign16(cx: Emit, ins: Instruction) -> None:
    """Flip or clear the sign bit of halves; a NaN becomes the canonical one."""
    rows, sources = _each(cx, ins, 1)
    results = []
    for (a,) in rows:
        operation = "xor" if ins.base == "neg" else "and"
        mask = "-32768" if ins.base == "neg" else "32767"
        bits = cx.let(f"{operation} i16 {a.bits}, {mask}")
        single = as_single(cx, a.bits, a.type)
        nan = cx.let(f"fcmp uno float {single}, {single}")
        bits = cx.let(f"select i1 {nan}, i16 {CANONICAL_NAN[16]}, i16 {bits}")
        flipped = cx.let(f"fneg double {a.lane(0)}")
        if ins.base == "abs":
            negative = cx.let(f"icmp slt i16 {a.bits}, 0")
            flipped = cx.let(f"select i1 {negative}, double {flipped}, double {a.lane(0)}")
        results.append(Value(a.type, bits, "false", (flipped,)))
    write_halves(cx, ins.operands[0], ins.parts[-1], results, sources)


@emits("min", "max", types=HALVES)
def emit_extreme16(cx: Emit, ins: Instruction) -> None:
    """The smaller or larger half: -0 is below +0, a NaN loses unless .NaN."""
    rows, sources = _each(cx, ins, 2)
    flags = flags_of(ins)
    flags += NAN_WINS if "NaN" in ins.parts else 0
    flags += XORSIGN if "xorsign" in ins.parts else 0
    results = []
    for a, b in rows:
        index, largest = str(format_of(a.type).index), str(int(ins.base == "max"))
        bits = _call(cx, "f_extreme", _wide(cx, a), _wide(cx, b), index, largest, str(flags))
        (exact_a, _), (exact_b, _) = exact_half(cx, a), exact_half(cx, b)
        name = "llvm.maxnum.f64" if ins.base == "max" else "llvm.minnum.f64"
        exact = cx.call("double", name, ("double", exact_a), ("double", exact_b))
        results.append(_result(cx, bits, a.type, exact, as_double(cx, bits, a.type)))
    write_halves(cx, ins.operands[0], ins.parts[-1], results, sources)


@emits("ex2", "tanh", types=HALVES)
def emit_function16(cx: Emit, ins: Instruction) -> None:
    """ex2 and tanh of halves: the correctly rounded value, its width noted."""
    rows, sources = _each(cx, ins, 1)
    name = element(ins.parts[-1])
    operation = ("i32", str(_APPROXIMATE[ins.base]))
    index, mode, flags = _how(ins)
    results = []
    for (a,) in rows:
        exact, here = exact_half(cx, a)
        wanted = cx.call("double", "approximate", operation, ("double", here))
        wide = cx.call(
            "i32", "f_encode", ("double", wanted), ("i32", index), ("i32", mode), ("i32", flags)
        )
        bits = cx.let(f"trunc i32 {wide} to i16")
        exact = cx.call("double", "approximate", operation, ("double", exact))
        results.append(_result(cx, bits, name, exact, wanted))
        key = f"{ins.base}.approx.{name}"
        result = as_double(cx, bits, name)
        if cx.shadow_on:
            width = WIDTHS[key]
            # note_width counts in ulps of f32.
            ulps = width.ulps * format_of(name).unit_roundoff * 2.0**24
            cx.call(
                "void",
                "note_width",
                ("i64", statistics(cx)),
                ("double", result),
                ("double", repr(ulps)),
                ("double", f"{width.absolute:.20e}"),
            )
    write_halves(cx, ins.operands[0], ins.parts[-1], results, sources)
