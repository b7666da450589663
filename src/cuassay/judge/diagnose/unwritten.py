"""Whether wrong elements are ones that a kernel never writes, asked at the sizes of a failing case.

MEM001 asks at a few sizes. A kernel that leaves out a part of its output beyond some size returns
there what the memory held, and that is no number which the kernel made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cuassay.checks.base import done
from cuassay.checks.memory.unwritten_outputs import holds_ff
from cuassay.checks.numeric.common import single_call
from cuassay.diagnosis import Clue
from cuassay.errors import CuassayError
from cuassay.judge.decide.structure import matched
from cuassay.model.diagnosis import Basis, Cause
from cuassay.model.scenario import Poison, Scenario

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.diagnose.alike import WrongOutputs
    from cuassay.judge.trial import JudgeTrial


def never_written(
    trial: JudgeTrial, run: Callable[[Scenario], Run], answers: Iterable[WrongOutputs]
) -> Clue | None:
    """Return that a kernel never writes elements of a wrong answer; None where it wrote them."""
    return next(filter(None, (_unwritten(trial, run, answer) for answer in answers)), None)


def _unwritten(
    trial: JudgeTrial, run: Callable[[Scenario], Run], answer: WrongOutputs
) -> Clue | None:
    """Return that elements of one answer hold what fresh memory held.

    They held NaN, or bytes 0xFF, as fresh memory did, and are zero, which is wrong, where fresh
    memory is zero.
    """
    specs = trial.problem.outputs
    held = []
    for got, truth in zip(answer.outputs, answer.truth.outputs, strict=True):
        right = truth.value.to(got.device)
        here = holds_ff(got)
        here &= (
            right.double().isfinite()
            if right.dtype.is_floating_point
            else ~holds_ff(right.to(got.dtype))
        )
        held.append(here)
    if not any(bool(here.any()) for here in held):
        return None
    call = single_call(answer.case, label=f"diagnosis: {answer.case.label}", poison=Poison.ZEROS)
    try:
        ran = run(dataclasses.replace(call, fresh=False))
        record = done(ran, 2)
        if record is None:
            return None
        shapes = [tuple(output.value.shape) for output in answer.truth.outputs]
        again = matched(trial.problem, shapes, ran, record.items)
    except CuassayError:
        return None
    for spec, here, second, truth in zip(specs, held, again, answer.truth.outputs, strict=True):
        if isinstance(second, str):
            continue
        right = truth.value.to(second.device)
        same = here & (second.double() == 0.0) & (right.to(second.dtype).double() != 0.0)
        count = int(same.sum())
        if count:
            index = [int(i) for i in same.nonzero()[0]]
            first = f", the first at {index}" if index else ""
            at = ", ".join(f"{name}={size}" for name, size in answer.case.axes.items())
            words = (
                f"{spec.name}: {count:,} of {same.numel():,} elements hold whatever fresh memory "
                f"held{first}, at {at}: not written, or made of memory that was not"
            )
            return Clue(cause=Cause.UNWRITTEN, words=words, basis=Basis.CHECK)
    return None
