"""Reduction axes that a problem does not state, found by running its reference twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.model.case import Case
from cuassay.model.problem import Problem
from cuassay.oracle.reduced_sizes import ReducedSizes, reduced_sizes

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial

_AGREE = 2  # sizes at which an axis must be seen reduced: one may equal a constant by chance


def reduced_axes(trial: JudgeTrial) -> tuple[str, ...]:
    """Return the var axes that the reference reduces, in the problem's order.

    Not those that make an intermediate result grow with their square, nor any of a reference
    that loops over elements or tiles: at a thousandfold length it would run for minutes. Empty
    where the problem states its reduction axes, or where the reference cannot be followed.
    """
    if trial.problem.reduction_axes:
        return ()
    votes: Counter[str] = Counter()
    operations: set[int] = set()
    try:
        for case in _of_different_sizes(trial):
            seen = _seen(trial, case)
            operations.add(seen.operations)
            votes.update(_named(trial.problem, case, seen))
    except torch.OutOfMemoryError:
        raise
    except (CuassayError, RuntimeError):  # whatever is wrong with it is told elsewhere
        return ()
    if len(operations) > 1:
        return ()
    names = (axis.name for axis in trial.problem.var_axes())
    return tuple(name for name in names if votes[name] == _AGREE)


def _seen(trial: JudgeTrial, case: Case) -> ReducedSizes:
    names = [spec.name for spec in trial.problem.outputs]
    return reduced_sizes(trial.reference.call, list(trial.inputs(case).values()), names)


def _named(problem: Problem, case: Case, seen: ReducedSizes) -> Iterator[str]:
    """Yield the var axes that have one of the lengths alone."""
    taken = Counter(case.axes.values())
    for axis in problem.var_axes():
        size = case.axes[axis.name]
        if size in seen.lengths and size not in seen.squared and taken[size] == 1:
            yield axis.name


def _of_different_sizes(trial: JudgeTrial) -> Iterable[Case]:
    """Return small cases that tell axes apart by their sizes, no size the same in two of them.

    Raises CannotJudgeError where there are too few.
    """
    chosen: list[Case] = []
    names = [axis.name for axis in trial.problem.var_axes()]
    planned = (*trial.cases("small"), *trial.cases("shapes"), *trial.cases("numeric"))
    for case in sorted(planned, key=lambda case: sum(case.axes.values())):
        sizes = [case.axes[name] for name in names]
        apart = min(sizes, default=0) > 1 and len(set(sizes)) == len(sizes)
        before = {size for one in chosen for size in one.axes.values()}
        if case.in_domain and apart and not before & set(sizes):
            chosen.append(case)
        if len(chosen) == _AGREE:
            return chosen
    raise CannotJudgeError("no two cases tell the axes apart")
