"""Reduction axes that a problem does not state, found by running its reference twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.model.case import Case
from cuassay.oracle.reduced_sizes import ReducedSizes, reduced_sizes

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial


def reduced_axes(trial: JudgeTrial) -> tuple[str, ...]:
    """Return the var axes that the reference reduces, in the problem's order.

    Not those that make an intermediate result grow with their square, nor any of a reference
    that loops over elements or tiles: at a thousandfold length it would run for minutes. Empty
    where the problem states its reduction axes, or where the reference cannot be followed.
    """
    if trial.problem.reduction_axes:
        return ()
    try:
        first, other = _two_sizes(trial)
        seen, again = _seen(trial, first), _seen(trial, other)
    except torch.OutOfMemoryError:
        raise
    except (CuassayError, RuntimeError):  # whatever is wrong with it is told elsewhere
        return ()
    if seen.operations != again.operations:
        return ()
    names = (axis.name for axis in trial.problem.var_axes())
    return tuple(n for n in names if _reduces(n, first, seen) and _reduces(n, other, again))


def _two_sizes(trial: JudgeTrial) -> tuple[Case, Case]:
    """Return two small cases whose sizes tell axes apart, every axis of another size in each.

    A length that equals a constant of the reference by chance does so in one of them only.
    Raises CannotJudgeError where an axis has one size to offer.
    """
    first, *others = trial.cases("small")
    names = [axis.name for axis in trial.problem.var_axes()]
    for other in others:
        if all(other.axes[name] != first.axes[name] for name in names):
            return first, other
    raise CannotJudgeError("some axis has the same size in every small case")


def _seen(trial: JudgeTrial, case: Case) -> ReducedSizes:
    names = [spec.name for spec in trial.problem.outputs]
    return reduced_sizes(trial.reference.call, list(trial.inputs(case).values()), names)


def _reduces(axis: str, case: Case, seen: ReducedSizes) -> bool:
    """Whether a run reduced the length that `axis`, and no other, has in a case."""
    size = case.axes[axis]
    alone = list(case.axes.values()).count(size) == 1
    return alone and size in seen.lengths and size not in seen.squared
