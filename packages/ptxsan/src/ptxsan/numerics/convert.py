"""Conversions between floats and integers, and rounding to an integral float.

PTX ISA 9.7.9.21 (cvt): out-of-range values clamp to the integer type; a NaN becomes 0, or the code
1 << (bits - 1) when the source is f64 or the target has 64 bits.
"""

from __future__ import annotations

import math

from ptxsan.numerics.native import bits64, float64, native
from ptxsan.numerics.rounding import encode, round_up

_MANTISSA = (1 << 52) - 1
_EXPONENT = 0x7FF
_TWO63 = 9223372036854775808.0


@native
def quieted(bits: int) -> int:
    """Return a float64 pattern whose NaN, if it is one, is quiet."""
    if ((bits >> 52) & _EXPONENT) == _EXPONENT and (bits & _MANTISSA) != 0:
        return bits | (1 << 51)
    return bits


@native
def to_integral(value: float, mode: int) -> float:
    """Return `value` rounded to an integer in a Rounding mode; zeros keep their sign."""
    if not abs(value) < 2.0**52:
        return float64(quieted(bits64(value)))
    whole = float(math.trunc(value))
    rest = abs(value - whole)  # exact
    place = 0 if rest == 0.0 else (1 if rest < 0.5 else (2 if rest == 0.5 else 3))
    if round_up(int(abs(whole)), place, 2, value < 0.0, mode):
        whole += math.copysign(1.0, value)
    return math.copysign(whole, value)


@native
def to_integer(value: float, mode: int, bits: int, signed: int, nan_is_zero: int) -> int:
    """Return `value` as an integer of `bits` bits, rounded by `mode` and clamped.

    The result is a pattern of 64 bits: negative numbers are sign extended, u64 wraps.
    """
    if value != value:
        if nan_is_zero != 0:
            return 0
        return -9223372036854775808 if bits == 64 else 1 << (bits - 1)
    whole = to_integral(value, mode)
    if signed != 0:
        limit = 2.0 ** (bits - 1)
        if whole >= limit:
            return 9223372036854775807 if bits == 64 else (1 << (bits - 1)) - 1
        if whole < -limit:
            return -9223372036854775808 if bits == 64 else -(1 << (bits - 1))
        return int(whole)
    if not whole > 0.0:
        return 0
    if whole >= 2.0**bits:
        return -1 if bits == 64 else (1 << bits) - 1
    if whole >= _TWO63:
        return int(whole - _TWO63) | -9223372036854775808
    return int(whole)


@native
def odd_integer(value: int, signed: int) -> float:
    """Return a 64-bit integer as float64 rounded to odd."""
    negative = signed != 0 and value < 0
    magnitude = -value if negative else value  # the pattern of 2**63 stays itself
    if 0 <= magnitude < 1 << 53:
        result = float(magnitude)
    else:
        high = (magnitude >> 11) & 0x1FFFFFFFFFFFFF
        if (magnitude & 0x7FF) != 0:
            high |= 1
        result = float(high) * 2048.0
    return -result if negative else result


@native
def integer_to_float(value: int, signed: int, index: int, mode: int, flags: int) -> int:
    """Return the code in format `index` (not f64) of a 64-bit integer, rounded once."""
    return encode(odd_integer(value, signed), index, mode, flags)


@native
def integer_to_double(value: int, signed: int, mode: int) -> float:
    """Return a 64-bit integer as float64 in a Rounding mode."""
    negative = signed != 0 and value < 0
    magnitude = -value if negative else value
    if 0 <= magnitude < 1 << 53:
        result = float(magnitude)
    else:
        # Count the bits above 53 of the unsigned magnitude.
        shift = 1
        while ((magnitude >> shift) & ((1 << (64 - shift)) - 1)) >= 1 << 53:
            shift += 1
        kept = (magnitude >> shift) & ((1 << (64 - shift)) - 1)
        rest = magnitude & ((1 << shift) - 1)
        if round_up(kept, rest, 1 << (shift - 1), negative, mode):
            kept += 1
        result = float(kept) * float(1 << shift)
    return -result if negative else result


@native
def flush32(value: float) -> float:
    """Return `value` with float32 subnormals turned into zeros of their sign (.ftz)."""
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


@native
def saturate(value: float) -> float:
    """Return `value` clamped to [0, 1]; NaN becomes +0 (.sat)."""
    if not value > 0.0:
        return 0.0
    return 1.0 if value > 1.0 else value
