"""Products of factors that share scales: blocks along K, of 4-bit factors exact in groups of 16.

The sums are those of MMA-Sim (Microsoft, 2025) for Blackwell, in tensor memory (sm_100) and in
registers (sm_120) alike: factors of 8 bits, or in containers of 8, are scaled one by one; those of
4 bits are added in groups of 16, whose scales' exponents say what is cut, 35 bits below the
largest.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.native import bits64, float32, native
from ptxsan.numerics.panels import cut32
from ptxsan.numerics.rounding import power_of_two
from ptxsan.numerics.vectors import LEAST, MOST

FRACTION_OF_GROUPS, GROUP = 35, 16


@native
def _scale_factors(
    values: NDArray[np.float64], sizes: NDArray[np.float64], place: int, step: int, count: int,
    code: int,
) -> None:  # fmt: skip
    """Multiply `count` factors by the power of two that a ue8m0 code is; 255 is a NaN."""
    factor = power_of_two(code - 127)
    for index in range(count):
        at = place + index * step
        if code == 255:
            values[at], sizes[at] = math.nan, 2.0**900
            continue
        values[at] *= factor
        if LEAST < sizes[at] < MOST:
            sizes[at] *= factor


@native
def scale_both(
    a: NDArray[np.float64], a_sizes: NDArray[np.float64],
    b: NDArray[np.float64], b_sizes: NDArray[np.float64],
    a_scales: NDArray[np.int64], b_scales: NDArray[np.int64],
) -> None:  # fmt: skip
    """Scale factors and sizes (panels.py) in place: a [M, K], b [N / 8, K, 8] by ue8m0 codes.

    a_scales: [M, 1]; b_scales: [N, 1].
    """
    depth = a.shape[1]
    for row in range(a.shape[0]):
        code = a_scales[row, 0]
        _scale_factors(a.reshape(-1), a_sizes.reshape(-1), row * depth, 1, depth, code)
    for column in range(8 * b.shape[0]):
        start, code = (column >> 3) * 8 * depth + (column & 7), b_scales[column, 0]
        _scale_factors(b.reshape(-1), b_sizes.reshape(-1), start, 8, depth, code)


@native
def value_of_scale(code: int, exponent_only: bool) -> float:
    """Return a ue8m0 or ue4m3 scale as float64."""
    significand, exponent = scale_of_group(code, exponent_only)
    return significand * power_of_two(exponent)


@native
def _significand(value: float) -> tuple[float, int]:
    """Return (s, e) with value = s 2**e of a float32 accumulator; e is at least -126."""
    if value == 0.0:
        return 0.0, -126
    exponent = max(((bits64(value) >> 52) & 0x7FF) - 1023, -126)
    return value * power_of_two(-exponent), exponent


@native
def scale_of_group(code: int, exponent_only: bool) -> tuple[float, int]:
    """Return (s, e) of a ue8m0 or ue4m3 scale; s is NaN where it is one."""
    if exponent_only:
        return (math.nan, 0) if code == 255 else (1.0, code - 127)
    code &= 127
    if code == 127:
        return math.nan, 0
    field, rest = code >> 3, code & 7
    if field == 0:
        return float(rest) / 8.0, -6
    return 1.0 + float(rest) / 8.0, field - 7


@native
def add_groups(
    a: NDArray[np.float64], b: NDArray[np.float64], scales_a: NDArray[np.int64],
    scales_b: NDArray[np.int64], exponent_only: bool, result: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add A B of 4-bit factors to result: groups of 16 are exact, then cut below the largest.

    a: [M, K]; b: [N / 8, K, 8]; scales_a: [M, scales]; scales_b: [N, scales].
    """
    count = a.shape[1] // GROUP
    per_scale = count // scales_a.shape[1]
    terms, exponents = np.empty(count + 1), np.empty(count + 1, np.int64)
    for row in range(a.shape[0]):
        for column in range(result.shape[1] * 8):
            own = float32(result[row, column >> 3, column & 7])
            if own - own != 0.0:
                code = 0x7FFFFFFF if own != own else result[row, column >> 3, column & 7]
                for group in range(scales_a.shape[1]):
                    x, _ = scale_of_group(scales_a[row, group], exponent_only)
                    y, _ = scale_of_group(scales_b[column, group], exponent_only)
                    code = 0x7FFFFFFF if x + y != x + y else code
                result[row, column >> 3, column & 7] = code
                continue
            terms[count], exponents[count] = _significand(own)
            largest, broken = exponents[count], False
            for group in range(count):
                x, e = scale_of_group(scales_a[row, group // per_scale], exponent_only)
                y, f = scale_of_group(scales_b[column, group // per_scale], exponent_only)
                total = 0.0
                for k in range(GROUP * group, GROUP * (group + 1)):
                    total += a[row, k] * b[column >> 3, k, column & 7]
                broken = broken or x != x or y != y
                terms[group], exponents[group] = total * x * y, e + f
                largest = max(largest, e + f)
            if broken:
                result[row, column >> 3, column & 7] = 0x7FFFFFFF
                continue
            total = 0.0
            for index in range(count + 1):
                lower = FRACTION_OF_GROUPS + exponents[index] - largest
                if lower > -400:
                    total += math.trunc(terms[index] * power_of_two(lower))
            code = cut32(total * power_of_two(largest - FRACTION_OF_GROUPS))
            result[row, column >> 3, column & 7] = code
