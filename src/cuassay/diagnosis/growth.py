"""Whether errors at several lengths of a sum grow by one power of the length."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuassay.model.outcome import Growth

LEAST_GROWTH = 0.2  # exponent of an error that grows with the length of a sum
_STEADY = 0.35  # half the width of that exponent's interval


def fitted_exponent(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return a of error ~ length**a, by least squares of logarithms, and twice its standard error.

    Ordinary least squares: the error of the slope is that of independent residuals.
    """
    xs = [math.log(length) for length, _ in points]
    ys = [math.log(error) for _, error in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    square = sum((one - x) ** 2 for one in xs)
    if not square or len(points) < 3:
        return 0.0, math.inf
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / square
    left = sum((b - y - slope * (a - x)) ** 2 for a, b in zip(xs, ys, strict=True))
    return slope, 2.0 * math.sqrt(left / (len(points) - 2) / square)


def grows_steadily(growth: Growth) -> bool:
    """Whether the points of a growth check lie on one power of the length that surely grows."""
    points = [(float(p.length), p.error) for p in growth.points if 0 < p.error < math.inf]
    return len(points) >= 3 and is_growth(points)


def is_growth(points: Sequence[tuple[float, float]]) -> bool:
    """Whether errors lie on one power of the length, its interval above `LEAST_GROWTH`.

    Terms that are left out beyond some length make an error that jumps: no power fits that.
    """
    exponent, spread = fitted_exponent(points)
    return spread < _STEADY and exponent - spread > LEAST_GROWTH
