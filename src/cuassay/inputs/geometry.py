"""Sizes: how many elements a case has, which sizes are legal, and how to fit a budget."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from cuassay.errors import ProblemError
from cuassay.inputs.constraints import constraint_holds
from cuassay.model.axes import SHARES, evaluate, resolve, shape_of
from cuassay.model.domain import Index, Lengths, Offsets
from cuassay.model.problem import ExprAxis, Problem, TensorSpec, VarAxis, Workload

_NAME = re.compile(r"[A-Za-z_]\w*")


def tensor_inputs(problem: Problem) -> tuple[TensorSpec, ...]:
    """Return the inputs that are tensors, in order."""
    return tuple(spec for spec in problem.inputs if isinstance(spec, TensorSpec))


def elements(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return the elements of all input and output tensors together."""
    specs = (*tensor_inputs(problem), *problem.outputs)
    return sum(math.prod(shape_of(spec.shape, sizes)) for spec in specs)


def tensor_bytes(specs: Iterable[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Return the bytes of some tensors of a problem together."""
    return sum(math.prod(shape_of(spec.shape, sizes)) * spec.dtype.itemsize for spec in specs)


def all_bytes(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return the bytes of all input and output tensors together."""
    return tensor_bytes((*tensor_inputs(problem), *problem.outputs), sizes)


def most_rows(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return the most rows that an input or output has: the product of all its axes but the last.

    A kernel may have a block of threads for each.
    """
    specs = (*tensor_inputs(problem), *problem.outputs)
    return max(math.prod(shape_of(spec.shape, sizes)[:-1]) for spec in specs)


def workload_sizes(problem: Problem, workload: Workload) -> dict[str, int]:
    """Return every axis size of a workload."""
    return resolve(problem.axes, workload.axes)


def with_sizes(
    problem: Problem, sizes: Mapping[str, int], changes: Mapping[str, int]
) -> dict[str, int]:
    """Return `sizes` with some axes changed and the computed axes computed anew."""
    computed = {axis.name for axis in problem.axes if isinstance(axis, ExprAxis)}
    bound = {name: size for name, size in sizes.items() if name not in computed}
    return resolve(problem.axes, {**bound, **changes})


def try_sizes(
    problem: Problem, sizes: Mapping[str, int], changes: Mapping[str, int]
) -> dict[str, int] | None:
    """Return `with_sizes`, or None where an expression has no integer there."""
    try:
        changed = with_sizes(problem, sizes, changes)
        elements(problem, changed)
    except ProblemError:
        return None
    return changed


def shares_of(problem: Problem, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield `sizes` with all axes without declared bounds divided by one number, the least first.

    What is a multiple of another size stays one: a loop's sizes at which it is shorter.
    """
    for factor in SHARES:
        part = {
            axis.name: min(sizes[axis.name], max(sizes[axis.name] // factor, 2))
            for axis in problem.var_axes()
            if axis.is_open and not axis.derived
        }
        smaller = try_sizes(problem, sizes, part)
        if smaller is not None:
            yield smaller


def within(axis: VarAxis, size: int) -> bool:
    """Return whether `size` lies within the axis's bounds and steps."""
    if axis.sizes:
        return size in axis.sizes
    inside = axis.minimum <= size and (axis.maximum is None or size <= axis.maximum)
    return inside and size % axis.multiple_of == 0


def legal(problem: Problem, sizes: Mapping[str, int]) -> bool:
    """Return whether all var axes are within bounds and no rule of the problem is broken.

    Distinct indices need as many rows as there are of them, lengths an axis of the least one.
    """
    bounded = all(within(axis, sizes[axis.name]) for axis in problem.var_axes())
    return (
        bounded
        and all(constraint_holds(rule, sizes) is not False for rule in problem.constraints)
        and all(
            math.prod(shape_of(spec.shape, sizes)) <= evaluate(spec.domain.axis, sizes)
            for spec in tensor_inputs(problem)
            if isinstance(spec.domain, Index) and spec.domain.unique
        )
        and all(
            spec.domain.low <= evaluate(spec.domain.axis, sizes)
            for spec in tensor_inputs(problem)
            if isinstance(spec.domain, Lengths)
        )
    )


def step_to(axis: VarAxis, size: int) -> int:
    """Return the legal size of the axis nearest below `size`, or its least size."""
    if axis.sizes:
        return max((known for known in axis.sizes if known <= size), default=min(axis.sizes))
    capped = size if axis.maximum is None else min(size, axis.maximum)
    floored = capped - capped % axis.multiple_of
    return max(floored, least(axis))


def least(axis: VarAxis, floor: int = 1) -> int:
    """Return the smallest legal size of at least `floor`, as far as the maximum allows."""
    if axis.sizes:
        return min((size for size in axis.sizes if size >= floor), default=max(axis.sizes))
    wanted = max(axis.minimum, floor)
    stepped = -(-wanted // axis.multiple_of) * axis.multiple_of
    if axis.maximum is not None and stepped > axis.maximum:
        return axis.maximum - axis.maximum % axis.multiple_of
    return stepped


def fitted_sizes(
    problem: Problem,
    sizes: Mapping[str, int],
    *,
    budget: int,
    keep: Collection[str] = (),
    floor: int = 2,
) -> dict[str, int]:
    """Halve the longest var axis outside `keep` until the elements fit the budget.

    Axes stop at `floor` (or their minimum); the result may exceed the budget where the
    constant axes alone do.
    """
    return shrunk_sizes(
        problem,
        sizes,
        small_enough=lambda tried: elements(problem, tried) <= budget,
        keep=keep,
        floor=floor,
    )


def shrunk_sizes(
    problem: Problem,
    sizes: Mapping[str, int],
    *,
    small_enough: Callable[[Mapping[str, int]], bool],
    keep: Collection[str] = (),
    floor: int = 2,
) -> dict[str, int]:
    """Halve the longest var axis outside `keep` until `small_enough`, or until none is left.

    Axes stop at `floor` or at their own minimum.
    """
    current = dict(sizes)
    frozen = set(keep)
    while not small_enough(current):
        free = [axis for axis in problem.var_axes() if axis.name not in frozen]
        if not free:
            break
        axis = max(free, key=lambda axis: current[axis.name])
        smaller = max(step_to(axis, current[axis.name] // 2), least(axis, floor))
        changed = try_sizes(problem, current, {axis.name: smaller})
        if smaller >= current[axis.name] or changed is None or not legal(problem, changed):
            frozen.add(axis.name)
            continue
        current = changed
    return current


def least_sizes(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return every axis at its least size of at least 2: what constant axes leave to cut."""
    found = dict(sizes)
    for axis in problem.var_axes():
        changed = try_sizes(problem, found, {axis.name: least(axis, 2)})
        if changed is not None and legal(problem, changed):
            found = changed
    return found


def growth_axes(problem: Problem) -> tuple[str, ...]:
    """Return the axes that a growth test may lengthen, most telling first.

    Declared reduction axes, else var axes that some output's shape does not depend on
    (those absent from most outputs first). An output with an axis that the reference decides
    may depend on each of them. More offsets make more parts and no longer sum: an axis that lies
    in offsets alone is none.
    """
    variable = [axis.name for axis in problem.var_axes()]
    derived = {axis.name for axis in problem.var_axes() if axis.derived}
    if problem.reduction_axes:
        return tuple(name for name in problem.reduction_axes if name in variable)
    absent = {
        name: sum(
            name not in found and not derived & set(found)
            for found in (axes_of(problem, spec) for spec in problem.outputs)
        )
        for name in variable
    }
    used = {
        name
        for spec in tensor_inputs(problem)
        if not isinstance(spec.domain, Offsets)
        for name in axes_of(problem, spec)
    }
    found = [name for name in variable if absent[name] and name in used]
    return tuple(sorted(found, key=lambda name: -absent[name]))


def axes_of(problem: Problem, spec: TensorSpec) -> tuple[str, ...]:
    """Return the names that a spec's shape depends on, through computed axes too, in order."""
    expressions = {a.name: a.expression for a in problem.axes if isinstance(a, ExprAxis)}
    pending = [name for dimension in spec.shape for name in _NAME.findall(dimension)]
    seen: dict[str, None] = {}
    while pending:
        name = pending.pop(0)
        if name not in seen:
            seen[name] = None
            pending += _NAME.findall(expressions.get(name, ""))
    return tuple(seen)
