"""The precision grade beside the verdict: which arithmetic a candidate's errors look like.

The error that float32 arithmetic achieves is the unit. TF32 and float16 round inputs at 2**-11,
bfloat16 at 2**-8, each 2**13 and 2**16 times float32's roundoff, so that the energy score of a
float32 output sits orders of magnitude apart. Where outputs are 16-bit, rounding of the output
hides what is below it: the grade is then what the score can still tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuassay.oracle.compare.groups import LIMIT_G
from cuassay.oracle.compare.outputs import Comparison

FLOAT32 = "float32"
TF32 = "TF32 or float16 inside"
BFLOAT16 = "bfloat16 inside"

_TF32_ROUNDOFF = 2.0**-11
_BFLOAT16_FROM = _TF32_ROUNDOFF * 1.2  # uniform roundings to 2**-11 give at most 0.58 of it


def grade(comparisons: Sequence[Comparison]) -> str:
    """Return the coarsest arithmetic that any floating output's error points to.

    A comparison within the energy limit is float32 work. Beyond it, the relative error
    (whole tensor) of an operation on inputs rounded to TF32 or float16 is about 2**-11 at
    most, unless it cancels; more points to bfloat16.
    """
    found = FLOAT32
    for comparison in comparisons:
        energy = max((s.value for s in comparison.statistics if s.name == "G"), default=0.0)
        if energy <= LIMIT_G or comparison.undecided:
            continue
        if comparison.relative_error > _BFLOAT16_FROM:
            return BFLOAT16
        found = TF32
    return found
