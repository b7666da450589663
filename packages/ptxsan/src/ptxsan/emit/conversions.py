"""cvt where a float takes part; conversions between integers are in `integer`."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.floating import (
    as_double,
    canonical32,
    delta,
    exact_of,
    flags_of,
    flush,
    format_of,
    half_from_single,
    mode_of,
    saturate,
)
from ptxsan.emit.halves import positive_part, write_halves
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value, is_signed, width_of
from ptxsan.numerics.formats import Rounding
from ptxsan.numerics.halves import FLUSH_INPUT
from ptxsan.numerics.rounding import FLUSH
from ptxsan.syntax import Instruction

_FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
_INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")


def _types(ins: Instruction) -> tuple[str, str]:
    """Return (to, from): the last two types of a cvt."""
    return ins.parts[-2], ins.parts[-1]


def _float_to_float(ins: Instruction) -> bool:
    to, source = _types(ins)
    return to in _FLOATS and source in _FLOATS


@emits("cvt", where=_float_to_float)
def emit_float_to_float(cx: Emit, ins: Instruction) -> None:
    """Change the format, or round to an integral number (.rni and its like)."""
    to, source = _types(ins)
    a = cx.read(ins.operands[1], source)
    exact, here = exact_of(cx, a)
    if "ftz" in ins.parts and "f32" in (source, to) and source != "f64":
        here = _flushed(cx, here) if source == "f32" else here
    integral = next((part for part in ins.parts if part in ("rni", "rzi", "rmi", "rpi")), None)
    if integral:
        how = ("i32", str(int(mode_of(ins))))
        exact = here = cx.call("double", "f_integral", ("double", here), how)
    if "sat" in ins.parts:
        exact, here = saturate(cx, exact, "double"), saturate(cx, here, "double")
    bits = _encoded(cx, ins, here, to, source)
    if source == "bf16" and to == "f32" and not flags_of(ins):  # a shift, also of a NaN
        bits = cx.let(f"shl i32 {cx.let(f'zext i16 {a.bits} to i32')}, 16")
    if to == "f64":
        cx.write(ins.operands[0], to, bits, sources=(a,))
        return
    shadow: tuple[str, ...] = ()
    if cx.shadow_on:
        if "relu" in ins.parts:
            exact, here = positive_part(cx, exact), positive_part(cx, here)
        result = as_double(cx, bits, "f32" if to == "tf32" else to)
        shadow = (delta(cx, result, exact, here),)
    cx.write(ins.operands[0], to, bits, sources=(a,), shadow=shadow)


def _flushed(cx: Emit, text: str) -> str:
    single = cx.let(f"fptrunc double {text} to float")
    return cx.let(f"fpext float {flush(cx, single)} to double")


def _encoded(cx: Emit, ins: Instruction, text: str, to: str, source: str) -> str:
    """Return the bits of a double in the target format; NaN as an H200 gives them."""
    mode, flags = mode_of(ins), flags_of(ins)
    if to == "f64":
        bits = cx.let(f"bitcast double {text} to i64")
        if "ftz" not in ins.parts:
            return bits
        nan = cx.let(f"fcmp uno double {text}, {text}")
        return cx.let(f"select i1 {nan}, i64 {0x7FFFFFFFE0000000}, i64 {bits}")
    if to == "tf32" and mode is not Rounding.RNA:
        return cx.let(f"and i32 {encoded(cx, text, to, mode, flags)}, -8192")
    if to != "f32":
        flags &= ~FLUSH  # .ftz is about f32 operands and results
    if source == "f64":
        # Narrow a double; a NaN keeps its sign and the upper bits of its payload
        bits = encoded(cx, text, to, mode, flags)
        nan = cx.let(f"fcmp uno double {text}, {text}")
        payload = cx.let(f"bitcast float {cx.let(f'fptrunc double {text} to float')} to i32")
        if to == "f32":
            return cx.let(f"select i1 {nan}, i32 {payload}, i32 {bits}")
        if to != "f16":
            return bits
        sign = cx.let(f"and i32 {cx.let(f'lshr i32 {payload}, 16')}, 32768")
        top = cx.let(f"and i32 {cx.let(f'lshr i32 {payload}, 13')}, 1023")
        kept = cx.let(f"or i32 {cx.let(f'or i32 {sign}, {top}')}, {0x7C00}")
        return cx.let(f"select i1 {nan}, i16 {cx.let(f'trunc i32 {kept} to i16')}, i16 {bits}")
    if mode is Rounding.RN and not flags & ~FLUSH_INPUT and to in ("f16", "bf16"):
        return half_from_single(cx, cx.let(f"fptrunc double {text} to float"), to)
    if mode is Rounding.RN and not flags & ~(FLUSH | FLUSH_INPUT) and to == "f32":
        single = cx.let(f"fptrunc double {text} to float")
        return canonical32(cx, flush(cx, single) if flags else single)
    bits = encoded(cx, text, to, mode, flags)
    if to == "tf32":  # .rna keeps the upper bits of a NaN
        single = cx.let(f"bitcast float {cx.let(f'fptrunc double {text} to float')} to i32")
        nan = cx.let(f"fcmp uno double {text}, {text}")
        return cx.let(f"select i1 {nan}, i32 {cx.let(f'and i32 {single}, -8192')}, i32 {bits}")
    return bits


def encoded(cx: Emit, text: str, to: str, mode: Rounding, flags: int) -> str:
    """Return the bits of a double in a format of at most 32 bits, by the runtime."""
    wide = cx.call(
        "i32",
        "f_encode",
        ("double", text),
        ("i32", str(format_of(to).index)),
        ("i32", str(int(mode))),
        ("i32", str(flags)),
    )
    width = width_of(to)
    return wide if width == 32 else cx.let(f"trunc i32 {wide} to i{width}")


def _float_to_integer(ins: Instruction) -> bool:
    to, source = _types(ins)
    return to in _INTEGERS and source in _FLOATS


@emits("cvt", where=_float_to_integer)
def emit_float_to_integer(cx: Emit, ins: Instruction) -> None:
    """Round and clamp to an integer."""
    to, source = _types(ins)
    a = cx.read(ins.operands[1], source)
    text = as_double(cx, a.bits, source)
    if "ftz" in ins.parts and source == "f32":
        text = _flushed(cx, text)
    width = width_of(to)
    wide = cx.call(
        "i64",
        "f_to_int",
        ("double", text),
        ("i32", str(int(mode_of(ins)))),
        ("i32", str(width)),
        ("i32", str(int(is_signed(to)))),
        ("i32", str(int(source != "f64" and width != 64))),
    )
    bits = wide if width == 64 else cx.let(f"trunc i64 {wide} to i{width}")
    cx.write(ins.operands[0], to, bits, sources=(a,))


def _integer_to_float(ins: Instruction) -> bool:
    to, source = _types(ins)
    return to in _FLOATS and source in _INTEGERS


@emits("cvt", where=_integer_to_float)
def emit_integer_to_float(cx: Emit, ins: Instruction) -> None:
    """Round an integer into a float format."""
    to, source = _types(ins)
    a = cx.read(ins.operands[1], source)
    extend = "sext" if is_signed(source) else "zext"
    wide = a.bits if a.width == 64 else cx.let(f"{extend} i{a.width} {a.bits} to i64")
    signed, mode = ("i32", str(int(is_signed(source)))), ("i32", str(int(mode_of(ins))))
    if to == "f64":
        text = cx.call("double", "int_to_d", ("i64", wide), signed, mode)
        cx.write(ins.operands[0], to, cx.float_bits(text, 64), sources=(a,))
        return
    index, flags = ("i32", str(format_of(to).index)), ("i32", str(flags_of(ins)))
    code = cx.call("i32", "int_to_f", ("i64", wide), signed, index, mode, flags)
    bits = code if width_of(to) == 32 else cx.let(f"trunc i32 {code} to i16")
    shadow: tuple[str, ...] = ()
    if cx.shadow_on:
        convert = "sitofp" if is_signed(source) else "uitofp"
        exact = cx.let(f"{convert} i64 {wide} to double")
        if "sat" in ins.parts:
            exact = saturate(cx, exact, "double")
        shadow = (delta(cx, as_double(cx, bits, to), exact, exact),)
    cx.write(ins.operands[0], to, bits, sources=(a,), shadow=shadow)


@emits("cvt", where=lambda ins: ins.parts[-2] in ("f16x2", "bf16x2") and ins.parts[-1] == "f32")
def emit_pack(cx: Emit, ins: Instruction) -> None:
    """Two f32 become a pair of halves: the first operand is the high one.

    .rs rounds by random bits, the upper half of a word for the first operand.
    """
    to = ins.parts[-2]
    name = to.removesuffix("x2")
    high, low = cx.read(ins.operands[1], "f32"), cx.read(ins.operands[2], "f32")
    random = cx.read(ins.operands[3], "b32") if "rs" in ins.parts else None
    results = []
    for place, value in enumerate((low, high)):
        exact, here = exact_of(cx, value)
        if random is None:
            bits = _encoded(cx, ins, here, name, "f32")
        else:
            moved = cx.let(f"lshr i32 {random.bits}, {16 * place}")
            bits = _stochastic(cx, here, name, moved, flags_of(ins))
        if not cx.shadow_on:
            half = Value(name, bits)
        else:
            if "relu" in ins.parts:
                exact, here = positive_part(cx, exact), positive_part(cx, here)
            half = Value(name, bits, "false", (delta(cx, as_double(cx, bits, name), exact, here),))
        results.append(half)
    sources = [low, high] if random is None else [low, high, random]
    write_halves(cx, ins.operands[0], to, results, sources)


def _stochastic(cx: Emit, text: str, to: str, word: str, flags: int) -> str:
    """Return the bits of a double in f16 or bf16, rounded by the lowest bits of a random word.

    Of these as many count as an f32 has bits below the last one of the result: 13 or 16.
    """
    form = format_of(to)
    count = 24 - form.precision
    random = cx.let(f"and i32 {word}, {(1 << count) - 1}")
    wide = cx.call(
        "i32", "f_stochastic", ("double", text), ("i32", str(form.index)), ("i32", random),
        ("i32", str(count)), ("i32", str(flags)),
    )  # fmt: skip
    return cx.let(f"trunc i32 {wide} to i16")
