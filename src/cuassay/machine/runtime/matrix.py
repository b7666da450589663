"""mma and wmma.mma: what a warp does with its fragments, in native code.

`immediate` packs the shape and the formats (`pack`). Fragments are gathered into matrices of codes
and of shadows (differences to exact arithmetic), multiplied by `numerics.dot`, and dealt out again.
A result's first shadow is its own, the second (f32 results) the error that this instruction made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cuassay.machine.numerics.dot import code32, sum_rule, tile
from cuassay.machine.numerics.native import float32, native
from cuassay.machine.numerics.rounding import decode
from cuassay.machine.runtime import fragments
from cuassay.machine.runtime.collectives import collective
from cuassay.machine.runtime.raw import (
    load_f64,
    load_u32,
    load_u64,
    store_f64,
    store_u32,
    store_u64,
)

_SLOT = 32
SHADOW, DEALT, SATFINITE, CHUNKS_A, CHUNKS_B, TRANSPOSE_A, TRANSPOSE_B = 1, 2, 4, 8, 16, 32, 64
INTEGERS = {"u8": 0, "s8": 1, "u4": 2, "s4": 3}

# Fields of `immediate`: place << 4 | width.
_WIDTHS = (3, 6, 7, 4, 7, 8, 3, 3, 3, 3, 5, 7)
EIGHTS_M, EIGHTS_N, K, OF_A, OF_B, OF_C, KIND_A, KIND_B, KIND_C, LOG_BLOCK, FRACTION, FLAGS = (
    sum(_WIDTHS[:index]) << 4 | width for index, width in enumerate(_WIDTHS)
)


def pack(
    shape: tuple[int, int, int],
    registers: tuple[int, int, int],
    kinds: tuple[int, int, int],
    rule: tuple[int, int],
    flags: int,
) -> int:
    """Return `immediate`: (m, n, k), slots of (A, B, C), formats of (A, B, C), (block, bits).

    Formats are FloatFormat.index for floats and INTEGERS for integers. CHUNKS flags say that a
    matrix comes in chunks of 16 bytes from shared memory (wgmma), TRANSPOSE that these run along
    M or N instead of K.
    """
    log_block = max(rule[0], 1).bit_length() - 1
    eighths = shape[0] // 8, shape[1] // 8, shape[2]
    values = (*eighths, *registers, *kinds, log_block, rule[1], flags)
    result, place = 0, 0
    for value, width in zip(values, _WIDTHS, strict=True):
        assert 0 <= value < 1 << width, (values, width)
        result |= value << place
        place += width
    return result


def float_rule(arch: int, factor_bytes: int) -> tuple[int, int]:
    """Return (block, fraction bits) of an architecture's adder."""
    rule = sum_rule(arch, factor_bytes)
    return rule.block, rule.fraction_bits


@native
def field(immediate: int, which: int) -> int:
    """Return a field of `immediate`."""
    return (immediate >> (which >> 4)) & ((1 << (which & 15)) - 1)


