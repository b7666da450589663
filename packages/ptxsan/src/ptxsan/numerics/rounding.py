"""Round a float64 value into a smaller format and back, in every PTX rounding mode.

A value that is not itself exact in float64 must arrive *rounded to odd* (see `arithmetic`): then
rounding it again, into at most 51 bits, gives what a single rounding of the exact value gives
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57, 2008).
"""

from __future__ import annotations

from ptxsan.numerics.native import bits64, float64, native

# The columns of the format table, by FloatFormat.index (f64 is never a target here).
PRECISION = (11, 8, 24, 11, 4, 3, 53, 2, 3, 4)
MIN_EXPONENT = (-14, -126, -126, -126, -6, -14, -1022, 0, -2, 0)
MAX_FINITE = (
    65504.0,
    (2.0 - 2.0**-7) * 2.0**127,
    (2.0 - 2.0**-23) * 2.0**127,
    (2.0 - 2.0**-10) * 2.0**127,
    448.0,
    57344.0,
    0.0,
    6.0,
    28.0,
    7.5,
)
_NAN = (0x7FFF, 0x7FFF, 0x7FFFFFFF, 0x7FFFFFFF, 0x7F, 0x7F, 0, 0x7, 0x1F, 0x1F)
_NEVER = 0x100  # no code of a format without infinities and NaN
_INFINITY = (
    0x7C00, 0x7F80, 0x7F800000, 0x7F800000, 0x7F, 0x7C, 0, _NEVER, _NEVER, _NEVER
)  # fmt: skip
_MAX_CODE = (0x7BFF, 0x7F7F, 0x7F7FFFFF, 0x7F7FE000, 0x7E, 0x7B, 0, 0x7, 0x1F, 0x1F)
_SIGN_BIT = (15, 15, 31, 31, 7, 7, 63, 3, 5, 5)
# Significand bits in the code; tf32 keeps 13 zeros below.
_STORED_BITS = (10, 7, 23, 23, 3, 2, 52, 1, 2, 3)

SATFINITE, RELU, FLUSH = 1, 2, 4  # flags of `encode`

_MANTISSA = (1 << 52) - 1
_EXPONENT = 0x7FF


@native
def power_of_two(exponent: int) -> float:
    """Return 2**exponent as float64, for -1022 <= exponent <= 1023."""
    return float64((exponent + 1023) << 52)


@native
def exponent_of(value: float) -> int:
    """Return floor(log2(|value|)) of a finite nonzero float64, subnormals included."""
    field = (bits64(value) >> 52) & _EXPONENT
    if field != 0:
        return field - 1023
    return ((bits64(value * 18014398509481984.0) >> 52) & _EXPONENT) - 1023 - 54


@native
def round_up(kept: int, rest: int, half: int, negative: bool, mode: int) -> bool:
    """Return whether a magnitude kept + rest (0 <= rest < 2 * half) rounds to kept + 1."""
    if mode == 0:
        return rest > half or (rest == half and (kept & 1) == 1)
    if mode == 2:
        return negative and rest != 0
    if mode == 3:
        return (not negative) and rest != 0
    if mode == 4:
        return rest >= half
    return False


@native
def round_magnitude(value: float, precision: int, min_exponent: int, mode: int) -> float:
    """Return a finite `value` on the grid of `precision` bits, unbounded above, signed.

    Subnormals of the format are on the grid. `mode` is a Rounding.
    """
    if value == 0.0:
        return value
    exponent = exponent_of(value)
    quantum = max(exponent, min_exponent) - (precision - 1)
    bits = bits64(value)
    field = (bits >> 52) & _EXPONENT
    mantissa = bits & _MANTISSA
    scale = field - 1075 if field != 0 else -1074
    if field != 0:
        mantissa |= 1 << 52
    shift = quantum - scale
    if shift <= 0:
        return value
    if shift > 54:  # below a quarter of the quantum: every mode sees only "something"
        mantissa, shift = 1, 54
    kept = mantissa >> shift
    rest = mantissa - (kept << shift)
    if round_up(kept, rest, 1 << (shift - 1), value < 0.0, mode):
        kept += 1
    magnitude = float(kept) * power_of_two(quantum)
    return -magnitude if value < 0.0 else magnitude


@native
def overflow_code(negative: bool, index: int, mode: int, flags: int) -> int:
    """Return the code for a finite value beyond the format's largest, without its sign."""
    to_infinity = mode in (0, 4) or (mode == 2 and negative) or (mode == 3 and not negative)
    if (flags & SATFINITE) != 0 or not to_infinity:
        return _MAX_CODE[index]
    return _INFINITY[index]


