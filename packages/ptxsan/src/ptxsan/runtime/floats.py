"""Float operations that compiled kernels call: directed rounding, halves, conversions, functions.

The common cases are inline IR (`emit.float32`, `emit.halves`); these are the rest. `index` is
FloatFormat.index, `mode` a Rounding, `flags` those of `numerics.rounding` and `numerics.halves`.
"""

from __future__ import annotations

from ptxsan.numerics import approx, arithmetic, convert, halves
from ptxsan.numerics.native import bits64, float32, float64
from ptxsan.numerics.rounding import (
    decode,
    decode_scale,
    encode,
    encode_scale,
    encode_stochastic,
)
from ptxsan.runtime.native import export

ADD, SUB, MUL, DIV = 0, 1, 2, 3
EX2, LG2, RCP, RSQRT, SQRT, SIN, COS, TANH = 0, 1, 2, 3, 4, 5, 6, 7


@export("uint32(int32, uint32, uint32, int32, int32, int32)")
def f_binary(operation: int, a: int, b: int, index: int, mode: int, flags: int) -> int:
    """Return the code of a + b, a - b, a * b or a / b in format `index`."""
    if operation == ADD:
        return halves.add(a, b, index, mode, flags)
    if operation == SUB:
        sign = 0x80000000 if index == 2 else 0x8000
        return halves.add(a, b ^ sign, index, mode, flags)
    if operation == MUL:
        return halves.multiply(a, b, index, mode, flags)
    return halves.divide(a, b, index, mode, flags)


@export("uint32(uint32, uint32, uint32, int32, int32, int32)")
def f_fma(a: int, b: int, c: int, index: int, mode: int, flags: int) -> int:
    """Return the code of a * b + c in format `index`."""
    return halves.multiply_add(a, b, c, index, mode, flags)


@export("uint32(uint32, int32, int32, int32)")
def f_sqrt(a: int, index: int, mode: int, flags: int) -> int:
    """Return the code of sqrt(a) in format `index`."""
    return halves.square_root(a, index, mode, flags)


@export("uint32(uint32, uint32, int32, int32, int32)")
def f_extreme(a: int, b: int, index: int, largest: int, flags: int) -> int:
    """Return the code of max or min in format `index`."""
    return halves.extreme(a, b, index, largest, flags)


@export("uint32(float64, int32, int32, int32)")
def f_encode(value: float, index: int, mode: int, flags: int) -> int:
    """Return the code of a double in format `index`."""
    return encode(value, index, mode, flags)


@export("float64(uint32, int32)")
def f_decode(code: int, index: int) -> float:
    """Return the value of a code of format `index`."""
    return decode(code, index)


@export("uint32(float64, int32, uint32, int32, int32)")
def f_stochastic(value: float, index: int, random: int, count: int, flags: int) -> int:
    """Return the code of a double in format `index`, rounded by `count` random bits."""
    return encode_stochastic(value, index, random, count, flags)


@export("uint32(float64, int32, int32)")
def f_encode_scale(value: float, mode: int, flags: int) -> int:
    """Return the ue8m0 code of a double's magnitude."""
    return encode_scale(value, mode, flags)


@export("float64(uint32)")
def f_decode_scale(code: int) -> float:
    """Return the value of a ue8m0 code."""
    return decode_scale(code)


@export("float64(int32, float64, float64, int32)")
def d_binary(operation: int, a: float, b: float, mode: int) -> float:
    """Return a + b, a - b, a * b or a / b in float64, rounded by `mode`."""
    if operation == ADD:
        return arithmetic.add64(a, b, mode)
    if operation == SUB:
        return arithmetic.add64(a, -b, mode)
    if operation == MUL:
        return arithmetic.mul64(a, b, mode)
    return arithmetic.div64(a, b, mode)


@export("float64(float64, float64, float64, int32)")
def d_fma(a: float, b: float, c: float, mode: int) -> float:
    """Return a * b + c in float64, rounded once by `mode`."""
    return arithmetic.fma64(a, b, c, mode)


@export("float64(float64, int32)")
def d_sqrt(a: float, mode: int) -> float:
    """Return sqrt(a) in float64, rounded by `mode`."""
    return arithmetic.sqrt64(a, mode)


@export("int64(float64, int32, int32, int32, int32)")
def f_to_int(value: float, mode: int, bits: int, signed: int, nan_is_zero: int) -> int:
    """Return a float as an integer of `bits` bits, clamped."""
    return convert.to_integer(value, mode, bits, signed, nan_is_zero)


@export("float64(float64, int32)")
def f_integral(value: float, mode: int) -> float:
    """Return a float rounded to an integral float."""
    return convert.to_integral(value, mode)


@export("uint32(int64, int32, int32, int32, int32)")
def int_to_f(value: int, signed: int, index: int, mode: int, flags: int) -> int:
    """Return the code in format `index` of an integer, rounded once."""
    return convert.integer_to_float(value, signed, index, mode, flags)


@export("float64(int64, int32, int32)")
def int_to_d(value: int, signed: int, mode: int) -> float:
    """Return the float64 of an integer, rounded by `mode`."""
    return convert.integer_to_double(value, signed, mode)


@export("float64(int32, float64)")
def approximate(operation: int, x: float) -> float:
    """Return ex2, lg2, rcp, rsqrt, sqrt, sin, cos or tanh of x in float64."""
    if operation == EX2:
        return approx.exp2(x)
    if operation == LG2:
        return approx.log2(x)
    if operation == RCP:
        return approx.reciprocal(x)
    if operation == RSQRT:
        return approx.reciprocal_root(x)
    if operation == SQRT:
        return approx.root(x)
    if operation == SIN:
        return approx.sine(x)
    if operation == COS:
        return approx.cosine(x)
    return approx.tangent_h(x)


@export("float64(uint32)")
def f32_to_double(code: int) -> float:
    """Return the value of a float32 code."""
    return float32(code)


@export("int32(int32, int64, int32)")
def test_property(kind: int, bits: int, width: int) -> int:
    """Return testp: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal."""
    value = float64(bits) if width == 64 else float32(bits)
    magnitude = abs(value)
    smallest = 2.0**-1022 if width == 64 else 2.0**-126
    nan, infinite = value != value, bits64(magnitude) == 0x7FF0000000000000
    tiny = magnitude < smallest and magnitude != 0.0
    if kind == 0:
        return int(not nan and not infinite)
    if kind == 1:
        return int(infinite)
    if kind == 2:
        return int(not nan)
    if kind == 3:
        return int(nan)
    if kind == 4:
        return int(not nan and not infinite and not tiny)  # zeros count as normal
    return int(tiny)
