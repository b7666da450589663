"""Reduction axes that a problem does not state, found by running its reference twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar
from cuassay.oracle.reduced_sizes import ReducedSizes, reduced_sizes

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

MakeInputs = Callable[[Case], Mapping[str, torch.Tensor | Scalar]]


def reduced_axes(
    problem: Problem, reference: LoadedReference, small: Sequence[Case], *, inputs: MakeInputs
) -> tuple[str, ...]:
    """Return the var axes that the reference reduces on `small` cases, in the problem's order.

    Not those that make an intermediate result grow with their square, nor any of a reference
    that loops over elements or tiles: at a thousandfold length it would run for minutes. Empty
    where the reference cannot be followed.
    """
    names = [spec.name for spec in problem.outputs]

    def seen_on(case: Case) -> ReducedSizes:
        return reduced_sizes(reference.call, list(inputs(case).values()), names)

    try:
        first, other = _two_sizes(problem, small)
        seen, again = seen_on(first), seen_on(other)
    except torch.OutOfMemoryError:
        raise
    except (CuassayError, RuntimeError):  # whatever is wrong with it is told elsewhere
        return ()
    if seen.operations != again.operations:
        return ()
    axes = (axis.name for axis in problem.var_axes())
    return tuple(n for n in axes if _reduces(n, first, seen) and _reduces(n, other, again))


def _two_sizes(problem: Problem, small: Sequence[Case]) -> tuple[Case, Case]:
    """Return two small cases whose sizes tell axes apart, every axis of another size in each.

    A length that equals a constant of the reference by chance does so in one of them only.
    Raises CannotJudgeError where an axis has one size to offer.
    """
    first, *others = small
    names = [axis.name for axis in problem.var_axes()]
    for other in others:
        if all(other.axes[name] != first.axes[name] for name in names):
            return first, other
    raise CannotJudgeError("some axis has the same size in every small case")


def _reduces(axis: str, case: Case, seen: ReducedSizes) -> bool:
    """Whether a run reduced the length that `axis`, and no other, has in a case."""
    size = case.axes[axis]
    alone = list(case.axes.values()).count(size) == 1
    return alone and size in seen.lengths and size not in seen.squared
