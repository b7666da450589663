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

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.native import bits32, bits64, float32, float64, native
from ptxsan.numerics.panels import add_block16, add_block32
from ptxsan.numerics.rounding import decode, power_of_two
from ptxsan.numerics.vectors import ENDLESS, NOTHING

# What stands for the exponent of a zero, and of an infinity or a NaN.
ZERO, SPECIAL = -200_000, 400_000
_NAN32 = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRule:
    """How one architecture adds: products a step and bits kept below the largest exponent.

    `halves`: 8-bit factors run as f16 in two steps (runtime.matrix).
    """

    block: int
    fraction_bits: int
    halves: bool = False


# (architecture, bytes of a factor) -> rule. sm_90 is measured, the rest are those of MMA-Sim
# (Microsoft, 2025, github.com/microsoft/MMA-Sim), whose authors measured them on each architecture.
RULES = {
    (70, 2): SumRule(block=4, fraction_bits=23),
    (75, 2): SumRule(block=8, fraction_bits=24),
    (80, 2): SumRule(block=8, fraction_bits=24),
    (80, 4): SumRule(block=4, fraction_bits=24),
    (86, 2): SumRule(block=8, fraction_bits=24),
    (86, 4): SumRule(block=4, fraction_bits=24),
    (89, 2): SumRule(block=8, fraction_bits=24),
    (89, 4): SumRule(block=4, fraction_bits=24),
    (90, 2): SumRule(block=16, fraction_bits=25),
    (90, 4): SumRule(block=8, fraction_bits=25),
    (89, 1): SumRule(block=16, fraction_bits=13),
    (90, 1): SumRule(block=16, fraction_bits=25, halves=True),
    (120, 1): SumRule(block=32, fraction_bits=25),
}


def sum_rule(architecture: int, factor_bytes: int) -> SumRule:
    """Return the rule of an architecture (80, 90...); unknown ones take the nearest older one."""
    oldest = {1: 89, 2: 70, 4: 80}[factor_bytes]
    known = [number for number, size in RULES if size == factor_bytes and number <= architecture]
    return RULES[max(known, default=oldest), factor_bytes]


def instruction_rule(architecture: int, factor_bytes: int, depth: int) -> SumRule:
    """Return the rule of one `mma.sync` with `depth` products a sum."""
    rule = sum_rule(architecture, factor_bytes)
    return dataclasses.replace(rule, block=min(rule.block, depth))


def group_rule(architecture: int, factor_bytes: int) -> SumRule:
    """Return the rule of wgmma: one step takes all products of an instruction."""
    del architecture  # wgmma exists on sm_90 alone
    block, fraction_bits = {1: (32, 13), 2: (16, 25), 4: (8, 25)}[factor_bytes]
    return SumRule(block=block, fraction_bits=fraction_bits)


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
    elif index == 5:
        field, rest, top, lowest = (code >> 2) & 0x1F, code & 0x3, 0x1F, -14
    elif index == 7:
        field, rest, top, lowest = (code >> 1) & 0x3, code & 0x1, 0x10, 0
    elif index == 8:
        field, rest, top, lowest = (code >> 2) & 0x7, code & 0x3, 0x10, -2
    else:
        field, rest, top, lowest = (code >> 3) & 0x3, code & 0x7, 0x10, 0
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


@native
def factors(
    codes: NDArray[np.int64], index: int, value: NDArray[np.float64], size: NDArray[np.float64]
) -> None:
    """Fill value and size, flat float64 arrays as long as `codes`, of factors of a format."""
    for at in range(codes.size):
        code = codes[at]
        value[at] = load_factor(code, index)
        exponent = exponent_in(code, index)
        if exponent == ZERO:
            size[at] = NOTHING
        elif exponent == SPECIAL:
            size[at] = ENDLESS
        else:
            size[at] = power_of_two(exponent)


@native
def brain_factors(
    codes: NDArray[np.int64], value: NDArray[np.float64], size: NDArray[np.float64]
) -> None:
    """Do the same for bf16, without branches."""
    for at in range(codes.size):
        code = codes[at]
        value[at] = float32(code << 16)
        field = (code >> 7) & 0xFF
        power = float64((max(field, 1) + 1023 - 127) << 52)
        power = ENDLESS if field == 0xFF else power
        size[at] = NOTHING if code & 0x7FFF == 0 else power


@native
def half_factors(
    codes: NDArray[np.int64], value: NDArray[np.float64], size: NDArray[np.float64]
) -> None:
    """Do the same for f16, without branches."""
    for at in range(codes.size):
        code = codes[at]
        magnitude = code & 0x7FFF
        field = magnitude >> 10
        bits = (magnitude << 42) + ((1023 - 15) << 52)
        bits = bits64(float(magnitude) * 2.0**-24) if field == 0 else bits
        bits = bits | (0x7FF << 52) if field == 0x1F else bits
        value[at] = float64(bits | ((code & 0x8000) << 48))
        power = float64((max(field, 1) + 1023 - 15) << 52)
        power = ENDLESS if field == 0x1F else power
        size[at] = NOTHING if magnitude == 0 else power


@native
def read_factors(
    codes: NDArray[np.int64], index: int, value: NDArray[np.float64], size: NDArray[np.float64]
) -> None:
    """Do the same for any format."""
    if index == 1:
        brain_factors(codes, value, size)
    elif index == 0:
        half_factors(codes, value, size)
    else:
        factors(codes, index, value, size)


@native
def multiply(
    a_codes: NDArray[np.int64],
    b_codes: NDArray[np.int64],
    result: NDArray[np.int64],
    formats: tuple[int, int],
    index: int,
    rule: tuple[int, int],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
) -> None:
    """Add A B to result in place, all codes; fill a and b with the factors' values.

    a_codes, a: [M, K]; b_codes, b: [N / 8, K, 8], of these two `formats`; result: [M, N / 8, 8] of
    format `index` (f32 or f16). `rule`: products a step, bits below the largest exponent.
    """
    a_size, b_size = np.empty(a.shape), np.empty(b.shape)
    read_factors(a_codes.reshape(-1), formats[0], a.reshape(-1), a_size.reshape(-1))
    read_factors(b_codes.reshape(-1), formats[1], b.reshape(-1), b_size.reshape(-1))
    block, fraction_bits = rule
    for first in range(0, a.shape[1], block):
        if index == 0:
            add_block16(a, a_size, b, b_size, result, first, block, fraction_bits)
        else:
            add_block32(a, a_size, b, b_size, result, first, block, fraction_bits)


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
    (rows, depth), columns = a_codes.shape, b_codes.shape[0]
    panels = (columns + 7) // 8
    a, b = np.zeros((rows, depth), np.int64), np.zeros((panels, depth, 8), np.int64)
    padded = np.zeros((rows, panels, 8), np.int64)
    a[:] = a_codes
    for n in range(columns):
        for k in range(depth):
            b[n // 8, k, n % 8] = b_codes[n, k]
        for m in range(rows):
            padded[m, n // 8, n % 8] = c_codes[m, n]
    values = np.empty((rows, depth)), np.empty((panels, depth, 8))
    multiply(a, b, padded, (factor, factor), index, (block, fraction_bits), values[0], values[1])
    for n in range(columns):
        for m in range(rows):
            result[m, n] = padded[m, n // 8, n % 8]


@native
def code32(value: float) -> int:
    """Return the float32 code nearest to `value`; NaN is 0x7fffffff."""
    return _NAN32 if value != value else bits32(value)
