"""Collectives that move halves between the lanes of a warp, and the f64 matrix product.

A slot holds {u64 bits, f64 shadow of the low half, f64 shadow of the high half, u32 poison}.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.native import bits64, float64, fma, native
from ptxsan.runtime import fragments
from ptxsan.runtime.collectives import collective
from ptxsan.runtime.layout import SLOT
from ptxsan.runtime.packing import (
    DEALT,
    EIGHTS_M,
    EIGHTS_N,
    FLAGS,
    OF_A,
    OF_B,
    OF_C,
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
def clear(slot: int) -> None:
    """Set a slot to an exact, initialised zero."""
    store_u64(slot, 0)
    store_f64(slot + 8, 0.0)
    store_f64(slot + 16, 0.0)
    store_u32(slot + 24, 0)


@native
def move_half(source: int, source_half: int, to: int, half: int) -> None:
    """Put one half of a slot, with its shadow and poison, into a cleared slot's half."""
    code = (load_u64(source) >> (16 * source_half)) & 0xFFFF
    store_u64(to, load_u64(to) | (code << (16 * half)))
    store_f64(to + 8 + 8 * half, load_f64(source + 8 + 8 * source_half))
    store_u32(to + 24, load_u32(to + 24) | load_u32(source + 24))


@collective("ldmatrix")
def ldmatrix(area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int) -> None:
    """Give lane l elements 2 (l % 4) and + 1 of row l / 4 of each matrix, or its transpose."""
    count, transpose = immediate & 7, (immediate >> 4) & 1
    for lane in range(32):
        for matrix in range(count):
            to = area + lane * stride + SLOT * (inputs + matrix)
            clear(to)
            for half in range(2):
                row, column = lane >> 2, 2 * (lane & 3) + half
                if transpose != 0:
                    row, column = column, row
                holder = area + (8 * matrix + row) * stride + SLOT * (column >> 1)
                move_half(holder, column & 1, to, half)


@collective("stmatrix")
def stmatrix(area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int) -> None:
    """Give lane 8 j + r the four words of row r of matrix j: the reverse of ldmatrix."""
    count, transpose = immediate & 7, (immediate >> 4) & 1
    for lane in range(32):
        for word in range(4):
            clear(area + lane * stride + SLOT * (inputs + word))
    for lane in range(32):
        for matrix in range(count):
            source = area + lane * stride + SLOT * matrix
            for half in range(2):
                row, column = lane >> 2, 2 * (lane & 3) + half
                if transpose != 0:
                    row, column = column, row
                to = area + (8 * matrix + row) * stride + SLOT * (inputs + (column >> 1))
                move_half(source, half, to, column & 1)


@native
def _move_code(source: int, place: int, bits: int, to: int, shift: int) -> None:
    """Put the bits from `place` on of the words from a slot on into a slot, with their poison."""
    slot, offset = source + SLOT * (place >> 5), place & 31
    code, poison = load_u64(slot) >> offset, load_u32(slot + 24)
    if offset + bits > 32:
        code |= load_u64(slot + SLOT) << (32 - offset)
        poison |= load_u32(slot + SLOT + 24)
    store_u64(to, load_u64(to) | (code & ((1 << bits) - 1)) << shift)
    store_u32(to + 24, load_u32(to + 24) | poison)


