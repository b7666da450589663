"""Cases that lengthen a reduction: hot keys, and the same fills at growing lengths.

A sum that is rounded to 16 bits once a block is as good as one that is rounded at its end, as long
as it has few blocks. Where its second half takes the first one back but for one part in 64, the
first half's rounding is all that is left of it: one rounding on the way shows, however short the
sum. Intermediates that are rounded once, each, show no such error, as the sum is one of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from cuassay.inputs.fills import family
from cuassay.inputs.geometry import (
    axes_of,
    elements,
    fitted_sizes,
    growth_axes,
    legal,
    shrunk_sizes,
    step_to,
    tensor_inputs,
    try_sizes,
)
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import HOT_INDEX, HOT_SUM, Regime, main_rank
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque, Real
from cuassay.model.problem import Problem, VarAxis

_NARROW = 64  # width of the other axes in a growth test: enough terms for stable statistics
_FEWEST_LENGTHS = 3  # two points give an exponent without any sign of its error
_BASE_FACTOR = 4  # times the elements of the shortest case
_MOST_ELEMENTS = 3 << 27  # of any case of a growth test: a GPU's time and memory are known so far
_PARTS = 8  # of the power of two below a length: halving would stop far below the limit
_APART = 4  # factor between the lengths of a series that ends at the axis's own maximum
_SHORTEST = 16  # below it an exponent is that of the first few terms
_TAKES_BACK = -(1.0 + 2.0**-6)  # times the first half of a sum: exact steps of bfloat16
# Terms of a sum that takes itself back. Tensor cores cut off partial sums: 2^-24 of them, always
# toward zero, after some 16 terms. Over 8192 terms that is as much of what is left as one rounding
# to bfloat16, over 1024 a tenth.
_FEW_TERMS = 1024
_FEW_ELEMENTS = 1 << 21  # that a sum of two blocks may have wherever it runs
_HALF = 0.7  # a length this much below the last one tells the exponent nothing new


def hot(planner: Planner) -> tuple[Case, ...]:
    """Return cases that put many terms on one sum; () where no axis is reduced."""
    axis = next(iter(_growth_axes(planner)), None)
    if axis is None:
        return ()
    regimes = _regimes(planner.problem)
    budget = planner.budget
    _, sizes = planner.fitting(budget.hot_elements, 1)[0]
    wished = max(sizes[axis.name], budget.hot_length)
    length = step_to(axis, wished)
    changed = try_sizes(planner.problem, sizes, {axis.name: length})
    if changed is not None and legal(planner.problem, changed):
        sizes = fitted_sizes(
            planner.problem, changed, budget=budget.hot_elements, keep={axis.name}, floor=16
        )
    # What constant axes make too large to be judged is shortened until it is not.
    fits = planner.is_affordable
    for keep in ({axis.name}, ()):
        smaller = shrunk_sizes(
            planner.problem, sizes, small_enough=fits, keep=keep, floor=2 if keep else _SHORTEST
        )
        if fits(smaller):
            sizes = smaller
            break
    cases = [
        planner.case(
            f"hot {regimes[i % len(regimes)].name}",
            sizes,
            regimes[i % len(regimes)],
            workload=planner.first_workload,
            seed_path=("hot", i),
        )
        for i in range(budget.hot_cases)
    ]
    halves = _halves(planner, axis)
    return tuple(cases if halves is None else [*cases[:1], halves, *cases[1:]])


def _halves(planner: Planner, axis: VarAxis) -> Case | None:
    """Return a case in which the second half of a sum along an axis takes the first one back.

    Of the inputs with the axis the last one changes its sign, the others repeat themselves. None
    where none may be negative, and where indices choose what is summed.
    """
    problem, budget = planner.problem, planner.budget
    rank = main_rank(problem)
    along = [
        spec
        for spec in tensor_inputs(problem)
        if axis.name in spec.shape and family(spec) == "real" and spec.dtype.itemsize > 1
        if not isinstance(spec.domain, Opaque)
    ]
    signed = [
        spec
        for spec in along
        if len(spec.shape) >= rank and spec.domain == Real() and spec.dtype.is_floating
    ]
    if not signed or _has_index(problem):
        return None
    found = _fitting(planner, axis, [min(budget.hot_length, _FEW_TERMS)])
    if not found:
        return None
    most = max(budget.hot_elements, _FEW_ELEMENTS)
    sizes = shrunk_sizes(
        problem,
        found[0],
        small_enough=lambda sizes: (
            elements(problem, sizes) <= most and planner.is_affordable(sizes)
        ),
        floor=_SHORTEST,
    )
    case = planner.case(
        "hot halves that cancel",
        sizes,
        Regime(name="halves that cancel", main=Fill(kind="normal")),
        workload=planner.first_workload,
    )
    mirrored: dict[str, Fill] = {}
    for spec in along:
        own = case.fills[spec.name]
        dims = tuple(dim for dim, name in enumerate(spec.shape) if name == axis.name)
        by = _TAKES_BACK if spec is signed[-1] else 1.0
        parameters = {**own.parameters, "mirror": dims, "mirror_by": by}
        mirrored[spec.name] = Fill(kind=own.kind, parameters=parameters)
    return dataclasses.replace(case, fills={**case.fills, **mirrored})


def growth(planner: Planner) -> tuple[Case, ...]:
    """Return the same fills at growing lengths of each reduction axis.

    Cases of one series are equal in `fills` and scalars and differ in `axes`. A series has
    at least three lengths, or there is none.
    """
    axes = _growth_axes(planner)[: planner.budget.growth_axes]
    return tuple(case for axis in axes for case in _grown(planner, axis))


def _grown(planner: Planner, axis: VarAxis) -> Iterator[Case]:
    # Constant axes may make every length large: the base's own size then sets the measure, and a
    # length that is too long for it is shortened until it fits. A declared reduction axis whose
    # maximum leaves too few of the wished lengths gets a series that ends there.
    series = _fitting(planner, axis, planner.budget.growth_lengths)
    known = (*planner.problem.reduction_axes, *planner.reduced)
    if 0 < len(series) < _FEWEST_LENGTHS and axis.name in known:
        top = series[-1][axis.name]
        lengths = [top // _APART**power for power in range(_FEWEST_LENGTHS - 1, -1, -1)]
        series = _fitting(planner, axis, lengths) if lengths[0] >= _SHORTEST else []
    if len(series) < _FEWEST_LENGTHS:
        return
    budget = planner.budget
    large = elements(planner.problem, series[0]) > 4 * budget.hot_elements
    fills = budget.growth_large_fills if large else budget.growth_fills
    regimes = _regimes(planner.problem)
    single = tuple(r for r in regimes if r.index.kind == "single_hot")
    for regime in (single if _has_index(planner.problem) else regimes)[:fills]:
        for sizes in series:
            label = f"growth {axis.name}={sizes[axis.name]} {regime.name}"
            # One seed a series: only the length differs between its cases.
            yield planner.case(
                label,
                sizes,
                regime,
                workload=planner.first_workload,
                seed_path=("growth", axis.name, regime.name),
            )


def _regimes(problem: Problem) -> tuple[Regime, ...]:
    return HOT_INDEX if _has_index(problem) else HOT_SUM


def _has_index(problem: Problem) -> bool:
    return any(family(spec) == "index" for spec in tensor_inputs(problem))


def _growth_axes(planner: Planner) -> list[VarAxis]:
    """Return the axes to lengthen: reduction axes, else those along which indices lie; then
    those that the reference was seen to reduce.
    """
    problem = planner.problem
    variable = {axis.name: axis for axis in problem.var_axes()}
    names = [*growth_axes(problem)]
    for spec in tensor_inputs(problem) if not names else ():
        if family(spec) == "index":
            names += axes_of(problem, spec)
    told = dict.fromkeys(name for name in names if name in variable)
    seen = [_up_to_listed(planner, variable[name]) for name in planner.reduced if name not in told]
    return [*(variable[name] for name in told), *seen]


def _up_to_listed(planner: Planner, axis: VarAxis) -> VarAxis:
    """Return the axis, held to the largest listed size where its maximum is a mere default."""
    if axis.declared:
        return axis
    return dataclasses.replace(axis, maximum=max(s[axis.name] for _, s in planner.workloads()))


def _fitting(planner: Planner, axis: VarAxis, lengths: Sequence[int]) -> list[dict[str, int]]:
    """Return sizes for each of `lengths`, or for the longest below it that fits, if any."""
    # The smallest workload with every other var axis at most _NARROW.
    _, base = planner.workloads()[0]
    for other in planner.problem.var_axes():
        if other.name == axis.name or base[other.name] <= _NARROW:
            continue
        changed = try_sizes(planner.problem, base, {other.name: step_to(other, _NARROW)})
        if changed is not None and legal(planner.problem, changed):
            base = changed
    own = min(_BASE_FACTOR * elements(planner.problem, base), _MOST_ELEMENTS)
    limit = max(4 * planner.budget.hot_elements, own)
    found: list[dict[str, int]] = []
    for wished in lengths:
        least = found[-1][axis.name] / _HALF if found else 0.0
        sizes = _longest(planner, axis, base, wished=wished, least=least, limit=limit)
        if sizes is not None:
            found.append(sizes)
    return found


def _longest(
    planner: Planner, axis: VarAxis, base: dict[str, int], *, wished: int, least: float, limit: int
) -> dict[str, int] | None:
    """Return sizes at the longest round length up to `wished` that fits; None above `least`."""
    length = step_to(axis, wished)
    while length > least:
        sizes = try_sizes(planner.problem, base, {axis.name: length})
        if sizes is None or not legal(planner.problem, sizes):
            return None
        if elements(planner.problem, sizes) <= limit:
            return sizes
        # What lies between `length` and the power of two below it is a round number.
        below = 1 << ((length - 1).bit_length() - 1) if length > 1 else 1
        shorter = step_to(axis, length - max(below // _PARTS, 1))
        if shorter >= length:
            return None
        length = shorter
    return None
