"""A case in which the gates of a reference are nearly closed, as far as its inputs can close them.

What a gate lets through far below zero is small and not nothing. A kernel that leaves such rows out
is right where float32 holds nothing of them, and right is also a form that loses the last digits
on the way there. Plain inputs never come near, and those far below zero lie beyond. So rows lie at
levels of their own, from where a gate is nearly open to just beyond where its tail is lost.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator

from cuassay.inputs.fills import family
from cuassay.inputs.geometry import tensor_inputs
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC, fill, main_rank
from cuassay.model.case import Case
from cuassay.model.domain import Real
from cuassay.model.problem import TensorSpec

_TRIES = 4  # scales of one kind of inputs
_OPEN, _BEYOND = 0.02, 2.0  # how far closed each element is at least, and the last one at most


def closed_gates(planner: Planner) -> Iterator[Case]:
    """Yield the case, none where the reference has no gate or these inputs do not close it."""
    specs = [
        spec
        for spec in tensor_inputs(planner.problem)
        if family(spec) == "real" and isinstance(spec.domain, Real) and spec.domain.low is None
    ]
    sizes = planner.few(planner.budget.small_elements)
    base = planner.case("gates nearly closed", sizes, NUMERIC[0], workload=planner.first_workload)
    if not specs or base.generator or not planner.gates(base):
        return
    rank = main_rank(planner.problem)
    main = [spec for spec in specs if len(spec.shape) >= rank] or specs
    first, *others = (*main, *(spec for spec in specs if spec not in main))
    # A gate reads an input itself, or what is summed of products with weights of the other sign.
    ways = [(main, [], main), ([first], others, [first]), ([first], others, others)]
    for levels, negative, scaled in ways[: 3 if others else 1]:
        case = _closed(planner, base, levels, negative, scaled)
        if case is not None:
            yield case
            return


def _closed(
    planner: Planner,
    base: Case,
    levels: Collection[TensorSpec],
    negative: Collection[TensorSpec],
    scaled: Collection[TensorSpec],
) -> Case | None:
    """Return the case that closes a gate, rows of `levels` at levels of their own.

    They are positive beside inputs that are `negative`, and negative where there are none. Those
    that are `scaled` are multiplied by the power of two that closes a gate as far as wanted.
    """
    exponent = 0
    for _ in range(_TRIES):
        fills = dict(base.fills)
        for spec in (*levels, *negative):
            kind = "levels" if spec in levels else "same_sign"
            sign = 1.0 if spec in levels and negative else -1.0
            size = 2.0**exponent if spec in scaled else 1.0
            fills[spec.name] = fill(kind, scale_by=sign * size)
        case = dataclasses.replace(base, fills=fills)
        found = [high for low, high in planner.gates(case) if low > _OPEN and math.isfinite(high)]
        if not found:
            return None
        if 1.0 <= max(found) < _BEYOND:
            return case
        exponent += round(math.log2(math.sqrt(_BEYOND) / max(found)))
    return None
