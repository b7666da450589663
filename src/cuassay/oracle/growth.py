"""How error grows with the length of a reduction: what one case cannot separate.

error ~ length**a is fitted by least squares in log-log. float32 accumulation with one cast
stays at the output's rounding (a near 0); sums rounded to bfloat16 on the way grow with a near
0.5, or near 1 where running sums stall.

A candidate fails if its exponent exceeds the trusted one by EXCESS *and* its error at the
longest length is more than RATIO times the trusted error, or the error projected to the
production length is more than PROJECTED_RATIO times the projected trusted error and of a size
that does harm. Where the trusted error grows as well (exponent TRUSTED_GROWS or more: the
reference accumulates as it goes, in float32 or lower), two exponents from three lengths differ by
luck, and a projection over thousands of lengths carries the luck along: there the error at the
longest length alone decides, by the energy limit. Whatever the exponent, an error beyond the
energy limit at the longest length fails: a pairwise bfloat16 tree is large at once and hardly
grows.

Calibration (benchmarks/calibration_growth.py: 256 bfloat16 row sums of 256 to 16384 terms):
honest forms (float32, split, tree, float64) exceed the trusted exponent by at most 0.03, with
ratios of 0.88 to 1.0. bfloat16 running sums, tiles of 32 and tiles of 128 exceed it by 0.28 to
0.99 with ratios of 3.3 to 500. The pairwise bfloat16 tree: 0.00 to 0.10; ratios of 4 on
zero-mean rows (fails), 1.5 on same-sign rows (passes: harmless there).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuassay.model.outcome import Growth, GrowthPoint
from cuassay.oracle.compare.groups import LIMIT_G, Statistic

EXCESS = 0.15
RATIO = 1.3
PROJECTED_RATIO = 2.0
HARMFUL = 2.0**-9  # half a spacing of bfloat16, relative: smaller projected errors do no harm
TRUSTED_GROWS = 0.25
MIN_POINTS = 3


def fit(points: Sequence[GrowthPoint], *, axis: str, target: int, output: str) -> Growth:
    """Return the growth of a candidate's and the trusted error along `axis`.

    `points` hold relative errors (norm of error over norm of truth) at 3 lengths or more. An
    error of 0 counts as a thousandth of the trusted one. Raises ValueError for fewer than two
    lengths.
    """
    if len({point.length for point in points}) < 2:
        raise ValueError(f"growth needs two lengths or more, got {len(points)} point(s)")
    ordered = tuple(sorted(points, key=lambda point: point.length))
    floor = max((p.trusted for p in ordered), default=0.0) * 1e-3 or 1e-30
    exponent, projected = _power(ordered, [max(p.error, floor) for p in ordered], target)
    trusted, _ = _power(ordered, [max(p.trusted, floor) for p in ordered], target)
    return Growth(
        axis=axis,
        points=ordered,
        exponent=exponent,
        target=target,
        projected=projected,
        trusted_exponent=trusted,
        output=output,
    )


def _power(
    points: Sequence[GrowthPoint], errors: Sequence[float], target: int
) -> tuple[float, float]:
    """Return the least-squares exponent, and the last error carried on to `target`.

    The projection starts from the longest length measured: extrapolating the fitted line from
    lengths on the rounding floor would understate it.
    """
    xs = [math.log(point.length) for point in points]
    ys = [math.log(error) for error in errors]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((a - x) ** 2 for a in xs)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread
    reach = max(target / points[-1].length, 1.0)
    return slope, errors[-1] * reach ** max(slope, 0.0)


def judge_growth(growth: Growth) -> Statistic | None:
    """Return the statistic that fails where the error grows and does harm; None if undecided.

    Its value is the ratio to the trusted error at the longest length, or at the target; its
    limit is RATIO or PROJECTED_RATIO where the error grows, the energy limit where it does not or
    where the trusted error grows too.
    None for fewer than three lengths or without a trusted error.
    """
    if len({point.length for point in growth.points}) < MIN_POINTS:
        return None
    last = growth.points[-1]
    if last.trusted <= 0:
        return None
    excess = growth.exponent - growth.trusted_exponent
    ratio = last.error / last.trusted
    reach = max(growth.target / last.length, 1.0)
    trusted_there = last.trusted * reach ** max(growth.trusted_exponent, 0.0)
    ahead = growth.projected / trusted_there
    group = (
        f"axis {growth.axis}: error ~ length^{growth.exponent:.2f}, trusted "
        f"^{growth.trusted_exponent:.2f}; {growth.projected:.2g} projected to {growth.target}"
    )
    harmful = growth.projected >= HARMFUL and ahead >= PROJECTED_RATIO
    if excess <= EXCESS or growth.trusted_exponent >= TRUSTED_GROWS:
        return Statistic(name="growth", value=ratio, limit=LIMIT_G, group=group)
    if ratio <= RATIO and harmful:
        return Statistic(name="growth", value=ahead, limit=PROJECTED_RATIO, group=group)
    return Statistic(name="growth", value=ratio, limit=RATIO, group=group)
