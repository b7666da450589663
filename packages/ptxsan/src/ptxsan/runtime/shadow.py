"""The float64 shadow at run time: what one result adds to its instruction's statistics.

Sixteen doubles an instruction. The first eight are summed over threads and launches, the others are
maxima (`runtime.statistics` merges them).
"""

from __future__ import annotations

from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import load_f64, store_f64

# Sums: results, their squares, squares of their whole error and of the error made here, additions
# to an accumulator that holds zero, non-finite results with a finite exact value (born here, or
# carried on from operands), nonzero values that became zero.
COUNT, SQUARES, ERRORS, INTRODUCED, STARTS, BORN, CARRIED, VANISHED = range(8)
# Maxima: of the results, of 1 / |nonzero result|, of the whole error, of the error made here, of
# the relative error, of half widths of approximate results; non-finite operands that left no trace.
LARGEST, SMALLEST, WORST, WORST_HERE, RELATIVE, WIDTH, SWALLOWED, FREE = range(8, 16)
_TINY = 5e-324  # stands for an exact zero where the result is not finite


@export("float64(int64, float64, float64, float64)")
def shadow_delta(stats: int, result: float, exact: float, here: float) -> float:
    """Return the shadow of a result: exact - result, or `exact` itself where result is inf or NaN.

    `exact` is the operation on the exact operands in float64, `here` on the operands as they are.
    `stats` is the address of the instruction's statistics. An exact value that is not finite
    either gives 0: nothing was lost.
    """
    store_f64(stats, load_f64(stats) + 1.0)
    delta = exact - result
    if delta - delta != 0.0:
        if result - result == 0.0 or exact - exact != 0.0:
            return 0.0
        slot = BORN if here - here == 0.0 else CARRIED
        store_f64(stats + 8 * slot, load_f64(stats + 8 * slot) + 1.0)
        return exact if exact != 0.0 else _TINY
    made = here - result
    if made - made != 0.0:
        made = 0.0
    store_f64(stats + 8, load_f64(stats + 8) + result * result)
    store_f64(stats + 16, load_f64(stats + 16) + delta * delta)
    store_f64(stats + 24, load_f64(stats + 24) + made * made)
    note_range(stats, result, exact, delta, made)
    return delta


@native
def note_range(stats: int, result: float, exact: float, delta: float, made: float) -> None:
    """Keep the maxima of a finite result and of its errors."""
    size, error = abs(result), abs(delta)
    if size == 0.0:
        if exact != 0.0:
            store_f64(stats + 8 * VANISHED, load_f64(stats + 8 * VANISHED) + 1.0)
        return
    if size > load_f64(stats + 8 * LARGEST):
        store_f64(stats + 8 * LARGEST, size)
    if size * load_f64(stats + 8 * SMALLEST) < 1.0:
        store_f64(stats + 8 * SMALLEST, 1.0 / size)
    if error > load_f64(stats + 8 * WORST):
        store_f64(stats + 8 * WORST, error)
    if abs(made) > load_f64(stats + 8 * WORST_HERE):
        store_f64(stats + 8 * WORST_HERE, abs(made))
    if error > load_f64(stats + 8 * RELATIVE) * size:
        store_f64(stats + 8 * RELATIVE, error / size)


@export("float64(float64, float64)")
def shadow_exact(actual: float, delta: float) -> float:
    """Return the exact value of a float with this shadow."""
    if actual - actual == 0.0:
        return actual + delta
    return delta if delta != 0.0 else actual


@export("void(int64, float64)")
def note_start(stats: int, accumulator: float) -> None:
    """Count an addition to an accumulator that holds zero: the start of a chain."""
    if accumulator == 0.0:
        store_f64(stats + 8 * STARTS, load_f64(stats + 8 * STARTS) + 1.0)


@export("void(int64, float64, float64, float64)")
def note_width(stats: int, result: float, ulps: float, absolute: float) -> None:
    """Keep the largest half width of an approximate result: max(ulps of float32, absolute)."""
    width = max(abs(result) * ulps * 1.1920928955078125e-07, absolute)
    if width > load_f64(stats + 8 * WIDTH) and width - width == 0.0:
        store_f64(stats + 8 * WIDTH, width)


@export("void(int64, float64, float64)")
def note_swallowed(stats: int, operand: float, result: float) -> None:
    """Mark an instruction that turned a non-finite operand into a finite result."""
    if operand - operand != 0.0 and result - result == 0.0:
        store_f64(stats + 8 * SWALLOWED, 1.0)
