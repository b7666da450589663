"""What the PTX manual says of operands and sums of tcgen05.mma, in NumPy.

Written from the manual's text (canonical layouts, swizzling, formats) and, for sums, from the
description of Blackwell's adder in "MMA-Sim" (Microsoft, 2025); nothing is shared with the machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Factors = tuple[Floats, NDArray[np.int64]]  # values, exponents
# Bits, exponent bits, stored bits, bias of each format; whether all ones is infinity and NaN.
FORMATS = {
    "f16": (16, 5, 10, 15), "bf16": (16, 8, 7, 127), "tf32": (32, 8, 10, 127),
    "e4m3": (8, 4, 3, 7), "e5m2": (8, 5, 2, 15), "e2m1": (4, 2, 1, 1), "e3m2": (6, 3, 2, 3),
    "e2m3": (6, 2, 3, 1),
}  # fmt: skip
_INFINITE = ("f16", "bf16", "tf32", "e5m2")


def decode(codes: NDArray[np.integer], name: str) -> Factors:
    """Return the values of codes, and the exponents of their leading (or subnormal) bit."""
    bits, exponent_bits, stored, bias = FORMATS[name]
    codes = np.asarray(codes).astype(np.int64)
    if name == "tf32":  # the low 13 bits are not read
        codes, bits = codes >> 13, 19
    sign = np.where(codes >> (bits - 1) & 1, -1.0, 1.0)
    field = codes >> stored & (1 << exponent_bits) - 1
    rest = codes & (1 << stored) - 1
    exponent = np.maximum(field, 1) - bias
    fraction = rest / 2.0**stored + (field > 0)
    value = sign * fraction * 2.0**exponent
    if name in _INFINITE:
        special = field == (1 << exponent_bits) - 1
        value = np.where(special, np.where(rest == 0, sign * np.inf, np.nan), value)
    elif name == "e4m3":
        value = np.where((field == 15) & (rest == 7), np.nan, value)
    return value, np.where(value == 0, -(10**6), exponent)


def sums(
    a: Factors, b: Factors, c: NDArray[np.floating], *, bits: int = 25
) -> NDArray[np.floating]:
    """Return C + A B^T of the dtype of C: [M, N] from factors [M, K] and [N, K] as from `decode`.

    All terms are cut to `bits` bits below the largest exponent, added, and cut to float32 or
    rounded to float16.
    """
    with np.errstate(all="ignore"):
        terms = a[0][:, None, :] * b[0][None, :, :]
    return added(terms, a[1][:, None, :] + b[1][None, :, :], c, bits=bits)


def added(
    terms: Floats, exponents: NDArray[np.int64], c: NDArray[np.floating], *, bits: int
) -> NDArray[np.floating]:
    """Return C + the terms [M, N, count], cut `bits` bits below the largest exponent."""
    half = c.dtype == np.float16
    with np.errstate(all="ignore"):
        own = c.astype(np.float64)
        least = -14 if half else -126
        place = np.maximum(np.frexp(own)[1] - 1, least)
        place = np.where(own == 0, -(10**6), place)
        broken = ~(np.isfinite(terms).all(axis=2) & np.isfinite(own))
        plain = terms.sum(axis=2) + own
        largest = np.maximum(exponents.max(axis=2), place)
        largest = np.where(largest < -(10**5), 0, largest)
        unit = 2.0 ** (largest - bits).astype(np.float64)
        total = np.trunc(terms / unit[:, :, None]).sum(axis=2) + np.trunc(own / unit)
        total = np.where(broken, plain, total * unit)
        return total.astype(np.float16) if half else cut(total)


def scaled_sums(
    a: Factors, b: Factors, c: NDArray[np.float32], scales: Sequence[NDArray[np.int64]], kind: str
) -> NDArray[np.floating]:
    """Return C + A B^T where blocks along K have scales ([M, count], [N, count]; ue8m0 or ue4m3).

    With 32 factors a scale belongs to all of them. With 64 the products of 16 are added exactly,
    and have the exponents of their scales.
    """
    significand, power = [], []
    for codes in scales:
        if kind == "ue8m0":
            power.append(codes - 127)
            significand.append(np.ones(codes.shape))
        else:
            power.append(np.maximum(codes >> 3 & 15, 1) - 7)
            significand.append(decode(codes, "e4m3")[0] / 2.0 ** power[-1])
    if a[0].shape[1] == 32:
        x, y = ((one[0] * 2.0**e, one[1] + e) for one, e in zip((a, b), power, strict=True))
        return sums(x, y, c)
    groups = a[0].shape[1] // 16
    each = [np.repeat(one, groups // one.shape[1], axis=1) for one in (*significand, *power)]
    blocks = [one[0].reshape(-1, groups, 16) for one in (a, b)]
    terms = np.einsum("mgk,ngk->mng", *blocks) * each[0][:, None] * each[1][None]
    exponents = each[2][:, None] + each[3][None]
    return added(terms * 2.0**exponents, exponents, c, bits=35)


def cut(value: Floats) -> NDArray[np.float32]:
    """Return float32 numbers cut toward zero; infinities beyond the range."""
    with np.errstate(all="ignore"):
        near = value.astype(np.float32)
        low = np.nextafter(near, np.float32(0))
        cut_down = np.abs(near.astype(np.float64)) > np.abs(value)
        return np.where(cut_down & (np.abs(value) < 2.0**128), low, near)


def swizzled(place: int, span: int) -> int:
    """Return where a byte goes: bits 4 to 6 of its address change with bits 7 to 9."""
    atoms = span // 16  # of 16 bytes in a row that is swizzled
    row, atom, byte = place // 128 % 8, place // 16 % 8, place % 16
    return place // 128 * 128 + (atom ^ row % atoms) * 16 + byte if atoms > 1 else place


def k_major(matrix: Bytes, span: int, size: int) -> Bytes:
    """Return the image of a matrix of bytes [rows, bytes]: groups of 8 rows, each row `span` bytes.

    Without swizzling (16) a group is matrices of 8 rows of 16 bytes, side by side. Leading 128,
    stride 8 times `span`, or the bytes of a row.
    """
    image = np.zeros(size, np.uint8)
    for row, inner in np.ndindex(matrix.shape):
        if span == 16:
            place = row // 8 * 8 * matrix.shape[1] + inner // 16 * 128 + row % 8 * 16 + inner % 16
        else:
            place = swizzled(row // 8 * 8 * span + row % 8 * span + inner, span)
        image[place] = matrix[row, inner]
    return image


def mn_major(matrix: Bytes, element: int, span: int, size: int, leading: int) -> Bytes:
    """Return the image of bytes [K, rows * element]: 8 K of `span` bytes of rows each.

    Groups of 8 along K follow by 8 span bytes (stride), spans of rows by `leading`. Without
    swizzling the two change places.
    """
    image = np.zeros(size, np.uint8)
    assert matrix.shape[1] % element == 0
    for k, place in np.ndindex(matrix.shape):
        outer, inside = divmod(place, span)
        if span == 16:
            at = outer * 128 + k // 8 * leading + k % 8 * 16 + inside
        else:
            at = swizzled(outer * leading + k // 8 * 8 * span + k % 8 * span + inside, span)
        image[at] = matrix[k, place]
    return image


def pack(codes: NDArray[np.integer], name: str) -> Bytes:
    """Return codes [rows, K] as bytes [rows, 32]: 16 of 4 or 6 bits in 16 bytes."""
    bits = FORMATS[name][0] if name in FORMATS else 8
    rows = codes.shape[0]
    if bits >= 8:
        kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[bits]
        return np.ascontiguousarray(codes.astype(kind)).view(np.uint8).reshape(rows, -1)
    result = np.zeros((rows, codes.shape[1] // 16, 16), np.uint8)
    for row in range(rows):
        for group in range(codes.shape[1] // 16):
            whole = 0
            for index in range(16):
                whole |= int(codes[row, 16 * group + index]) << bits * index
            result[row, group, : 2 * bits] = np.frombuffer(
                whole.to_bytes(2 * bits, "little"), np.uint8
            )
    return result.reshape(rows, -1)
