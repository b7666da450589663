"""Before any kernel runs: the reference itself, on the smallest planned case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from cuassay.errors import CannotJudgeError, ProblemError, ReferenceError_
from cuassay.model.axes import shape_of
from cuassay.model.case import Case

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial
    from cuassay.oracle.truth.make import Truth


def smallest_case(trial: JudgeTrial) -> Case:
    """Return the planned case with the fewest elements. Raises CannotJudgeError if none is."""
    cases = trial.cases("small") or trial.cases("numeric")
    if not cases:
        raise CannotJudgeError(
            f"no case could be planned for problem '{trial.problem.name}': "
            "check its workloads and axis bounds with `cuassay problem show`"
        )
    return min(cases, key=lambda case: sum(case.axes.values()))


def smoke(trial: JudgeTrial) -> Truth:
    """Run the reference on its smallest case and check what it returns against its outputs.

    Raises CannotJudgeError naming the output and the shapes where they disagree.
    """
    try:
        truth = _truth(trial)
    except (ReferenceError_, ProblemError):
        if trial.problem.origin == "native":
            raise  # its domains are declared: the reference must take what lies within
        trial.use_own_cases_alone()
        truth = _truth(trial)
    specs = trial.problem.outputs
    if len(truth.outputs) != len(specs):
        raise CannotJudgeError(
            f"the reference returned {len(truth.outputs)} outputs, the problem declares "
            f"{len(specs)} ({', '.join(spec.name for spec in specs)})"
        )
    if trial.problem.origin == "native":
        _check_shapes(trial, truth)
    return truth


def _truth(trial: JudgeTrial) -> Truth:
    case = smallest_case(trial)
    try:
        return trial.truth(case)
    except torch.OutOfMemoryError:
        raise trial.too_large(case) from None


def _check_shapes(trial: JudgeTrial, truth: Truth) -> None:
    """Raise CannotJudgeError where a native reference breaks its own declaration."""
    case = smallest_case(trial)
    for spec, output in zip(trial.problem.outputs, truth.outputs, strict=True):
        expected = shape_of(spec.shape, case.axes)
        if tuple(output.value.shape) != expected:
            raise CannotJudgeError(
                f"the reference's output '{spec.name}' has shape {list(output.value.shape)}, "
                f"the problem declares [{', '.join(spec.shape)}] = {list(expected)}"
            )
