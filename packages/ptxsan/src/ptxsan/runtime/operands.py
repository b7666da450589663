"""Fragments of matrix instructions: from the slots of a warp's lanes into matrices and back.

A is [M, K]; B lies in panels of eight columns, [N / 8, K, 8] (`numerics.panels`); C and D are
[M, N]. All are flat here. Deltas are the shadows' differences to exact arithmetic; poison says
what was never written, by row of A, by column of B, and by element of C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.native import float32, native
from ptxsan.numerics.rounding import decode
from ptxsan.runtime import fragments
from ptxsan.runtime.layout import SLOT
from ptxsan.runtime.packing import (
    CHUNKS_A,
    CHUNKS_B,
    DEALT,
    EIGHTS_M,
    EIGHTS_N,
    FLAGS,
    OF_A,
    OF_B,
    OF_C,
    SHADOW,
    TRANSPOSE_A,
    TRANSPOSE_B,
    K,
    field,
)
from ptxsan.runtime.raw import (
    load_f64,
    load_u32,
    load_u64,
    store_f64,
    store_u32,
    store_u64,
)


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
def place_b(lane: int, register: int, element: int, each: int, immediate: int, k: int) -> int:
    """Return the index in B (N x k) of an element; -1 if there is none."""
    n, flags = 8 * field(immediate, EIGHTS_N), field(immediate, FLAGS)
    if (flags & CHUNKS_B) != 0:
        index = place_in_chunks(lane, register, element, each, n, k, flags & TRANSPOSE_B)
        return index if index < n * k and (register >> 2) * 32 + lane < n * k // (4 * each) else -1
    if (flags & DEALT) != 0:
        index = fragments.dealt(lane, register, element, each)
        return (index % n) * k + index // n if index < n * k else -1
    return (lane >> 2) * k + fragments.b_row(lane, register, element, each)


@native
def power_at(value: int) -> int:
    """Return the logarithm of a power of two; K always is one."""
    result = 0
    while value > 1:
        value >>= 1
        result += 1
    return result


@native
def in_panels(place: int, log_k: int) -> int:
    """Return where element n * K + k of B lies in panels."""
    n, k = place >> log_k, place & ((1 << log_k) - 1)
    return ((n >> 3) << (log_k + 3)) + (k << 3) + (n & 7)


@native
def gather_a(
    area: int, stride: int, immediate: int, bits: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Fill codes[M K], deltas[M K] and poison[M]; return whether any delta is not zero."""
    flags, k = field(immediate, FLAGS), field(immediate, K)
    if bits == 16 and flags & CHUNKS_A == 0 and field(immediate, EIGHTS_M) > 1:
        return bool(_pairs_a(area, stride, immediate, codes, deltas, poison))
    log_k, each, touched = power_at(k), 32 // bits, False
    for lane in range(32):
        for register in range(field(immediate, OF_A)):
            slot = area + lane * stride + SLOT * register
            word = load_u64(slot)
            for element in range(each):
                place = place_a(lane, register, element, each, immediate)
                if place < 0:
                    continue
                codes[place] = (word >> (bits * element)) & ((1 << bits) - 1)
                if bits >= 16:
                    deltas[place] = load_f64(slot + 8 + 8 * element)
                    touched |= deltas[place] != 0.0
                poison[place >> log_k] |= load_u32(slot + 24)
    return touched


