"""mma in the algebra: the residues of the product of a warp's fragments, beside its bits.

Each of D's elements has the residue of its sum of products, NONE where an operand of it is not
finite. Operands come resolved (`emit.algebra`), those of 8 bits are the numbers that their codes
mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics import residues as R
from ptxsan.numerics.native import native
from ptxsan.numerics.rounding import decode
from ptxsan.runtime.collectives import collective
from ptxsan.runtime.layout import SLOT
from ptxsan.runtime.operands import place_a, place_b, place_c
from ptxsan.runtime.packing import (
    DEALT,
    EIGHTS_M,
    EIGHTS_N,
    FLAGS,
    KIND_A,
    KIND_B,
    KIND_C,
    OF_A,
    OF_B,
    OF_C,
    K,
    field,
)
from ptxsan.runtime.raw import call_handler, load_u64, store_u64

Ints = NDArray[np.int64]
_TF32 = 3  # FloatFormat.index of factors of 32 bits; 8-bit ones follow it


@collective("mma_algebra")
def mma_algebra(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """D = A B + C in bits, by the handler in the last input, and in residues."""
    m, n, k = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a, b = np.zeros((m, k), np.int64), np.zeros((n, k), np.int64)
    gather(area, stride, immediate, 0, a.reshape(-1))
    gather(area, stride, immediate, 1, b.reshape(-1))
    halves = int(field(immediate, KIND_C) == 0)
    sums = np.zeros((32, 2 * field(immediate, OF_C)), np.int64)
    dealt, first = field(immediate, FLAGS) & DEALT, field(immediate, OF_A) + field(immediate, OF_B)
    for lane in range(32):
        for number in range((1 + halves) * field(immediate, OF_C)):
            place = place_c(lane, number, dealt, n)
            given = area + lane * stride + SLOT * (first + number // (1 + halves))
            start = element_slot(given, number % (1 + halves), 16 if halves else 32, 2 - 2 * halves)
            sums[lane, number] = dot(a[place // n], b[place % n], start)
    leader = 0
    while (mask >> leader) & 1 == 0:
        leader += 1
    handler = load_u64(area + leader * stride + SLOT * (inputs - 1))
    call_handler(handler, area, stride, mask, inputs, outputs, immediate)
    for lane in range(32):
        for number in range((1 + halves) * field(immediate, OF_C)):
            result = area + lane * stride + SLOT * (inputs + number // (1 + halves))
            store_u64(result + 8 + 8 * (number % (1 + halves)), sums[lane, number])


@native
def element_slot(slot: int, element: int, bits: int, kind: int) -> int:
    """Return the residue of an element of a word in an exchange slot; NONE if it is not finite."""
    if bits >= 16:
        given = load_u64(slot + 8 + 8 * element)
        if given & 0xFFFFFFFF >= R.FIRST:
            return given
    code = (load_u64(slot) >> (bits * element)) & ((1 << bits) - 1)
    return R.of_constant(decode(code, kind))


@native
def gather(area: int, stride: int, immediate: int, second: int, found: Ints) -> None:
    """Fill the residues of A (M x K), or of B (N x K; `second` = 1), row after row."""
    kind = field(immediate, KIND_B) if second != 0 else field(immediate, KIND_A)
    bits = 32 if kind == _TF32 else (8 if kind > _TF32 else 16)
    first = field(immediate, OF_A) if second != 0 else 0
    count = field(immediate, OF_B) if second != 0 else field(immediate, OF_A)
    k = field(immediate, K)
    for lane in range(32):
        for register in range(count):
            slot = area + lane * stride + SLOT * (first + register)
            for element in range(32 // bits):
                if second != 0:
                    place = place_b(lane, register, element, 32 // bits, immediate, k)
                else:
                    place = place_a(lane, register, element, 32 // bits, immediate)
                if place >= 0:
                    found[place] = element_slot(slot, element, bits, kind)


@native
def dot(a: Ints, b: Ints, start: int) -> int:
    """Return the slot of start + a . b; NONE where a term has none."""
    if start == R.NONE:
        return R.NONE
    p, q = R.part_p(start), R.part_q(start)
    for index in range(a.size):
        x, y = a[index], b[index]
        if x == R.NONE or y == R.NONE:
            return R.NONE
        p = (p + R.part_p(x) * R.part_p(y)) % R.P
        if q == R.LOST or x == R.FIRST or y == R.FIRST:
            continue
        if R.part_q(x) == R.LOST or R.part_q(y) == R.LOST:
            q = R.LOST
        else:
            q = (q + R.part_q(x) * R.part_q(y)) % R.Q
    return R.pack(p, q)
