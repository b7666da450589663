"""mma and wmma.mma: what a warp does with its fragments, in native code.

`immediate` packs the shape and the formats (`packing.pack`). Fragments are gathered into matrices
of codes and of shadows (differences to exact arithmetic), multiplied by `numerics.dot`, and dealt
out again (`operands`). A result's first shadow is its own, the second (f32 results) the error that
this instruction made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.dot import code32, multiply, read_factors
from ptxsan.numerics.native import float32, native
from ptxsan.numerics.panels import add_block32, products
from ptxsan.numerics.rounding import decode
from ptxsan.numerics.scaled import add_groups, scale_both, value_of_scale
from ptxsan.runtime.collectives import collective
from ptxsan.runtime.layout import SLOT
from ptxsan.runtime.operands import deal, gather_a, gather_b, gather_c, spread
from ptxsan.runtime.packing import (
    EIGHTS_M,
    EIGHTS_N,
    FLAGS,
    FRACTION,
    FRACTIONS,
    HALVES,
    KIND_A,
    KIND_B,
    KIND_C,
    LOG_BLOCK,
    SATFINITE,
    SHADOW,
    K,
    field,
)
from ptxsan.runtime.raw import load_u32, load_u64

_FRACTION_OF_EIGHTS = 25  # bits below the largest exponent, of scaled factors in containers


@native
def shadows(
    a: NDArray[np.float64], b: NDArray[np.float64], da: NDArray[np.float64],
    db: NDArray[np.float64], dc: NDArray[np.float64], touched: bool,
    exact: NDArray[np.float64], here: NDArray[np.float64],
) -> None:  # fmt: skip
    """Turn here[M, N], C's values, into sums in float64, and fill exact with those of exact ones.

    a, da: [M, K]; b, db: [N / 8, K, 8]; dc: [M, N]; `touched`: any of da and db is not zero.
    """
    rows, panels = here.shape[0], here.shape[1] // 8
    if touched:
        exact[:] = here + dc
        products(a + da, b + db, exact.reshape((rows, panels, 8)))
        products(a, b, here.reshape((rows, panels, 8)))
    else:
        products(a, b, here.reshape((rows, panels, 8)))
        exact[:] = here + dc


@collective("mma_float")
def mma_float(area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int) -> None:
    """D = A B + C in floats. Factors of 8, 16 or 32 bits, accumulators f32 or f16."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a_kind, b_kind = field(immediate, KIND_A), field(immediate, KIND_B)
    c_kind, packed = field(immediate, KIND_C), int(field(immediate, KIND_C) == 0)
    bits = 32 if a_kind == 3 else (8 if a_kind >= 4 else 16)
    a, b = np.empty((m, k), np.int64), np.empty((n // 8, k, 8), np.int64)
    da, db, dc = np.zeros((m, k)), np.zeros((n // 8, k, 8)), np.empty((m, n))
    pa, pb, poison = np.zeros(m, np.int64), np.zeros(n, np.int64), np.empty((m, n), np.int64)
    result, exact, here = np.empty((m, n), np.int64), np.empty((m, n)), np.empty((m, n))
    touched = gather_a(area, stride, immediate, bits, a.reshape(-1), da.reshape(-1), pa)
    touched |= gather_b(area, stride, immediate, k, bits, b.reshape(-1), db.reshape(-1), pb)
    gather_c(
        area, stride, immediate, packed, result.reshape(-1), dc.reshape(-1), poison.reshape(-1)
    )
    spread(pa, pb, poison)
    out_of_containers(a.reshape(-1), a_kind)
    out_of_containers(b.reshape(-1), b_kind)
    shadowed = (field(immediate, FLAGS) & SHADOW) != 0
    if shadowed:
        decoded(result.reshape(-1), c_kind, here.reshape(-1))
    rule = 1 << field(immediate, LOG_BLOCK), field(immediate, FRACTION)
    halves = (field(immediate, FLAGS) & HALVES) != 0
    values = np.empty(a.shape), np.empty(b.shape)
    product(a, b, result.reshape((m, n // 8, 8)), (a_kind, b_kind, c_kind), rule, halves, values)
    if shadowed:
        shadows(values[0], values[1], da, db, dc, touched, exact, here)
    deal(
        area, stride, inputs, immediate, packed, result.reshape(-1), exact.reshape(-1),
        here.reshape(-1), poison.reshape(-1),
    )  # fmt: skip


@native
def out_of_containers(codes: NDArray[np.int64], kind: int) -> None:
    """Take codes of 4 and 6 bits out of bytes: e2m1 lies in the middle, the others at the bottom.

    PTX ISA, mma with kind f8f6f4 or mxf8f6f4.
    """
    for at in range(codes.size):
        if kind == 7:
            codes[at] = codes[at] >> 2 & 15
        elif kind > 7:
            codes[at] &= 63


@native
def _gather_scales(
    area: int, stride: int, slot: int, which: tuple[int, int, int], codes: NDArray[np.int64],
    poison: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill codes [rows, count] from the words in a slot of the lanes that bring them.

    PTX ISA, "Block Scaling" of mma. `which`: 1 for A, whose rows 8 apart lie in neighbouring lanes,
    0 for B; the first byte; which lanes of each four (pairs for A).
    """
    of_a, byte, chosen = which
    for row in range(codes.shape[0]):
        lane = 4 * (row & 7) + (2 * (chosen & 1) + (row >> 3) if of_a else chosen & 3)
        place = area + lane * stride + SLOT * slot
        word = load_u64(place)
        for index in range(codes.shape[1]):
            codes[row, index] = word >> 8 * ((byte + index) & 3) & 255
        poison[row] |= load_u32(place + 24)


@native
def gather_both_scales(
    area: int, stride: int, slot: int, a_scales: NDArray[np.int64], b_scales: NDArray[np.int64],
    pa: NDArray[np.int64], pb: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill the scales of A and of B from three inputs: theirs, and which bytes of which lanes."""
    chosen = load_u64(area + SLOT * (slot + 2))
    for_a, for_b = (1, chosen & 255, chosen >> 8 & 255), (0, chosen >> 16 & 255, chosen >> 24 & 255)
    _gather_scales(area, stride, slot, for_a, a_scales, pa)
    _gather_scales(area, stride, slot + 1, for_b, b_scales, pb)


@collective("mma_scaled")
def mma_scaled(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """D = A B + C in f32, where blocks along K have scales: 32 factors in bytes, or 64 of 4 bits.

    The last three inputs are the scales of A, those of B, and which bytes of which lanes hold them.
    """
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a_kind, b_kind = field(immediate, KIND_A), field(immediate, KIND_B)
    bits, count = (4 if k == 64 else 8), k >> field(immediate, LOG_BLOCK)
    exponent_only = (field(immediate, FLAGS) & FRACTIONS) == 0
    a, b = np.empty((m, k), np.int64), np.empty((n // 8, k, 8), np.int64)
    nothing, dc = np.zeros(1), np.empty((m, n))
    pa, pb, poison = np.zeros(m, np.int64), np.zeros(n, np.int64), np.empty((m, n), np.int64)
    result, exact, here = np.empty((m, n), np.int64), np.empty((m, n)), np.empty((m, n))
    gather_a(area, stride, immediate, bits, a.reshape(-1), nothing, pa)
    gather_b(area, stride, immediate, k, bits, b.reshape(-1), nothing, pb)
    gather_c(area, stride, immediate, 0, result.reshape(-1), dc.reshape(-1), poison.reshape(-1))
    a_scales, b_scales = np.empty((m, count), np.int64), np.empty((n, count), np.int64)
    gather_both_scales(area, stride, inputs - 3, a_scales, b_scales, pa, pb)
    spread(pa, pb, poison)
    shadowed = (field(immediate, FLAGS) & SHADOW) != 0
    if shadowed:
        decoded(result.reshape(-1), 2, here.reshape(-1))
    if bits == 8:
        out_of_containers(a.reshape(-1), a_kind)
        out_of_containers(b.reshape(-1), b_kind)
    values = np.empty(a.shape), np.empty(b.shape)
    sums = result.reshape((m, n // 8, 8))
    scaled_product(a, b, (a_scales, b_scales), sums, (a_kind, b_kind), exponent_only, values)
    if shadowed:
        shadows(values[0], values[1], values[0], values[1], dc, False, exact, here)
    deal(
        area, stride, inputs, immediate, 0, result.reshape(-1), exact.reshape(-1),
        here.reshape(-1), poison.reshape(-1),
    )  # fmt: skip


@native
def scaled_product(
    a: NDArray[np.int64], b: NDArray[np.int64],
    scales: tuple[NDArray[np.int64], NDArray[np.int64]], result: NDArray[np.int64],
    kinds: tuple[int, int], exponent_only: bool,
    values: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:  # fmt: skip
    """Add A B to result[M, N / 8, 8] in place; fill `values` with the factors times their scales.

    a: [M, K], b: [N / 8, K, 8]: K is 32 of codes in bytes, or 64 of 4 bits; `scales`: [M, count]
    and [N, count].
    """
    depth, count = a.shape[1], scales[0].shape[1]
    (x, y), (of_a, of_b) = values, scales
    sizes, other_sizes = np.empty(a.shape), np.empty(b.shape)
    read_factors(a.reshape(-1), kinds[0], x.reshape(-1), sizes.reshape(-1))
    read_factors(b.reshape(-1), kinds[1], y.reshape(-1), other_sizes.reshape(-1))
    if depth == 32:
        scale_both(x, sizes, y, other_sizes, of_a, of_b)
        add_block32(x, sizes, y, other_sizes, result, 0, depth, _FRACTION_OF_EIGHTS)
        return
    add_groups(x, y, of_a, of_b, exponent_only, result)
    for index in range(depth):
        block = index * count // depth
        for row in range(a.shape[0]):
            x[row, index] *= value_of_scale(of_a[row, block], exponent_only)
        for column in range(of_b.shape[0]):
            y[column >> 3, index, column & 7] *= value_of_scale(of_b[column, block], exponent_only)


@native
def product(
    a: NDArray[np.int64], b: NDArray[np.int64], result: NDArray[np.int64],
    kinds: tuple[int, int, int], rule: tuple[int, int], halves: bool,
    values: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:  # fmt: skip
    """Add A B to result[M, N / 8, 8] in place; fill `values` with the factors of A and B.

    `rule`: products a step, bits below the largest exponent; `halves`: see numerics.dot.SumRule.
    """
    a_kind, b_kind, c_kind = kinds
    if halves:
        eight_bit_product(as_f16(a, a_kind), as_f16(b, b_kind), result, rule[1])
    else:
        multiply(a, b, result, (a_kind, b_kind), c_kind, rule, values[0], values[1])
        if a_kind != 3:
            return
    # A shadow sees the bits of a TF32 register that are cut off.
    decoded(a.reshape(-1), a_kind, values[0].reshape(-1))
    decoded(b.reshape(-1), b_kind, values[1].reshape(-1))


@native
def decoded(codes: NDArray[np.int64], index: int, result: NDArray[np.float64]) -> None:
    """Fill a flat array with the values of codes."""
    for at in range(codes.size):
        code = codes[at]
        result[at] = float32(code) if index == 2 else decode(code, index)


@native
def eight_bit_product(
    a: NDArray[np.int64], b: NDArray[np.int64], result: NDArray[np.int64], bits_kept: int
) -> None:
    """Do what `mma.sync` does with 8-bit floats on sm_89 and sm_90 (measured, all bits equal).

    The factors become f16; of every four along K the first two go through one f16 step of 16
    products that starts from zero, the last two through a second one; C is added by an f32
    addition rounded to nearest.
    """
    depth = a.shape[1]
    x, y = np.empty_like(a), np.empty_like(b)
    for index in range(depth):
        half, place = (index & 3) >> 1, (index >> 2) * 2 + (index & 1)
        to = half * (depth // 2) + place
        x[:, to], y[:, to, :] = a[:, index], b[:, index, :]
    sums = np.zeros_like(result)
    multiply(x, y, sums, (0, 0), 2, (16, bits_kept), np.empty(x.shape), np.empty(y.shape))
    flat, added = result.reshape(-1), sums.reshape(-1)
    for at in range(flat.size):
        flat[at] = code32(float32(added[at]) + float32(flat[at]))


@native
def as_f16(codes: NDArray[np.int64], kind: int) -> NDArray[np.int64]:
    """Return codes of e4m3 or e5m2 as codes of f16."""
    result = np.empty_like(codes)
    given, flat = codes.reshape(-1), result.reshape(-1)
    for at in range(flat.size):
        flat[at] = widen(given[at], kind)
    return result


@native
def widen(code: int, kind: int) -> int:
    """Return the f16 code of an e4m3 (4) or e5m2 (5) code; exact."""
    if kind == 5:
        return code << 8
    sign, rest = (code & 0x80) << 8, code & 0x7F
    if rest == 0x7F:
        return sign | 0x7E00
    exponent, mantissa = rest >> 3, rest & 7
    if exponent == 0:
        if mantissa == 0:
            return sign
        while (mantissa & 8) == 0:
            mantissa <<= 1
            exponent -= 1
        exponent += 1
        mantissa &= 7
    return sign | ((exponent + 8) << 10) | (mantissa << 7)


@collective("mma_integer")
def mma_integer(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """D = A B + C in integers of 8 or 4 bits; D wraps, or clamps with .satfinite."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a_kind, b_kind = field(immediate, KIND_A), field(immediate, KIND_B)
    bits, flags = 8 if a_kind < 2 else 4, field(immediate, FLAGS)
    a, b = np.empty((m, k), np.int64), np.empty((n // 8, k, 8), np.int64)
    nothing, zero = np.zeros(m * n), np.zeros(1)  # integers have no shadows
    pa, pb, poison = np.zeros(m, np.int64), np.zeros(n, np.int64), np.empty((m, n), np.int64)
    result = np.empty((m, n), np.int64)
    gather_a(area, stride, immediate, bits, a.reshape(-1), zero, pa)
    gather_b(area, stride, immediate, k, bits, b.reshape(-1), zero, pb)
    gather_c(area, stride, immediate, 0, result.reshape(-1), nothing, poison.reshape(-1))
    spread(pa, pb, poison)
    for row in range(m):
        for column in range(n):
            total = signed(result[row, column], 32, 1)
            for index in range(k):
                x = signed(a[row, index], bits, a_kind & 1)
                total += x * signed(b[column // 8, index, column % 8], bits, b_kind & 1)
            if (flags & SATFINITE) != 0:
                total = min(max(total, -2147483648), 2147483647)
            result[row, column] = total & 0xFFFFFFFF
    plain = immediate & ~(SHADOW << (FLAGS >> 4))
    flat = result.reshape(-1)
    deal(area, stride, inputs, plain, 0, flat, nothing, nothing, poison.reshape(-1))


@native
def signed(code: int, bits: int, is_signed: int) -> int:
    """Return a code of `bits` bits as an integer."""
    if is_signed != 0 and (code >> (bits - 1)) != 0:
        return code - (1 << bits)
    return code
