"""Bounds of axes, growth target, accumulation and precision as a sidecar file states them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.axes import resolve
from cuassay.model.dtype import DType
from cuassay.model.precision import precision_named
from cuassay.model.problem import Axis, ConstAxis, Problem, VarAxis

if TYPE_CHECKING:
    from cuassay.formats.sidecar.schema import SidecarModel


def with_bounds(problem: Problem, stated: SidecarModel, *, file: Path) -> Problem:
    """Return the problem with the stated bounds. Raises ProblemError where none fits them."""
    known = {axis.name: axis for axis in problem.axes}
    bounded: dict[str, VarAxis] = {}
    for name, bounds in stated.axes.items():
        where = f"{file}: axes.{name}"
        if name not in known:
            raise ProblemError(f"{file}: axes: {UnknownNameError('axis', name, known)}")
        axis = known[name]
        source = f"sidecar {file.name}"
        if not isinstance(axis, VarAxis):
            fixed = axis.value if isinstance(axis, ConstAxis) else axis.expression
            raise ProblemError(
                f"{where}: the axis is always {fixed}, expected one that workloads bind; "
                "remove the table"
            )
        if bounds.sizes is not None:
            if (bounds.min, bounds.max, bounds.multiple_of) != (None, None, None):
                raise ProblemError(
                    f"{where}: sizes stand alone; leave min, max and multiple_of out"
                )
            made = replace(
                axis,
                minimum=min(bounds.sizes),
                maximum=max(bounds.sizes),
                multiple_of=1,
                sizes=tuple(sorted(set(bounds.sizes))),
                declared=True,
                bounds_source=source,
            )
        else:
            made = replace(
                axis,
                minimum=axis.minimum if bounds.min is None else bounds.min,
                maximum=axis.maximum if bounds.max is None else bounds.max,
                multiple_of=bounds.multiple_of or axis.multiple_of,
                # Only both ends promise every size between them.
                declared=axis.declared or (bounds.min is not None and bounds.max is not None),
                bounds_source=source,
            )
        top, least = made.maximum, max(made.minimum, 1)
        if top is not None and top // made.multiple_of * made.multiple_of < least:
            raise ProblemError(
                f"{where}: no size lies in [{made.minimum}, {top}] and is a multiple of "
                f"{made.multiple_of}; expected min <= max with at least one size between"
            )
        bounded[name] = made
        for workload in problem.workloads:
            size = resolve(problem.axes, workload.axes)[name]
            top = size if made.maximum is None else made.maximum
            listed = not made.sizes or size in made.sizes
            if not made.minimum <= size <= top or size % made.multiple_of or not listed:
                raise ProblemError(
                    f"{where}: workload '{workload.id}' has {name} = {size}, outside "
                    f"{axis_words(made)}; widen the bounds, or change the workload"
                )
    axes: tuple[Axis, ...] = tuple(bounded.get(axis.name, axis) for axis in problem.axes)
    return replace(problem, axes=axes)


def axis_words(axis: VarAxis) -> str:
    """Return the bounds of an axis as `1 to 64, multiples of 8`, or its sizes."""
    if axis.sizes:
        return f"one of {', '.join(map(str, axis.sizes))}"
    top = "any size" if axis.maximum is None else axis.maximum
    step = f", multiples of {axis.multiple_of}" if axis.multiple_of > 1 else ""
    return f"{axis.minimum} to {top}{step}"


def with_growth(problem: Problem, stated: SidecarModel, *, where: str) -> Problem:
    """Return the problem with the stated growth target, accumulation and precision policy."""
    known = [axis.name for axis in problem.axes]
    for name in stated.growth_target:
        if name not in known:
            raise ProblemError(f"{where}: growth_target: {UnknownNameError('axis', name, known)}")
    try:
        precision = precision_named(stated.precision) or problem.precision
    except UnknownNameError as error:
        raise ProblemError(f"{where}: precision: {error}") from None
    legal = [dtype.value for dtype in DType if dtype.is_liftable]
    if stated.accumulation is None:
        accumulation = problem.accumulation
    else:
        if stated.accumulation not in legal:
            raise ProblemError(
                f"{where}: accumulation: {UnknownNameError('dtype', stated.accumulation, legal)}"
            )
        accumulation = DType(stated.accumulation)
    return replace(
        problem,
        growth_target={**problem.growth_target, **stated.growth_target},
        accumulation=accumulation,
        precision=precision,
    )
