"""Before any kernel runs: the reference itself, on the smallest planned case."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CannotJudgeError, ProblemError, ReferenceError_
from cuassay.judge.domain import OwnCasesAlone
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.oracle.bits import raw_bytes
from cuassay.oracle.lift.run import default_generators
from cuassay.oracle.truth.runs import device_of

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

    Of a foreign problem it may refuse that case, though it took the sizes without data: then sizes
    are tried with data, and without any that it takes the problem's own cases are left.

    Raises CannotJudgeError naming the output and the shapes where they disagree, and where an
    output follows from random numbers that the reference draws.
    """
    while True:
        try:
            truth = _truth(trial)
            break
        except (ReferenceError_, ProblemError):
            # What a native problem declares its reference must take, and a foreign one its own.
            if trial.problem.origin == "native" or trial.planned.domain.own_alone:
                raise
            if not trial.planned.learning.sizes_with_data():
                trial.planned.learning.replan(OwnCasesAlone())
    specs = trial.problem.outputs
    if len(truth.outputs) != len(specs):
        raise CannotJudgeError(
            f"the reference returned {len(truth.outputs)} outputs, the problem declares "
            f"{len(specs)} ({', '.join(spec.name for spec in specs)})"
        )
    if trial.problem.origin == "native":
        # Raise CannotJudgeError where a native reference breaks its own declaration.
        case = smallest_case(trial)
        for spec, output in zip(trial.problem.outputs, truth.outputs, strict=True):
            expected = shape_of(spec.shape, case.axes)
            if tuple(output.value.shape) != expected:
                raise CannotJudgeError(
                    f"the reference's output '{spec.name}' has shape {list(output.value.shape)}, "
                    f"the problem declares [{', '.join(spec.shape)}] = {list(expected)}"
                )
    _check_draws(trial)
    if truth.ill_conditioned:
        trial.planned.seek_deciding_values()
    if any(output.ill_conditioned for output in truth.outputs):
        trial.planned.seek_deciding_scale()
    return truth


def _truth(trial: JudgeTrial) -> Truth:
    case = smallest_case(trial)
    for memory in (nullcontext(), trial.memory.all()):
        with suppress(torch.OutOfMemoryError), memory:
            trial.planned.learn_costs(case)
            return trial.truths.first(case)
    raise trial.memory.too_large(case)


def _check_draws(trial: JudgeTrial) -> None:
    """Raise CannotJudgeError where an output follows the state of torch's generators.

    Whatever a kernel returns is then right for some state, and wrong for others. Numbers that are
    drawn and never used, such as weights that a module's constructor fills, do no harm.
    """
    values = list(trial.inputs(smallest_case(trial)).values())
    generators = default_generators(device_of(values))
    before = [generator.get_state() for generator in generators]

    def outputs(seed: int) -> tuple[torch.Tensor, ...]:
        for generator in generators:
            generator.manual_seed(seed)
        return trial.truths.as_written(values)

    try:
        first = outputs(1)
        after = [generator.get_state() for generator in generators]
        seeded = [generator.manual_seed(1).get_state() for generator in generators]
        if all(map(torch.equal, seeded, after)):
            return
        other, again = outputs(2), outputs(1)
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)
    for spec, a, b, same in zip(trial.problem.outputs, first, other, again, strict=True):
        first_bytes, other_bytes, same_bytes = map(raw_bytes, (a, b, same))
        if torch.equal(first_bytes, same_bytes) and not torch.equal(first_bytes, other_bytes):
            raise CannotJudgeError(
                f"the reference draws random numbers: equal inputs give another '{spec.name}' in "
                "each call, so that no answer of a kernel can be compared; make the numbers (a "
                "mask, an initial state) an input of the problem, or leave them out"
            )
