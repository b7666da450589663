"""The tensor cores' sum of products, bit for bit.

One step takes `block` products and an accumulator. With e the largest exponent among them (of a
product: the sum of its factors' exponents, not normalised), every term is cut toward zero to a
multiple of 2**(e - fraction_bits), the terms are added exactly, and the sum is cut to the
accumulator's format. Measured on an H200, all bits equal (docs/machine-numerics.md); the parameters
of other architectures follow Khattak and Mikaitis, "Generalized Methodology for Determining
Numerical Features of Hardware Floating-Point Matrix Multipliers", 2025, and Fasi et al.,
"Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuassay.machine.numerics.native import (
    bits32,
    bits64,
    float32,
    float64,
    native,
    reassociating,
)
from cuassay.machine.numerics.rounding import decode, encode

# What stands for the exponent of a zero, and of an infinity or a NaN.
ZERO, SPECIAL = -200_000, 400_000
_NAN32 = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRule:
    """How one architecture adds: products a step and bits kept below the largest exponent."""

    block: int
    fraction_bits: int


# (architecture, bytes of a factor) -> rule. sm_90 is measured, the rest read in the papers above.
RULES = {
    (70, 2): SumRule(block=4, fraction_bits=23),
    (75, 2): SumRule(block=4, fraction_bits=23),
    (80, 2): SumRule(block=8, fraction_bits=24),
    (80, 4): SumRule(block=4, fraction_bits=24),
    (86, 2): SumRule(block=8, fraction_bits=24),
    (86, 4): SumRule(block=4, fraction_bits=24),
    (89, 2): SumRule(block=8, fraction_bits=24),
    (89, 4): SumRule(block=4, fraction_bits=24),
    (90, 2): SumRule(block=16, fraction_bits=25),
    (90, 4): SumRule(block=8, fraction_bits=25),
}


def sum_rule(architecture: int, factor_bytes: int) -> SumRule:
    """Return the rule of an architecture (80, 90...); unknown ones take the nearest older one.

    fp8 factors on sm_89 and sm_90 `mma.sync` run as f16.
    """
    wide = 4 if factor_bytes == 4 else 2
    known = [number for number, size in RULES if size == wide and number <= architecture]
    return RULES[max(known, default=80), wide]


def group_rule(architecture: int, factor_bytes: int) -> tuple[int, int]:
    """Return (block, fraction bits) of wgmma: one step takes all products of an instruction."""
    del architecture  # wgmma exists on sm_90 alone
    return {1: (32, 13), 2: (16, 25), 4: (8, 25)}[factor_bytes]


@native
def exponent_in(code: int, index: int) -> int:
    """Return the exponent that the adder sees for a code: not normalised for subnormals."""
    if index == 0:
        field, rest, top, lowest = (code >> 10) & 0x1F, code & 0x3FF, 0x1F, -14
    elif index == 1:
        field, rest, top, lowest = (code >> 7) & 0xFF, code & 0x7F, 0xFF, -126
    elif index == 2:
        field, rest, top, lowest = (code >> 23) & 0xFF, code & 0x7FFFFF, 0xFF, -126
    elif index == 3:
        field, rest, top, lowest = (code >> 23) & 0xFF, code & 0x7FE000, 0xFF, -126
    elif index == 4:
        field, rest, top, lowest = (code >> 3) & 0xF, code & 0x7, 0x10, -6
        if field == 0xF and rest == 0x7:
            return SPECIAL
    else:
        field, rest, top, lowest = (code >> 2) & 0x1F, code & 0x3, 0x1F, -14
    if field == top:
        return SPECIAL
    if field == 0:
        return lowest if rest != 0 else ZERO
    return field + lowest - 1


@native
def load_factor(code: int, index: int) -> float:
    """Return a factor's value; TF32 reads only the upper 19 bits of its register."""
    if index == 1:
        return float32(code << 16)
    if index == 3:
        return float32(code & 0xFFFFE000)
    return decode(code, index)


@reassociating
def step(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    m: int,
    n: int,
    first: int,
    count: int,
    accumulator: float,
    largest: int,
    fraction_bits: int,
) -> float:
    """Return the exact sum of the cut terms a[m, k] * b[n, k] of one step and the accumulator.

    Every term and sum is a multiple of the unit 2**(largest - fraction_bits) below 2**53 units, so
    float64 holds it and the order of additions does not matter.
    """
    scale = float64((fraction_bits - largest + 1023) << 52)
    total = np.trunc(accumulator * scale)
    for k in range(first, first + count):
        total += np.trunc(a[m, k] * b[n, k] * scale)
    return float(total) * float64((largest - fraction_bits + 1023) << 52)


@native
def cut32(value: float) -> int:
    """Return the float32 code of a finite float64 cut toward zero; beyond the range, infinity."""
    magnitude = abs(value)
    if magnitude < 2.0**-149:  # a sum that is cut to zero loses its sign
        return 0
    sign = (bits64(value) >> 32) & 0x80000000
    if magnitude >= 2.0**128:
        return sign | 0x7F800000
    if magnitude < 2.0**-126:
        return sign | int(magnitude * 2.0**149)
    bits = bits64(magnitude)
    return sign | (((bits >> 52) - 896) << 23) | ((bits >> 29) & 0x7FFFFF)


