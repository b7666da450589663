"""Where the elements of matrix fragments live: lane, register and element -> row and column.

PTX ISA 9.7.14.5 (mma fragments). g = lane / 4 and t = lane % 4; a 32-bit register holds e elements
along K. wmma fragments have no documented layout: A and B are dealt out register by register, and
accumulators by pairs, so that f16 and f32 accumulators agree element by element.
"""

from __future__ import annotations

from ptxsan.numerics.native import native


@native
def a_row(lane: int, register: int, single: int) -> int:
    """Return the row of A that a register of mma holds; `single`: eight rows (m8)."""
    return (lane >> 2) + (0 if single else 8 * (register & 1))


@native
def a_column(lane: int, register: int, element: int, per_register: int, single: int) -> int:
    """Return the K index of an element of A."""
    group = register if single else register >> 1
    return group * 4 * per_register + (lane & 3) * per_register + element


@native
def b_row(lane: int, register: int, element: int, per_register: int) -> int:
    """Return the K index of an element of B; its column is lane / 4."""
    return register * 4 * per_register + (lane & 3) * per_register + element


@native
def c_row(lane: int, number: int) -> int:
    """Return the row of accumulator element `number` of a lane."""
    return (lane >> 2) + 8 * ((number >> 1) & 1)


@native
def c_column(lane: int, number: int) -> int:
    """Return the column of accumulator element `number` of a lane."""
    return 8 * (number >> 2) + 2 * (lane & 3) + (number & 1)


@native
def dealt(lane: int, register: int, element: int, per_register: int) -> int:
    """Return the row-major index of an element of a wmma fragment."""
    return (register * 32 + lane) * per_register + element


@native
def dealt_accumulator(lane: int, number: int) -> int:
    """Return the row-major index of accumulator element `number` of a wmma fragment."""
    return ((number >> 1) * 32 + lane) * 2 + (number & 1)