@native
def place_in_chunks(
    lane: int, register: int, element: int, each: int, extent: int, k: int, transposed: int
) -> int:
    """Return outer * k + inner of an element of A or B (N x K) that came in chunks of 16 bytes."""
    chunk, inside = (register >> 2) * 32 + lane, (register & 3) * each + element
    if transposed != 0:
        blocks = extent // (4 * each)
        return ((chunk % blocks) * 4 * each + inside) * k + chunk // blocks
    a_row = k // (4 * each)
    return (chunk // a_row) * k + (chunk % a_row) * 4 * each + inside


@native
def place_a(lane: int, register: int, element: int, each: int, immediate: int) -> int:
    """Return the index in A (M x K) of an element; -1 if the register repeats another."""
    m, k, flags = 8 * field(immediate, EIGHTS_M), field(immediate, K), field(immediate, FLAGS)
    if (flags & CHUNKS_A) != 0:
        return place_in_chunks(lane, register, element, each, m, k, flags & TRANSPOSE_A)
    if (flags & DEALT) != 0:
        index = fragments.dealt(lane, register, element, each)
        return index if index < m * k else -1
    row = fragments.a_row(lane, register, int(m == 8))
    return row * k + fragments.a_column(lane, register, element, each, int(m == 8))


@native
def place_b(lane: int, register: int, element: int, each: int, immediate: int) -> int:
    """Return the index in B (N x K) of an element; -1 if there is none."""
    n, k, flags = 8 * field(immediate, EIGHTS_N), field(immediate, K), field(immediate, FLAGS)
    if (flags & CHUNKS_B) != 0:
        index = place_in_chunks(lane, register, element, each, n, k, flags & TRANSPOSE_B)
        return index if index < n * k and (register >> 2) * 32 + lane < n * k // (4 * each) else -1
    if (flags & DEALT) != 0:
        index = fragments.dealt(lane, register, element, each)
        return (index % n) * k + index // n if index < n * k else -1
    return (lane >> 2) * k + fragments.b_row(lane, register, element, each)


@native
def place_c(lane: int, number: int, immediate: int) -> int:
    """Return the index in C (M x N) of accumulator element `number` of a lane."""
    if (field(immediate, FLAGS) & DEALT) != 0:
        return fragments.dealt_accumulator(lane, number)
    n = 8 * field(immediate, EIGHTS_N)
    return fragments.c_row(lane, number) * n + fragments.c_column(lane, number)


@native
def gather(
    area: int, stride: int, immediate: int, second: int, bits: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill codes[rows, K], deltas[rows, K] and poison[rows] of A, or of B (`second` = 1)."""
    first = field(immediate, OF_A) if second != 0 else 0
    count = field(immediate, OF_B) if second != 0 else field(immediate, OF_A)
    k, each = field(immediate, K), 32 // bits
    for lane in range(32):
        for register in range(count):
            slot = area + lane * stride + _SLOT * (first + register)
            word = load_u64(slot)
            for element in range(each):
                if second != 0:
                    place = place_b(lane, register, element, each, immediate)
                else:
                    place = place_a(lane, register, element, each, immediate)
                if place < 0:
                    continue
                row, column = place // k, place % k
                codes[row, column] = (word >> (bits * element)) & ((1 << bits) - 1)
                if bits >= 16:
                    deltas[row, column] = load_f64(slot + 8 + 8 * element)
                poison[row] |= load_u32(slot + 24)


@native
def gather_c(
    area: int, stride: int, immediate: int, packed: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill codes, deltas and poison [M, N] from the slots of C; `packed`: two halves a register."""
    before = field(immediate, OF_A) + field(immediate, OF_B)
    n = 8 * field(immediate, EIGHTS_N)
    for lane in range(32):
        for register in range(field(immediate, OF_C)):
            slot = area + lane * stride + _SLOT * (before + register)
            word = load_u64(slot)
            for element in range(1 + packed):
                place = place_c(lane, register * (1 + packed) + element, immediate)
                code = (word >> (16 * element)) & 0xFFFF if packed != 0 else word & 0xFFFFFFFF
                codes[place // n, place % n] = code
                deltas[place // n, place % n] = load_f64(slot + 8 + 8 * element)
                poison[place // n, place % n] = load_u32(slot + 24)


@native
def values(codes: NDArray[np.int64], index: int) -> NDArray[np.float64]:
    """Return the values of codes of a float format."""
    result = np.empty(codes.shape)
    for row in range(codes.shape[0]):
        for column in range(codes.shape[1]):
            result[row, column] = decode(codes[row, column], index)
    return result


@native
def shadows(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64],
    da: NDArray[np.float64], db: NDArray[np.float64], dc: NDArray[np.float64],
    exact: NDArray[np.float64], here: NDArray[np.float64],
) -> None:  # fmt: skip
    """Fill exact[M, N] and here[M, N]: the sums in float64, of exact and of actual operands."""
    touched = np.any(da) or np.any(db)
    for row in range(a.shape[0]):
        for column in range(b.shape[0]):
            total = c[row, column]
            for k in range(a.shape[1]):
                total += a[row, k] * b[column, k]
            here[row, column] = total
            exact[row, column] = total + dc[row, column]
            if touched:
                total = c[row, column] + dc[row, column]
                for k in range(a.shape[1]):
                    total += (a[row, k] + da[row, k]) * (b[column, k] + db[column, k])
                exact[row, column] = total


@collective("mma_float")
def mma_float(area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int) -> None:
    """D = A B + C in floats. Factors of 8, 16 or 32 bits, accumulators f32 or f16."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a_kind, b_kind = field(immediate, KIND_A), field(immediate, KIND_B)
    c_kind = field(immediate, KIND_C)
    block, bits_kept = 1 << field(immediate, LOG_BLOCK), field(immediate, FRACTION)
    bits = 32 if a_kind == 3 else (8 if a_kind >= 4 else 16)
    a, b = np.empty((m, k), np.int64), np.empty((n, k), np.int64)
    da, db, dc = np.zeros((m, k)), np.zeros((n, k)), np.zeros((m, n))
    pa, pb, pc = np.zeros(m, np.int64), np.zeros(n, np.int64), np.zeros((m, n), np.int64)
    c, result = np.empty((m, n), np.int64), np.empty((m, n), np.int64)
    gather(area, stride, immediate, 0, bits, a, da, pa)
    gather(area, stride, immediate, 1, bits, b, db, pb)
    packed = int(c_kind == 0)
    gather_c(area, stride, immediate, packed, c, dc, pc)
    if a_kind >= 4 and block == 16:
        eight_bit_tile(as_f16(a, a_kind), as_f16(b, b_kind), c, result, bits_kept)
    elif a_kind != b_kind:
        tile(as_f16(a, a_kind), as_f16(b, b_kind), c, result, 0, c_kind, block, bits_kept)
    else:
        tile(a, b, c, result, a_kind, c_kind, block, bits_kept)
    exact, here = np.zeros((m, n)), np.zeros((m, n))
    if (field(immediate, FLAGS) & SHADOW) != 0:
        shadows(values(a, a_kind), values(b, b_kind), values(c, c_kind), da, db, dc, exact, here)
    deal(area, stride, inputs, immediate, packed, result, exact, here, pa, pb, pc)


@native
def eight_bit_tile(
    a: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.int64], result: NDArray[np.int64],
    bits_kept: int,
) -> None:  # fmt: skip
    """Do what `mma.sync` does with 8-bit floats on sm_89 and sm_90 (measured, all bits equal).

    The factors become f16; of every four along K the first two go through one f16 step of 16
    products that starts from zero, the last two through a second one; C is added by an f32
    addition rounded to nearest.
    """
    depth = a.shape[1]
    order = np.empty(depth, np.int64)
    for index in range(depth):
        half, place = (index & 3) >> 1, (index >> 2) * 2 + (index & 1)
        order[half * (depth // 2) + place] = index
    zero = np.zeros_like(c)
    tile(a[:, order], b[:, order], zero, result, 0, 2, 16, bits_kept)
    for row in range(c.shape[0]):
        for column in range(c.shape[1]):
            total = float32(result[row, column]) + float32(c[row, column])
            result[row, column] = code32(total)


@native
def as_f16(codes: NDArray[np.int64], kind: int) -> NDArray[np.int64]:
    """Return codes of e4m3 or e5m2 as codes of f16."""
    result = np.empty_like(codes)
    for row in range(codes.shape[0]):
        for column in range(codes.shape[1]):
            result[row, column] = widen(codes[row, column], kind)
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


@native
def deal(
    area: int, stride: int, inputs: int, immediate: int, packed: int,
    result: NDArray[np.int64], exact: NDArray[np.float64], here: NDArray[np.float64],
    pa: NDArray[np.int64], pb: NDArray[np.int64], pc: NDArray[np.int64],
) -> None:  # fmt: skip
    """Write D's registers into the output slots of every lane."""
    n, flags = 8 * field(immediate, EIGHTS_N), field(immediate, FLAGS)
    for lane in range(32):
        for register in range(field(immediate, OF_C)):
            slot = area + lane * stride + _SLOT * (inputs + register)
            word, poison = 0, 0
            store_f64(slot + 16, 0.0)
            for element in range(1 + packed):
                index = place_c(lane, register * (1 + packed) + element, immediate)
                row, column = index // n, index % n
                word |= result[row, column] << (16 * element)
                poison |= pa[row] | pb[column] | pc[row, column]
                if packed != 0:
                    actual = decode(result[row, column], 0)
                else:
                    actual = float32(result[row, column])
                store_f64(slot + 8 + 8 * element, shadow_of(exact[row, column], actual, flags))
                if packed == 0:
                    store_f64(slot + 16, shadow_of(here[row, column], actual, flags))
            store_u64(slot, word)
            store_u32(slot + 24, poison)


@native
def shadow_of(exact: float, actual: float, flags: int) -> float:
    """Return a result's shadow, as `runtime.shadow.shadow_delta` defines it; 0 if there is none."""
    if (flags & SHADOW) == 0 or exact - exact != 0.0:
        return 0.0
    return exact - actual if actual - actual == 0.0 else exact


@collective("mma_integer")
def mma_integer(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """D = A B + C in integers of 8 or 4 bits; D wraps, or clamps with .satfinite."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a_kind, b_kind = field(immediate, KIND_A), field(immediate, KIND_B)
    bits, flags = 8 if a_kind < 2 else 4, field(immediate, FLAGS)
    a, b = np.empty((m, k), np.int64), np.empty((n, k), np.int64)
    da, db, dc = np.zeros((m, k)), np.zeros((n, k)), np.zeros((m, n))
    pa, pb, pc = np.zeros(m, np.int64), np.zeros(n, np.int64), np.zeros((m, n), np.int64)
    c, result = np.empty((m, n), np.int64), np.empty((m, n), np.int64)
    gather(area, stride, immediate, 0, bits, a, da, pa)
    gather(area, stride, immediate, 1, bits, b, db, pb)
    gather_c(area, stride, immediate, 0, c, dc, pc)
    for row in range(m):
        for column in range(n):
            total = signed(c[row, column], 32, 1)
            for index in range(k):
                x = signed(a[row, index], bits, a_kind & 1)
                total += x * signed(b[column, index], bits, b_kind & 1)
            if (flags & SATFINITE) != 0:
                total = min(max(total, -2147483648), 2147483647)
            result[row, column] = total & 0xFFFFFFFF
    zero = np.zeros((m, n))
    deal(
        area,
        stride,
        inputs,
        immediate & ~(SHADOW << (FLAGS >> 4)),
        0,
        result,
        zero,
        zero,
        pa,
        pb,
        pc,
    )


@native
def signed(code: int, bits: int, is_signed: int) -> int:
    """Return a code of `bits` bits as an integer."""
    if is_signed != 0 and (code >> (bits - 1)) != 0:
        return code - (1 << bits)
    return code
