"""Cases in which elements and sizes equal a scalar argument: `<=` for `<` shows there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from cuassay.inputs.fills import family
from cuassay.inputs.geometry import tensor_inputs
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC
from cuassay.model.case import Case, Fill
from cuassay.model.domain import IntegerRange, Opaque, Positive, Probability, Real, Swizzled
from cuassay.model.problem import Scalar, ScalarSpec

_BITS = 3  # of a scalar's significand, which every floating type has
_AXES = 3  # axes whose sizes an integer takes


def at_scalars(planner: Planner) -> Iterator[Case]:
    """Yield a case whose elements equal its floating scalars, then cases of integers and sizes."""
    problem, sizes = planner.problem, planner.few(planner.budget.small_elements)
    scalars = [spec for spec in problem.inputs if isinstance(spec, ScalarSpec)]
    base = planner.case("elements equal to scalar arguments", sizes, NUMERIC[0])
    held: dict[str, Scalar] = {}
    for spec in scalars:
        value = float(base.scalars.get(spec.name, 0.0))
        if not spec.dtype.is_floating or not math.isfinite(value):
            continue
        fraction, exponent = math.frexp(value)
        short = math.ldexp(round(fraction * 2**_BITS), exponent - _BITS)
        match spec.domain:
            case Real(low=low, high=high) | Positive(low=low, high=high) if short:
                if (low is None or low <= short) and (high is None or short <= high):
                    held[spec.name] = short
            case _:
                pass
    values = tuple(sign * float(value) for value in held.values() for sign in (1.0, -1.0))
    fills = {
        spec.name: Fill(kind="among", parameters={"values": values})
        for spec in tensor_inputs(problem)
        if family(spec) == "real"
        and not isinstance(spec.domain, Opaque | Positive | Probability | Swizzled)
    }
    if held and fills:
        yield dataclasses.replace(
            base, scalars={**base.scalars, **held}, fills={**base.fills, **fills}
        )
    for spec in scalars:
        if not isinstance(spec.domain, IntegerRange):
            continue
        for axis in planner.problem.var_axes()[:_AXES]:
            for number, words in ((sizes[axis.name], "equals"), (sizes[axis.name] - 1, "is below")):
                if spec.domain.low <= number <= spec.domain.high:
                    case = planner.case(f"{spec.name} {words} {axis.name}", sizes, NUMERIC[0])
                    yield dataclasses.replace(case, scalars={**case.scalars, spec.name: number})
