"""What a matrix instruction is, in one integer: shape, registers, formats, rule and flags."""

from __future__ import annotations

from ptxsan.numerics.dot import SumRule
from ptxsan.numerics.native import native

SHADOW, DEALT, SATFINITE, CHUNKS_A, CHUNKS_B, TRANSPOSE_A, TRANSPOSE_B = 1, 2, 4, 8, 16, 32, 64
HALVES = 128  # 8-bit factors run as f16 in two steps
FRACTIONS = 256  # scales are ue4m3, not ue8m0
INTEGERS = {"u8": 0, "s8": 1, "u4": 2, "s4": 3}

# Fields of `immediate`: place << 4 | width.
_WIDTHS = (3, 6, 7, 4, 7, 8, 4, 4, 3, 3, 5, 9)
EIGHTS_M, EIGHTS_N, K, OF_A, OF_B, OF_C, KIND_A, KIND_B, KIND_C, LOG_BLOCK, FRACTION, FLAGS = (
    sum(_WIDTHS[:index]) << 4 | width for index, width in enumerate(_WIDTHS)
)


def pack(
    shape: tuple[int, int, int],
    registers: tuple[int, int, int],
    kinds: tuple[int, int, int],
    rule: SumRule | None,
    flags: int,
) -> int:
    """Return `immediate`: (m, n, k), slots of (A, B, C), formats of (A, B, C), the rule.

    Formats are FloatFormat.index for floats and INTEGERS for integers. CHUNKS flags say that a
    matrix comes in chunks of 16 bytes from shared memory (wgmma), TRANSPOSE that these run along
    M or N instead of K. With scales the rule's block is how many products share one, and FRACTIONS
    says that they are ue4m3.
    """
    rule = rule or SumRule(block=1, fraction_bits=0)
    log_block = rule.block.bit_length() - 1
    eighths = shape[0] // 8, shape[1] // 8, shape[2]
    flags |= HALVES if rule.halves else 0
    values = (*eighths, *registers, *kinds, log_block, rule.fraction_bits, flags)
    result, place = 0, 0
    for value, width in zip(values, _WIDTHS, strict=True):
        assert 0 <= value < 1 << width, (values, width)
        result |= value << place
        place += width
    return result


@native
def field(immediate: int, which: int) -> int:
    """Return a field of `immediate`."""
    return (immediate >> (which >> 4)) & ((1 << (which & 15)) - 1)
