"""The precision that a kernel keeps: the least family of trusted kernels that explains its error.

`strict` is the arithmetic of the reference as written, `tf32` rounds the operands of float32
products to TF32, `mixed` rounds materialized intermediates to 16 bits (model/precision.py). Each
family has draws of its own, and the same statistics with the same limits judge a kernel against
each. What a policy accepts is decided here; how error grows with length decides beside it, since
a sum kept in 16 bits may pass any single case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import Comparison

NO_FAMILY = "none"  # the grade of a kernel whose error no family explains


def least_family(
    found: Comparison, measure_in: Callable[[Precision], Comparison], families: Iterable[Precision]
) -> Comparison:
    """Return the comparison with the least of `families` that explains an output's error.

    `found` is the one in the family `strict`, `measure_in` makes those in others; `families` are
    in order, `strict` first. Where none of them explains the error, it is measured by the widest:
    how far a kernel lies beyond what it may do. A family whose own error is too large to decide
    anything (`undecided`) decides nothing about the output either, unless the kernel's error is
    beyond even that.
    """
    wider = tuple(families)[1:]
    if found.passed or found.mismatch or not wider or _fails(found, "exact"):
        return found
    # No rounding makes a number of what is none. A family whose intermediates overflow may have NaN
    # in the place of infinity.
    if _fails(found, "class") and not math.isinf(found.expected):
        return found
    widest = measure_in(wider[-1])
    if not widest.passed:
        return replace(widest, precision=found.precision)
    for family in wider[:-1]:
        lesser = measure_in(family)
        if lesser.passed and not lesser.undecided:
            return replace(lesser, precision=family)
    return replace(widest, precision=wider[-1])


def _fails(found: Comparison, name: str) -> bool:
    """Whether a statistic of this name is beyond its limit."""
    return any(one.name == name and one.share > 1.0 for one in found.statistics)


def grade(comparisons: Iterable[Comparison]) -> str:
    """Return the least family that explains every comparison: strict, tf32, mixed, or none.

    Of failed comparisons those count whose family was looked for and found; where none was,
    no family explains the kernel's error.
    """
    decided = [found for found in comparisons if not found.undecided and not found.mismatch]
    failed = [found for found in decided if not found.passed]
    beyond = [found.precision for found in failed if found.precision is not Precision.STRICT]
    if failed and not beyond:
        return NO_FAMILY
    order = tuple(Precision)
    grades = [found.precision for found in decided if found.passed] + beyond
    return max(grades, key=order.index, default=Precision.STRICT).value
