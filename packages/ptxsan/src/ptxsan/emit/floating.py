"""What float emitters share: reading as LLVM floats, flushing, NaN, rounding names, shadows."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.values import ZERO, Value
from ptxsan.numerics.formats import BY_NAME, FloatFormat, Rounding
from ptxsan.numerics.halves import FLUSH_INPUT, SAT
from ptxsan.numerics.rounding import FLUSH, RELU, SATFINITE
from ptxsan.syntax import Instruction

_MODES = {"rn": Rounding.RN, "rz": Rounding.RZ, "rm": Rounding.RM, "rp": Rounding.RP}
_MODES |= {"rni": Rounding.RN, "rzi": Rounding.RZ, "rmi": Rounding.RM, "rpi": Rounding.RP}
_MODES |= {"rna": Rounding.RNA}
CANONICAL_NAN = {16: "32767", 32: "2147483647", 64: "-2251799813685248"}


def mode_of(ins: Instruction) -> Rounding:
    """Return the rounding modifier of an instruction; to nearest where it has none."""
    for part in ins.parts:
        if part in _MODES:
            return _MODES[part]
    return Rounding.RN


def flags_of(ins: Instruction) -> int:
    """Return the flags of `numerics.rounding` and `numerics.halves` that the modifiers mean."""
    known = {"ftz": FLUSH | FLUSH_INPUT, "sat": SAT, "relu": RELU, "satfinite": SATFINITE}
    return sum(flag for name, flag in known.items() if name in ins.parts)


def format_of(type_: str) -> FloatFormat:
    """Return the format of a PTX type; that of one half for packed types."""
    return BY_NAME[type_.partition("x")[0] if "x" in type_ else type_]


def flush(cx: Emit, text: str) -> str:
    """Return an LLVM float with subnormals turned into zeros of their sign."""
    size = cx.call("float", "llvm.fabs.f32", ("float", text))
    tiny = cx.let(f"fcmp olt float {size}, 0x3810000000000000")
    zero = cx.call("float", "llvm.copysign.f32", ("float", "0.0"), ("float", text))
    return cx.let(f"select i1 {tiny}, float {zero}, float {text}")


def saturate(cx: Emit, text: str, kind: str = "float") -> str:
    """Return an LLVM float clamped to [0, 1]; NaN becomes +0."""
    positive = cx.let(f"fcmp ogt {kind} {text}, 0.0")
    low = cx.let(f"select i1 {positive}, {kind} {text}, {kind} 0.0")
    above = cx.let(f"fcmp ogt {kind} {low}, 1.0")
    return cx.let(f"select i1 {above}, {kind} 1.0, {kind} {low}")


def canonical32(cx: Emit, text: str) -> str:
    """Return the bits of an LLVM float; every NaN is 0x7fffffff."""
    nan = cx.let(f"fcmp uno float {text}, {text}")
    bits = cx.let(f"bitcast float {text} to i32")
    return cx.let(f"select i1 {nan}, i32 {CANONICAL_NAN[32]}, i32 {bits}")


def as_double(cx: Emit, bits: str, type_: str) -> str:
    """Return the value of the bits of an f16, bf16, f32 or f64 as an LLVM double."""
    if type_ == "f64":
        return cx.let(f"bitcast i64 {bits} to double")
    return cx.let(f"fpext float {as_single(cx, bits, type_)} to double")


def as_single(cx: Emit, bits: str, type_: str) -> str:
    """Return the value of the bits of an f16, bf16 or f32 as an LLVM float (exact)."""
    if type_ == "f32":
        return cx.let(f"bitcast i32 {bits} to float")
    if type_ == "f16":
        half = cx.let(f"bitcast i16 {bits} to half")
        return cx.let(f"fpext half {half} to float")
    wide = cx.let(f"zext i16 {bits} to i32")
    return cx.let(f"bitcast i32 {cx.let(f'shl i32 {wide}, 16')} to float")


def exact_of(cx: Emit, value: Value) -> tuple[str, str]:
    """Return (exact, actual) of a float value, as doubles."""
    actual = as_double(cx, value.bits, value.type)
    return exactly(cx, actual, value.lane(0)), actual


def exactly(cx: Emit, actual: str, shadow: str) -> str:
    """Return the exact value of a double with a shadow (`runtime.shadow.shadow_exact`, inline)."""
    if shadow == ZERO:
        return actual
    whole = cx.let(f"fadd double {actual}, {shadow}")
    finite = cx.let(f"fcmp oeq double {cx.let(f'fsub double {actual}, {actual}')}, 0.0")
    told = cx.let(f"fcmp une double {shadow}, 0.0")
    other = cx.let(f"select i1 {told}, double {shadow}, double {actual}")
    return cx.let(f"select i1 {finite}, double {whole}, double {other}")


def statistics(cx: Emit) -> str:
    """Return the address of this instruction's statistics as i64."""
    return cx.let(f"ptrtoint ptr {cx.stat(0)} to i64")


def delta(cx: Emit, result: str, exact: str, here: str) -> str:
    """Return the shadow of a result (doubles) and add it to the statistics."""
    return cx.call(
        "double",
        "shadow_delta",
        ("i64", statistics(cx)),
        ("double", result),
        ("double", exact),
        ("double", here),
    )


def half_from_single(cx: Emit, text: str, type_: str) -> str:
    """Return the i16 code nearest to an LLVM float, in f16 or bf16; NaN is 0x7fff."""
    nan = cx.let(f"fcmp uno float {text}, {text}")
    if type_ == "f16":
        half = cx.let(f"fptrunc float {text} to half")
        bits = cx.let(f"bitcast half {half} to i16")
    else:
        wide = cx.let(f"bitcast float {text} to i32")
        odd = cx.let(f"and i32 {cx.let(f'lshr i32 {wide}, 16')}, 1")
        bumped = cx.let(f"add i32 {cx.let(f'add i32 {wide}, 32767')}, {odd}")
        bits = cx.let(f"trunc i32 {cx.let(f'lshr i32 {bumped}, 16')} to i16")
    return cx.let(f"select i1 {nan}, i16 {CANONICAL_NAN[16]}, i16 {bits}")
