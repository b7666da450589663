"""Products with a sparse A: half of its elements are stored, and metadata say which they are.

PTX ISA, "Sparse Matrices" of mma.sp and of tcgen05.mma.sp. A chunk of a row is two elements along
K of which one is stored, four of which two are, or eight of which two pairs are. Its code of four
bits names them. A sum takes what is stored of A, and of B the elements that those meet: so it is
the sum of a dense instruction of half the depth. No GPU's bits were compared with that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.native import native
from ptxsan.runtime import layout as L
from ptxsan.runtime.collectives import collective
from ptxsan.runtime.layout import SLOT
from ptxsan.runtime.matrix import (
    decoded,
    gather_both_scales,
    out_of_containers,
    product,
    scaled_product,
    shadows,
    signed,
)
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
from ptxsan.runtime.raw import load_u8, load_u32, load_u64

ONE_OF_TWO, TWO_OF_FOUR, FOUR_OF_EIGHT = 0, 1, 2  # forms of a chunk
# beside the selector: factors are integers; indices ascend; factors have scales
WHOLE, ORDERED, SCALED = 1 << 8, 1 << 9, 1 << 10
# Codes that have a meaning, a bit each. Indices that do not ascend: all but equal ones in mma.sp,
# one of them in tcgen05.
_PAIRS, _ASCENDING, _OF_TENSORS, _OF_TWO = 0x7BDE, 0x7310, 0x7350, 0x4010


@native
def is_code(code: int, form: int, codes: int, row: NDArray[np.int64], chunk: int) -> bool:
    """Whether PTX gives a code a meaning, or its chunk of a row stores zeros alone.

    `codes` has a bit for each code of two indices. Zeros add nothing wherever they are: CUTLASS
    gives a chunk of zeros the code 0.
    """
    stored = 0
    for index in range(chunk << form, (chunk + 1) << form):
        stored |= row[index]
    return stored == 0 or (_OF_TWO if form == ONE_OF_TWO else codes) >> code & 1 == 1


@native
def place_stored(code: int, chunk: int, form: int, met: NDArray[np.int64]) -> None:
    """Write which elements along K those are that a chunk stores."""
    stored = 1 << form
    for index in range(stored):
        if form == ONE_OF_TWO:
            place = (code & 3) >> 1
        elif form == TWO_OF_FOUR:
            place = code >> 2 * index & 3
        else:
            place = 2 * (code >> 2 * (index >> 1) & 3) + (index & 1)
        met[chunk * stored + index] = 2 * chunk * stored + place


@native
def gather_met(b: NDArray[Any], met: NDArray[np.int64], compact: NDArray[Any]) -> None:
    """Fill compact [N / 8, K / 2, 8] with the elements of b [N / 8, K, 8] that a row meets."""
    for panel in range(b.shape[0]):
        for at in range(met.size):
            compact[panel, at, :] = b[panel, met[at], :]


# ---- mma.sp: metadata in registers


@native
def _read_metadata(
    area: int, stride: int, slot: int, form: tuple[int, int], chosen: int, a: NDArray[np.int64],
    met: NDArray[np.int64], poison: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill met [M, K / 2] from the words of the lanes that a selector names; `form`: with bits.

    A row's codes lie in one lane of its four, in two or in all. A word holds four codes each of two
    rows 8 apart, or eight of one row where factors have 8 bits or less: those rows lie in lanes
    side by side (CUTLASS: `reorder_meta` with its words of 16 and 32 bits, and the layouts of E for
    sm_120). Where PTX leaves a code without meaning, the row's results count as unwritten.
    """
    (kind, bits), chunks = form, met.shape[1] >> form[0]
    codes = _ASCENDING if chosen & ORDERED else _PAIRS
    for row in range(met.shape[0]):
        for chunk in range(chunks):
            lane, at = 4 * (row & 7) + (chunks >> 2) * (chosen & 3) + (chunk >> 2), chunk & 3
            if bits <= 8:
                lane, at = (lane & ~1) + (row >> 3), chunk & 7
            else:
                at += 4 * (row >> 3)
            place = area + (lane & 31) * stride + SLOT * slot
            code = load_u64(place) >> 4 * at & 15
            poison[row] |= load_u32(place + 24)
            if not is_code(code, kind, codes, a[row], chunk):
                poison[row] = 1
            place_stored(code, chunk, kind, met[row])