@reassociating
def largest_exponent(
    a_exponent: NDArray[np.int32],
    b_exponent: NDArray[np.int32],
    m: int,
    n: int,
    first: int,
    count: int,
    largest: int,
) -> int:
    """Return the largest of the products' exponents and `largest`, the accumulator's."""
    for k in range(first, first + count):
        largest = max(largest, a_exponent[m, k] + b_exponent[n, k])
    return largest


@native
def special_code(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    m: int,
    n: int,
    first: int,
    count: int,
    accumulator: float,
    index: int,
) -> int:
    """Return the code of a step with an infinity or a NaN among its terms: +-inf or NaN."""
    total = accumulator
    for k in range(first, first + count):
        total += a[m, k] * b[n, k]
    return encode(total, index, 1, 0)


@native
def step32(
    a: NDArray[np.float64],
    a_exponent: NDArray[np.int32],
    b: NDArray[np.float64],
    b_exponent: NDArray[np.int32],
    m: int,
    n: int,
    first: int,
    block: int,
    code: int,
    fraction_bits: int,
) -> int:
    """Return the f32 code of code + sum of a[m, k] * b[n, k], `block` products from `first`.

    a, b: float64[rows, K] values of the factors; a_exponent, b_exponent: int32[rows, K] from
    `exponent_in`.
    """
    field = (code >> 23) & 0xFF
    own = field - 127
    if field == 0:
        own = -126 if (code & 0x7FFFFF) != 0 else ZERO
    elif field == 0xFF:
        own = SPECIAL
    largest = largest_exponent(a_exponent, b_exponent, m, n, first, block, own)
    if largest >= 50_000:
        return special_code(a, b, m, n, first, block, float32(code), 2)
    if largest <= -50_000:
        return 0
    code = cut32(step(a, b, m, n, first, block, float32(code), largest, fraction_bits))
    if fraction_bits < 23 and (code & 0x7F800000) != 0x7F800000:
        code &= -1 << (23 - fraction_bits)  # the result keeps no more bits than the adder
    return code


@native
def step16(
    a: NDArray[np.float64],
    a_exponent: NDArray[np.int32],
    b: NDArray[np.float64],
    b_exponent: NDArray[np.int32],
    m: int,
    n: int,
    first: int,
    block: int,
    code: int,
    fraction_bits: int,
) -> int:
    """Return what `step32` does with an f16 accumulator, rounded to nearest."""
    accumulator, own = decode(code, 0), exponent_in(code, 0)
    largest = largest_exponent(a_exponent, b_exponent, m, n, first, block, own)
    if largest >= 50_000:
        return special_code(a, b, m, n, first, block, accumulator, 0)
    if largest <= -50_000:
        return 0
    total = step(a, b, m, n, first, block, accumulator, largest, fraction_bits)
    code = encode(total, 0, 0, 0)
    return 0 if code == 0x8000 else code


@native
def sweep(
    a: NDArray[np.float64],
    a_exponent: NDArray[np.int32],
    b: NDArray[np.float64],
    b_exponent: NDArray[np.int32],
    result: NDArray[np.int64],
    first: int,
    index: int,
    block: int,
    fraction_bits: int,
) -> None:
    """Add one block of products to every result[m, n] in place (codes of format `index`)."""
    for m in range(result.shape[0]):
        for n in range(result.shape[1]):
            code = result[m, n]
            if index == 0:
                code = step16(a, a_exponent, b, b_exponent, m, n, first, block, code, fraction_bits)
            elif block == 16:  # a literal count lets the compiler unroll the hot case
                code = step32(a, a_exponent, b, b_exponent, m, n, first, 16, code, fraction_bits)
            elif block == 8:
                code = step32(a, a_exponent, b, b_exponent, m, n, first, 8, code, fraction_bits)
            else:
                code = step32(a, a_exponent, b, b_exponent, m, n, first, block, code, fraction_bits)
            result[m, n] = code


@native
def tile(
    a_codes: NDArray[np.int64],
    b_codes: NDArray[np.int64],
    c_codes: NDArray[np.int64],
    result: NDArray[np.int64],
    factor: int,
    index: int,
    block: int,
    fraction_bits: int,
) -> None:
    """Write result[m, n] = c[m, n] + sum over k of a[m, k] * b[n, k], all codes.

    a_codes: int64[M, K], b_codes: int64[N, K] of format `factor`; c_codes, result: int64[M, N] of
    format `index` (f32 or f16).
    """
    rows, depth = a_codes.shape
    columns = b_codes.shape[0]
    a, a_exponent = np.empty((rows, depth)), np.empty((rows, depth), np.int32)
    b, b_exponent = np.empty((columns, depth)), np.empty((columns, depth), np.int32)
    for m in range(rows):
        for k in range(depth):
            a[m, k] = load_factor(a_codes[m, k], factor)
            a_exponent[m, k] = exponent_in(a_codes[m, k], factor)
    for n in range(columns):
        for k in range(depth):
            b[n, k] = load_factor(b_codes[n, k], factor)
            b_exponent[n, k] = exponent_in(b_codes[n, k], factor)
    result[:] = c_codes
    for first in range(0, depth, block):
        sweep(a, a_exponent, b, b_exponent, result, first, index, block, fraction_bits)


@native
def value32(code: int) -> float:
    """Return the value of a float32 code, as callers outside compiled code need it."""
    return float32(code)


@native
def code32(value: float) -> int:
    """Return the float32 code nearest to `value`; NaN is 0x7fffffff."""
    return _NAN32 if value != value else bits32(value)
