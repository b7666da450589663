"""Rounding by exact rational arithmetic: slow, short, and independent of the machine's own code."""

from __future__ import annotations

import math
from fractions import Fraction


def floor_log2(value: Fraction) -> int:
    """Return floor(log2(value)) of a positive rational."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if value >= Fraction(2) ** exponent else exponent - 1


def round_exact(value: Fraction, precision: int, min_exponent: int, mode: int) -> Fraction:
    """Return `value` on a format's grid (unbounded above); mode as in formats.Rounding."""
    if value == 0:
        return value
    magnitude = abs(value)
    quantum = Fraction(2) ** (max(floor_log2(magnitude), min_exponent) - precision + 1)
    kept, rest = divmod(magnitude, quantum)
    half = quantum / 2
    up = {
        0: rest > half or (rest == half and kept % 2 == 1),
        1: False,
        2: rest != 0 and value < 0,
        3: rest != 0 and value > 0,
        4: rest >= half,
    }[mode]
    rounded = (kept + (1 if up else 0)) * quantum
    return rounded if value > 0 else -rounded


def bounded(value: Fraction, largest: float, mode: int) -> float:
    """Return the float of a rounded value, with a format's overflow rule."""
    if abs(value) <= Fraction(largest):
        return float(value)
    sign = 1.0 if value > 0 else -1.0
    stays = mode == 1 or (mode == 2 and sign > 0) or (mode == 3 and sign < 0)
    return sign * largest if stays else math.copysign(math.inf, sign)