@native
def _add_integers(
    a: NDArray[np.int64], b: NDArray[np.int64], signs: tuple[int, int, int], clamps: bool,
    sums: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add a row of A times what it meets of B to its sums; `signs`: bits, whether A, B have one."""
    for column in range(sums.size):
        total = signed(sums[column], 32, 1)
        for index in range(a.size):
            x = signed(a[index], signs[0], signs[1])
            total += x * signed(b[column >> 3, index, column & 7], signs[0], signs[2])
        if clamps:
            total = min(max(total, -2147483648), 2147483647)
        sums[column] = total & 0xFFFFFFFF


@native
def _form(kind: int, whole: bool, nibbles: bool) -> tuple[int, int]:
    """Return the form of a chunk of A and the bits of a factor; e2m1 has 4 or a byte of its own."""
    if nibbles or (whole and kind > 1):
        return FOUR_OF_EIGHT, 4
    if whole or kind >= 4:
        return TWO_OF_FOUR, 8
    return (ONE_OF_TWO, 32) if kind == 3 else (TWO_OF_FOUR, 16)


@collective("mma_sparse")
def mma_sparse(
    area: int, stride: int, mask: int, inputs: int, outputs: int, immediate: int
) -> None:
    """D = A B + C where A is sparse: K of `immediate` is what is stored, half of B's.

    The last two inputs are the metadata, and the selector with WHOLE, ORDERED and SCALED; of
    SCALED the three before them are those of `mma_scaled`.
    """
    m, n, half = 8 * field(immediate, EIGHTS_M), 8 * field(immediate, EIGHTS_N), field(immediate, K)
    a_kind, b_kind = field(immediate, KIND_A), field(immediate, KIND_B)
    c_kind, flags = field(immediate, KIND_C), field(immediate, FLAGS)
    chosen = load_u64(area + SLOT * (inputs - 1))
    whole, scaled, shadowed = chosen & WHOLE != 0, chosen & SCALED != 0, flags & SHADOW != 0
    if whole:
        immediate, shadowed = immediate & ~(SHADOW << (FLAGS >> 4)), False
    form, bits = _form(a_kind, whole, scaled and half == 64)
    count = half >> field(immediate, LOG_BLOCK) if scaled else 1
    packed = 1 if c_kind == 0 and not whole else 0
    a, b = np.empty((m, half), np.int64), np.empty((n // 8, 2 * half, 8), np.int64)
    da, db, dc = np.zeros((m, half)), np.zeros((n // 8, 2 * half, 8)), np.zeros((m, n))
    pa, pb, poison = np.zeros(m, np.int64), np.zeros(n, np.int64), np.empty((m, n), np.int64)
    result, exact, here = np.empty((m, n), np.int64), np.zeros((m, n)), np.zeros((m, n))
    touched = gather_a(area, stride, immediate, bits, a.reshape(-1), da.reshape(-1), pa)
    touched |= gather_b(area, stride, immediate, 2 * half, bits, b.reshape(-1), db.reshape(-1), pb)
    gather_c(
        area, stride, immediate, packed, result.reshape(-1), dc.reshape(-1), poison.reshape(-1)
    )
    met = np.zeros((m, half), np.int64)
    _read_metadata(area, stride, inputs - 2, (form, bits), chosen, a, met, pa)
    a_scales, b_scales = np.empty((m, count), np.int64), np.empty((n, count), np.int64)
    if scaled:
        gather_both_scales(area, stride, inputs - 5, a_scales, b_scales, pa, pb)
    spread(pa, pb, poison)
    if not whole and bits > 4:
        out_of_containers(a.reshape(-1), a_kind)
        out_of_containers(b.reshape(-1), b_kind)
    if shadowed:
        decoded(result.reshape(-1), c_kind, here.reshape(-1))
    rule = 1 << field(immediate, LOG_BLOCK), field(immediate, FRACTION)
    compact, changes = np.empty((n // 8, half, 8), np.int64), np.zeros((n // 8, half, 8))
    values = np.empty((1, half)), np.empty((n // 8, half, 8))
    for row in range(m):
        own, sums = a[row : row + 1], result[row : row + 1]
        gather_met(b, met[row], compact)
        if whole:
            signs = bits, a_kind & 1, b_kind & 1
            _add_integers(own[0], compact, signs, flags & SATFINITE != 0, sums[0])
            continue
        panels = sums.reshape((1, n // 8, 8))
        if scaled:
            scales = a_scales[row : row + 1], b_scales
            exponents = flags & FRACTIONS == 0
            scaled_product(own, compact, scales, panels, (a_kind, b_kind), exponents, values)
        else:
            kinds = a_kind, b_kind, c_kind
            product(own, compact, panels, kinds, rule, flags & HALVES != 0, values)
        if shadowed:
            gather_met(db, met[row], changes)
            shadows(
                values[0], values[1], da[row : row + 1], changes, dc[row : row + 1], touched,
                exact[row : row + 1], here[row : row + 1],
            )  # fmt: skip
    deal(
        area, stride, inputs, immediate, packed, result.reshape(-1), exact.reshape(-1),
        here.reshape(-1), poison.reshape(-1),
    )  # fmt: skip


# ---- tcgen05.mma.sp: metadata in tensor memory


@native
def read_tensor_metadata(
    tensor: int, column: int, columns: int, form: int, a: NDArray[np.int64],
    met: NDArray[np.int64], poison: NDArray[np.int64],
) -> int:  # fmt: skip
    """Fill met [128, K / 2] of a block from columns of its tensor memory; return a code that PTX
    does not define, or -1.

    One column: the codes of rows 8 apart share a word, and a row's last four lie 8 lanes further
    (PTX ISA, figures "Sparsity Metadata Layout"; CUTLASS, tmem_e_frg). Two: row after row.
    """
    found, chunks = -1, met.shape[1] >> form
    for row in range(met.shape[0]):
        for chunk in range(chunks):
            if columns == 1:
                lane, at = row & ~8 | chunk >> 2 << 3, column
                shift = 4 * (4 * (row >> 3 & 1) + (chunk & 3))
            else:
                lane, at, shift = row, column + (chunk >> 3), 4 * (chunk & 7)
            place = lane * L.TM_COLUMNS + at
            code = load_u32(tensor + L.TM_DATA + 4 * place) >> shift & 15
            if load_u8(tensor + L.TM_INIT + place) & 1 == 0:
                poison[row] = 1
            elif not is_code(code, form, _OF_TENSORS, a[row], chunk):
                found = code
            place_stored(code, chunk, form, met[row])
    return found
