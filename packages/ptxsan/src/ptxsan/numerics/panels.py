"""The tensor cores' step (`dot`) on eight outputs of a row at once, so that it runs in vectors.

Factors lie as float64 values and as sizes: two to the exponent that the adder sees, so that the
size of a product is the product of the sizes. A is [M, K], B lies in panels of eight columns,
[N / 8, K, 8]. A term or a sum is an integer number of units below 2**53 (`dot.step`), so that
float64 holds it and the order of additions does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.native import bits64, float32, native
from ptxsan.numerics.rounding import decode, encode, power_of_two
from ptxsan.numerics.vectors import (
    ENDLESS,
    MOST,
    NOTHING,
    product_vector,
    step_vector,
    sum_vector,
)


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


@native
def _special(
    a: NDArray[np.float64], b: NDArray[np.float64], at: tuple[int, int, int], first: int,
    block: int, accumulator: float, index: int,
) -> int:  # fmt: skip
    """Return the code of a step with an infinity or a NaN among its terms: +-inf or NaN."""
    m, panel, column = at
    total = accumulator
    for k in range(first, first + block):
        total += a[m, k] * b[panel, k, column]
    return encode(total, index, 1, 0)


@native
def _end(
    a: NDArray[np.float64], b: NDArray[np.float64], at: tuple[int, int, int], block: int,
    codes: NDArray[np.int64], room: NDArray[np.float64],
) -> None:  # fmt: skip
    """Make the codes of eight sums, some of which need more than a cut."""
    m, panel, first = at
    for column in range(8):
        if room[1, column] >= MOST:
            accumulator = float32(codes[column])
            codes[column] = _special(a, b, (m, panel, column), first, block, accumulator, 2)
        else:
            codes[column] = cut32(room[0, column])


@native
def _narrow(codes: NDArray[np.int64], fraction_bits: int) -> None:
    """Keep no more bits of a sum than the adder has."""
    for column in range(8):
        if (codes[column] & 0x7F800000) != 0x7F800000:
            codes[column] &= -1 << (23 - fraction_bits)


@native
def add_block32(
    a: NDArray[np.float64], a_size: NDArray[np.float64],
    b: NDArray[np.float64], b_size: NDArray[np.float64],
    result: NDArray[np.int64], first: int, block: int, fraction_bits: int,
) -> None:  # fmt: skip
    """Add one block of products to result[M, N / 8, 8] in place (codes of f32).

    a, a_size: float64[M, K]; b, b_size: float64[N / 8, K, 8]; all C-contiguous.
    """
    room, power = np.empty((2, 8)), 2.0**fraction_bits
    rows, panels = result.shape[0], result.shape[1]
    depth = a.shape[1]
    at, codes_at, room_at = 8 * first, result.ctypes.data, room.ctypes.data
    for m in range(rows):
        row = 8 * m * depth + at
        for panel in range(panels):
            column, place = 64 * panel * depth + 8 * at, codes_at + 64 * (m * panels + panel)
            odd = step_vector(
                place, a.ctypes.data + row, a_size.ctypes.data + row, b.ctypes.data + column,
                b_size.ctypes.data + column, block, power, room_at, room_at + 64,
            )  # fmt: skip
            if odd != 0:
                _end(a, b, (m, panel, first), block, result[m, panel], room)
            if fraction_bits < 23:
                _narrow(result[m, panel], fraction_bits)


@native
def half_size(code: int) -> float:
    """Return the size that the adder sees for an f16 accumulator."""
    field = (code >> 10) & 0x1F
    if field == 0x1F:
        return ENDLESS
    if code & 0x7FFF == 0:
        return NOTHING
    return power_of_two(max(field, 1) - 15)


@native
def add_block16(
    a: NDArray[np.float64], a_size: NDArray[np.float64],
    b: NDArray[np.float64], b_size: NDArray[np.float64],
    result: NDArray[np.int64], first: int, block: int, fraction_bits: int,
) -> None:  # fmt: skip
    """Do what `add_block32` does to accumulators in f16, rounded to nearest."""
    room, power = np.empty((2, 8)), 2.0**fraction_bits
    depth, room_at = a.shape[1], room.ctypes.data
    for m in range(result.shape[0]):
        row = 8 * (m * depth + first)
        for panel in range(result.shape[1]):
            codes, column = result[m, panel], 64 * (panel * depth + first)
            for n in range(8):
                room[0, n], room[1, n] = decode(codes[n], 0), half_size(codes[n])
            sum_vector(
                a.ctypes.data + row, a_size.ctypes.data + row, b.ctypes.data + column,
                b_size.ctypes.data + column, block, power, room_at, room_at + 64,
            )  # fmt: skip
            for n in range(8):
                if room[1, n] >= MOST:
                    own = decode(codes[n], 0)
                    codes[n] = _special(a, b, (m, panel, n), first, block, own, 0)
                else:
                    codes[n] = encode(room[0, n], 0, 0, 0)
                    if codes[n] == 0x8000:
                        codes[n] = 0


@native
def products(a: NDArray[np.float64], b: NDArray[np.float64], result: NDArray[np.float64]) -> None:
    """Add A B to result[M, N / 8, 8] in float64, in the order of k."""
    depth, panels = a.shape[1], result.shape[1]
    for m in range(result.shape[0]):
        for panel in range(panels):
            product_vector(
                a.ctypes.data + 8 * m * depth, b.ctypes.data + 64 * panel * depth, depth,
                result.ctypes.data + 64 * (m * panels + panel),
            )  # fmt: skip
