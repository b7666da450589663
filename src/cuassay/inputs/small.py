"""Small cases: cheap, every axis at least 2, so that faults of row 0 and of batches show."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence

from cuassay.inputs.geometry import elements, least, least_sizes, legal, step_to, try_sizes, within
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC
from cuassay.model.case import Case
from cuassay.model.problem import Problem, VarAxis

_PRIMES = (13, 11, 17, 7, 19, 23, 5, 29)
_OTHER = (7, 19, 5, 23, 11, 13, 17, 31)
_OF_LEAST = 16  # constant axes may exceed any budget: times the elements at the least sizes
_NONE: Mapping[str, int] = {}


def small(planner: Planner) -> tuple[Case, ...]:
    """Return A, A with other values, A with each axis alone shorter, B, and A of one sign.

    A and its refill share every size, so one can be copied into the other's storage. A
    buffer that is kept under a key which lacks one size shows only between two shapes that
    share all the others, hence the shorter ones. B differs from A in every axis.
    """
    first = small_sizes(planner)
    second = small_sizes(planner, _OTHER, unlike=first)
    regime, other = NUMERIC[0], NUMERIC[3]
    workload = planner.first_workload
    return (
        planner.case("small A", first, regime, workload=workload),
        planner.case("small A refilled", first, regime, workload=workload),
        *(
            planner.case(f"small A shorter {name}", sizes, regime, workload=workload)
            for name, sizes in _shorter(planner, first)
        ),
        planner.case("small B", second, regime, workload=workload),
        planner.case("small A same sign", first, other, workload=workload),
    )


def _shorter(planner: Planner, sizes: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    for axis in planner.problem.var_axes():
        size = max(step_to(axis, sizes[axis.name] // 2), least(axis, 2))
        changed = try_sizes(planner.problem, sizes, {axis.name: size})
        if size < sizes[axis.name] and changed is not None and legal(planner.problem, changed):
            yield axis.name, changed


def small_sizes(
    planner: Planner, primes: Sequence[int] = _PRIMES, *, unlike: Mapping[str, int] = _NONE
) -> dict[str, int]:
    """Return small, pairwise different sizes of at least 2 within every axis's bounds.

    Within the budget too, as far as constant axes allow it, and other than those of `unlike`
    wherever an axis has another size to offer.
    """
    _, sizes = planner.workloads()[0]
    for position, axis in enumerate(planner.problem.var_axes()):
        wished = primes[position % len(primes)]
        size = wished if within(axis, wished) else least(axis, wished)
        for candidate in _small_for(planner.problem, axis, sizes, size):
            changed = _legal_with(planner.problem, sizes, axis, candidate)
            if changed is not None:
                sizes = changed
                break
    # `sizes` one step lower wherever they equal those of `unlike`
    for axis in planner.problem.var_axes():
        if sizes[axis.name] == unlike.get(axis.name):
            sizes = _stepped(planner.problem, sizes, axis, floor=2, unlike=unlike) or sizes
    # Cut down the mildest step at a time, until the budget holds. Axes of 3 can still be halved for
    # a case of their own, so they stop there first. What fits is taken to be what is small enough,
    # so that few of the steps are looked at: the work of a call may cost seconds to know.
    problem, budget = planner.problem, planner.budget
    smallest = least_sizes(problem, sizes)
    most = max(budget.small_elements, _OF_LEAST * elements(problem, smallest))
    most_work = max(budget.small_work, _OF_LEAST * _work(problem, smallest))

    def fits(sizes: dict[str, int]) -> bool:
        return (
            elements(problem, sizes) <= most
            and _work(problem, sizes) <= most_work
            and planner.is_affordable(sizes)
        )

    steps = [sizes]
    if fits(sizes):
        return sizes
    for floor in (3, 2):
        while shorter := _mildest(problem, steps[-1], floor=floor, unlike=unlike):
            steps.append(shorter)
    first = bisect.bisect_left(steps, True, key=fits)
    return steps[min(first, len(steps) - 1)]


def _small_for(
    problem: Problem, axis: VarAxis, sizes: Mapping[str, int], wished: int
) -> Iterator[int]:
    """Yield small sizes of an axis, the wished one first.

    Where rules tie it to others, a prime that no other axis has, or what follows from another's
    size, may be legal where the wished one and the least are not.
    """
    yield wished
    if problem.constraints:
        taken = {size for name, size in sizes.items() if name != axis.name}
        yield from (one for one in sorted(_OTHER) if one not in taken and within(axis, one))
    yield least(axis, 2)
    if problem.constraints:
        others = sorted(sizes[one.name] for one in problem.var_axes() if one is not axis)
        for factor in (2, 1):
            yield from (factor * one for one in others if within(axis, factor * one))


def _legal_with(
    problem: Problem, sizes: Mapping[str, int], axis: VarAxis, size: int
) -> dict[str, int] | None:
    """Return `sizes` with another size of one axis; None where that is not legal."""
    changed = try_sizes(problem, sizes, {axis.name: size})
    return changed if changed is not None and legal(problem, changed) else None


def _mildest(
    problem: Problem, sizes: dict[str, int], *, floor: int, unlike: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the step of one axis that leaves most of it; None where none has one left."""
    steps = {
        axis.name: _stepped(problem, sizes, axis, floor=floor, unlike=unlike)
        for axis in problem.var_axes()
    }
    left = {name: step[name] / sizes[name] for name, step in steps.items() if step is not None}
    return steps[max(left, key=lambda name: left[name])] if left else None


def _stepped(
    problem: Problem,
    sizes: Mapping[str, int],
    axis: VarAxis,
    *,
    floor: int,
    unlike: Mapping[str, int],
) -> dict[str, int] | None:
    """Return `sizes` with the next smaller size of `axis` that no other axis has."""
    taken = {size for name, size in sizes.items() if name != axis.name}
    taken |= {unlike[axis.name]} if axis.name in unlike else set()
    size = sizes[axis.name] - axis.multiple_of
    while size >= least(axis, floor):
        changed = None if size in taken else _legal_with(problem, sizes, axis, size)
        if changed is not None:
            return changed
        size -= axis.multiple_of
    return None


def _work(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return a bound on the terms of any product over the axes that vary."""
    return math.prod(sizes[axis.name] for axis in problem.var_axes())