@collective("ldmatrix_bytes")
def ldmatrix_bytes(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """Give lanes four elements of 8, 6 or 4 bits a register, each in a byte of its own.

    Of matrices of 8 rows lane l gets elements 4 (l % 4) on of row l / 4. Matrices of 16 rows come
    transposed, two registers each: element l / 4, or 8 more, of rows 4 (l % 4) on. PTX ISA,
    ldmatrix; Triton's and CUTLASS's layouts, which run on hardware, say the same.
    """
    registers, tall, bits = immediate & 15, (immediate >> 4) & 1, immediate >> 5
    for lane in range(32):
        for register in range(registers):
            to = area + lane * stride + SLOT * (inputs + register)
            clear(to)
            for index in range(4):
                row, column = 8 * register + (lane >> 2), 4 * (lane & 3) + index
                if tall:
                    row = 16 * (register >> 1) + 4 * (lane & 3) + index
                    column = (lane >> 2) + 8 * (register & 1)
                _move_code(area + row * stride, column * bits, bits, to, 8 * index)


@collective("stmatrix_bytes")
def stmatrix_bytes(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """Give lane 8 j + r the four words of row r of matrix j, whose bytes lie transposed.

    Bytes 0 and 1 of lane l are element l / 4 of rows 2 (l % 4) and + 1, the others element
    l / 4 + 8: not as `ldmatrix_bytes` has them (PTX ISA, stmatrix, m16n8).
    """
    for lane in range(32):
        for word in range(4):
            clear(area + lane * stride + SLOT * (inputs + word))
    for lane in range(32):
        for matrix in range(immediate & 7):
            source = area + lane * stride + SLOT * matrix
            for index in range(4):
                row, column = 2 * (lane & 3) + (index & 1), (lane >> 2) + 8 * (index >> 1)
                to = area + (8 * matrix + row) * stride + SLOT * (inputs + (column >> 2))
                _move_code(source, 8 * index, 8, to, 8 * (column & 3))


@collective("movmatrix")
def movmatrix(area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int) -> None:
    """Transpose the 8 x 8 matrix of halves that the warp holds, one register a lane."""
    for lane in range(32):
        to = area + lane * stride + SLOT
        clear(to)
        for half in range(2):
            row, column = 2 * (lane & 3) + half, lane >> 2
            holder = area + (4 * row + (column >> 1)) * stride
            move_half(holder, column & 1, to, half)


@native
def double_place(lane: int, register: int, which: int, immediate: int) -> int:
    """Return the row-major index of an f64 element; which: 0 A, 1 B (as N x K), 2 C."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    if (field(immediate, FLAGS) & DEALT) != 0:
        index = fragments.dealt(lane, register, 0, 1)
        if which == 1:
            return (index % n) * k + index // n
        if which == 2:
            return fragments.dealt(lane, register, 0, 1)
        return index
    if which == 0:
        row = fragments.a_row(lane, register, int(m == 8))
        return row * k + fragments.a_column(lane, register, 0, 1, int(m == 8))
    if which == 1:
        return (lane >> 2) * k + fragments.b_row(lane, register, 0, 1)
    return fragments.c_row(lane, register) * n + fragments.c_column(lane, register)


@native
def gather_doubles(
    area: int, stride: int, first: int, count: int, which: int, immediate: int,
    numbers: NDArray[np.float64],
) -> None:  # fmt: skip
    """Fill a flat matrix from the slots first..first+count of every lane."""
    for lane in range(32):
        for register in range(count):
            slot = area + lane * stride + SLOT * (first + register)
            numbers[double_place(lane, register, which, immediate)] = float64(load_u64(slot))


@native
def double_product(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> None:
    """Add A[M, K] B to C[M, N] in place, B given as [N, K]: multiply-adds in the order of k."""
    for row in range(c.shape[0]):
        for column in range(c.shape[1]):
            total = c[row, column]
            for index in range(a.shape[1]):
                total = fma(a[row, index], b[column, index], total)
            c[row, column] = total


@collective("mma_double")
def mma_double(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """D = A B + C in f64: fused multiply-adds in the order of k."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    of_a, of_b = field(immediate, OF_A), field(immediate, OF_B)
    of_c = field(immediate, OF_C)
    a, b, c = np.empty(m * k), np.empty(n * k), np.empty(m * n)
    gather_doubles(area, stride, 0, of_a, 0, immediate, a)
    gather_doubles(area, stride, of_a, of_b, 1, immediate, b)
    gather_doubles(area, stride, of_a + of_b, of_c, 2, immediate, c)
    poison = 0
    for lane in range(32):
        for slot in range(inputs):
            poison |= load_u32(area + lane * stride + SLOT * slot + 24)
    double_product(a.reshape((m, k)), b.reshape((n, k)), c.reshape((m, n)))
    for lane in range(32):
        for register in range(of_c):
            place = double_place(lane, register, 2, immediate)
            total = c[place]
            to = area + lane * stride + SLOT * (inputs + register)
            clear(to)
            store_u64(to, bits64(total) if total == total else -2251799813685248)
            store_u32(to + 24, poison)