@native
def encode(value: float, index: int, mode: int, flags: int) -> int:
    """Return the bits of `value` in format `index`, rounded by `mode`.

    flags: SATFINITE clamps overflow and infinities to the largest finite value, RELU turns negative
    values into +0 and NaN stays the canonical NaN, FLUSH turns subnormal results into signed zeros.
    PTX ISA 9.7.9.21 (cvt).
    """
    if value != value:
        return _NAN[index]
    bits = bits64(value)
    negative = bits < 0
    if negative and (flags & RELU) != 0:
        return 0
    sign = (1 << _SIGN_BIT[index]) if negative else 0
    if value - value != 0.0:  # infinite
        if (flags & SATFINITE) != 0:
            return sign | _MAX_CODE[index]
        return sign | _INFINITY[index]
    rounded = abs(round_magnitude(value, PRECISION[index], MIN_EXPONENT[index], mode))
    if rounded > MAX_FINITE[index]:
        return sign | overflow_code(negative, index, mode, flags)
    if rounded == 0.0:
        return sign
    if rounded < power_of_two(MIN_EXPONENT[index]):
        if (flags & FLUSH) != 0:
            return sign
        unit = MIN_EXPONENT[index] - _STORED_BITS[index]
        return sign | int(rounded / power_of_two(unit))
    stored = _STORED_BITS[index]
    rounded_bits = bits64(rounded)
    exponent = ((rounded_bits >> 52) & _EXPONENT) - 1023
    field = exponent - MIN_EXPONENT[index] + 1
    return sign | (field << stored) | ((rounded_bits & _MANTISSA) >> (52 - stored))


@native
def decode(code: int, index: int) -> float:
    """Return the value of a code of format `index` as float64 (exact; NaN for every NaN)."""
    stored = _STORED_BITS[index]
    magnitude = code & ((1 << _SIGN_BIT[index]) - 1)
    negative = ((code >> _SIGN_BIT[index]) & 1) != 0
    if index == 4:
        special, is_nan = magnitude == 0x7F, True
    else:
        special, is_nan = magnitude >= _INFINITY[index], magnitude > _INFINITY[index]
    if special:
        value = float64(0x7FF8000000000000) if is_nan else float64(0x7FF0000000000000)
    else:
        field = magnitude >> stored
        fraction = magnitude - (field << stored)
        if field == 0:
            value = float(fraction) * power_of_two(MIN_EXPONENT[index] - stored)
        else:
            value = float64(
                ((field + MIN_EXPONENT[index] - 1 + 1023) << 52) | (fraction << (52 - stored))
            )
    return -value if negative else value


@native
def encode_stochastic(value: float, index: int, random: int, count: int, flags: int) -> int:
    """Return the bits of `value` in format `index`, rounded by `count` random bits (cvt.rs).

    It is rounded away from zero where adding them to the discarded bits, as a fraction of the last
    bit kept, gives a carry.
    """
    if value - value != 0.0:
        return encode(value, index, 0, flags)
    magnitude = abs(value)
    low = round_magnitude(magnitude, PRECISION[index], MIN_EXPONENT[index], 1)
    if low != magnitude:
        exponent = max(exponent_of(magnitude), MIN_EXPONENT[index])
        last = power_of_two(exponent - PRECISION[index] + 1)
        if (magnitude - low) / last * power_of_two(count) + float(random) >= power_of_two(count):
            low += last
    return encode(-low if bits64(value) < 0 else low, index, 0, flags)


@native
def encode_scale(value: float, mode: int, flags: int) -> int:
    """Return the ue8m0 code of |value|: code 0 to 254 is 2**(code - 127), 255 a NaN.

    `mode`: toward zero (1) or up (3). Zero, and what lies below the smallest, becomes the smallest.
    """
    if value != value:
        return 255
    magnitude = abs(value)
    if magnitude <= 2.0**-127:
        return 0
    code = 255
    if magnitude - magnitude == 0.0:
        exponent = exponent_of(magnitude)
        code = exponent + 127
        if mode == 3 and magnitude != power_of_two(exponent):
            code += 1
    return 254 if code > 254 and (flags & SATFINITE) != 0 else min(code, 255)


@native
def decode_scale(code: int) -> float:
    """Return the value of a ue8m0 code as float64."""
    return float64(0x7FF8000000000000) if code == 255 else power_of_two(code - 127)