@native
def _pairs_a(
    area: int, stride: int, immediate: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Do what `gather_a` does for two elements a register, side by side in K."""
    dealt, k = field(immediate, FLAGS) & DEALT, field(immediate, K)
    log_k, size, touched = power_at(k), codes.size, False
    for register in range(field(immediate, OF_A)):
        for lane in range(32):
            slot = area + lane * stride + SLOT * register
            if dealt != 0:
                place = (register * 32 + lane) * 2
                if place >= size:  # repeats another
                    continue
            else:
                row = (lane >> 2) + 8 * (register & 1)
                place = (row << log_k) + (register >> 1) * 8 + (lane & 3) * 2
            word = load_u64(slot)
            codes[place], codes[place + 1] = word & 0xFFFF, (word >> 16) & 0xFFFF
            first, second = load_f64(slot + 8), load_f64(slot + 16)
            deltas[place], deltas[place + 1] = first, second
            touched |= first != 0.0 or second != 0.0
            poison[place >> log_k] |= load_u32(slot + 24)
    return touched


@native
def gather_b(
    area: int, stride: int, immediate: int, k: int, bits: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Fill codes and deltas [N / 8, k, 8], poison[N]; return whether any delta is not zero.

    `k` is twice the K of `immediate` where A is sparse.
    """
    touched = False
    log_k, each, first = power_at(k), 32 // bits, field(immediate, OF_A)
    if bits == 16 and field(immediate, FLAGS) & CHUNKS_B == 0:
        return bool(_pairs_b(area, stride, immediate, k, codes, deltas, poison))
    for lane in range(32):
        for register in range(field(immediate, OF_B)):
            slot = area + lane * stride + SLOT * (first + register)
            word = load_u64(slot)
            for element in range(each):
                found = place_b(lane, register, element, each, immediate, k)
                if found < 0:
                    continue
                place = in_panels(found, log_k)
                codes[place] = (word >> (bits * element)) & ((1 << bits) - 1)
                if bits >= 16:
                    deltas[place] = load_f64(slot + 8 + 8 * element)
                    touched |= deltas[place] != 0.0
                poison[found >> log_k] |= load_u32(slot + 24)
    return touched


@native
def _pairs_b(
    area: int, stride: int, immediate: int, k: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Do what `gather_b` does for two elements a register: side by side in N, or in K for mma."""
    dealt, log_n = field(immediate, FLAGS) & DEALT, power_at(8 * field(immediate, EIGHTS_N))
    touched = False
    log_k, area = power_at(k), area + SLOT * field(immediate, OF_A)
    for register in range(field(immediate, OF_B)):
        for lane in range(32):
            slot = area + lane * stride + SLOT * register
            if dealt != 0:
                index = (register * 32 + lane) * 2
                if index >= codes.size:  # repeats another
                    continue
                n, next_n, row, next_row = index & ((1 << log_n) - 1), 1, index >> log_n, 0
            else:
                n, next_n, row, next_row = lane >> 2, 0, register * 8 + (lane & 3) * 2, 1
            place = in_panels((n << log_k) + row, log_k)
            other = place + next_n + 8 * next_row
            word, unwritten = load_u64(slot), load_u32(slot + 24)
            codes[place], codes[other] = word & 0xFFFF, (word >> 16) & 0xFFFF
            first, second = load_f64(slot + 8), load_f64(slot + 16)
            deltas[place], deltas[other] = first, second
            touched |= first != 0.0 or second != 0.0
            poison[n] |= unwritten
            poison[n + next_n] |= unwritten
    return touched


@native
def place_c(lane: int, number: int, dealt: int, n: int) -> int:
    """Return the index in C (M x N) of accumulator element `number` of a lane."""
    if dealt != 0:
        return fragments.dealt_accumulator(lane, number)
    return fragments.c_row(lane, number) * n + fragments.c_column(lane, number)


@native
def gather_c(
    area: int, stride: int, immediate: int, packed: int,
    codes: NDArray[np.int64], deltas: NDArray[np.float64], poison: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill codes, deltas and poison [M N] from the slots of C; `packed`: two halves a register."""
    area += SLOT * (field(immediate, OF_A) + field(immediate, OF_B))
    n, dealt = 8 * field(immediate, EIGHTS_N), field(immediate, FLAGS) & DEALT
    for register in range(field(immediate, OF_C)):
        for lane in range(32):
            slot = area + lane * stride + SLOT * register
            word, unwritten = load_u64(slot), load_u32(slot + 24)
            if packed == 0:
                place = place_c(lane, register, dealt, n)
                codes[place] = word & 0xFFFFFFFF
                deltas[place] = load_f64(slot + 8)
                poison[place] = unwritten
                continue
            for element in range(2):
                place = place_c(lane, register * 2 + element, dealt, n)
                codes[place] = (word >> (16 * element)) & 0xFFFF
                deltas[place] = load_f64(slot + 8 + 8 * element)
                poison[place] = unwritten


@native
def spread(pa: NDArray[np.int64], pb: NDArray[np.int64], poison: NDArray[np.int64]) -> None:
    """Add to poison[M, N] what comes from rows of A and columns of B."""
    for row in range(poison.shape[0]):
        for column in range(poison.shape[1]):
            poison[row, column] |= pa[row] | pb[column]


@native
def deal(
    area: int, stride: int, inputs: int, immediate: int, packed: int, result: NDArray[np.int64],
    exact: NDArray[np.float64], here: NDArray[np.float64], poison: NDArray[np.int64],
) -> None:  # fmt: skip
    """Write D's registers into the output slots of every lane; all arrays are [M N], flat."""
    flags, n = field(immediate, FLAGS), 8 * field(immediate, EIGHTS_N)
    dealt, area = flags & DEALT, area + SLOT * inputs
    for register in range(field(immediate, OF_C)):
        for lane in range(32):
            slot = area + lane * stride + SLOT * register
            if packed == 0:
                at = place_c(lane, register, dealt, n)
                actual = float32(result[at])
                store_u64(slot, result[at])
                store_f64(slot + 8, shadow_of(exact[at], actual, flags))
                store_f64(slot + 16, shadow_of(here[at], actual, flags))
                store_u32(slot + 24, poison[at])
                continue
            word, unwritten = 0, 0
            for element in range(2):
                at = place_c(lane, register * 2 + element, dealt, n)
                word |= result[at] << (16 * element)
                unwritten |= poison[at]
                actual = decode(result[at], 0)
                store_f64(slot + 8 + 8 * element, shadow_of(exact[at], actual, flags))
            store_u64(slot, word)
            store_u32(slot + 24, unwritten)


@native
def shadow_of(exact: float, actual: float, flags: int) -> float:
    """Return a result's shadow, as `runtime.shadow.shadow_delta` defines it; 0 if there is none."""
    if (flags & SHADOW) == 0 or exact - exact != 0.0:
        return 0.0
    return exact - actual if actual - actual == 0.0 else exact
