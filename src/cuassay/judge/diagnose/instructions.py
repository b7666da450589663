"""Which small edit of a kernel's PTX makes its calls right, and the source line of it.

For kernels of Triton, Numba and CUDA C++, whose sources need a compiler each time: the launches of
a failing call are recorded once and executed with one edit after another on the PTX machine
(`build.machine.edited`). An edit counts if the failing calls are right with it, on values by other
draws too, and the right ones stay right.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import torch

from cuassay.checks.base import done
from cuassay.checks.machine.faults import recorded_call, recording_of
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements
from cuassay.judge.decide.structure import matched
from cuassay.judge.diagnose.blamed_lines import source_line
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.machine import EditedCall, EditedCalls, InstructionChange, InstructionEdit
from cuassay.model.policy import policy_of
from cuassay.model.scenario import Scenario
from cuassay.oracle.compare.outputs import compare

if TYPE_CHECKING:
    from cuassay.checks.base import Machine, Run
    from cuassay.judge.trial import JudgeTrial

_FOR_ALL = 0.8  # of the time, for all edits of one call; the rest for the few that repair it
_TELLING = 64  # elements of a case below which many edits look right
_CHECKED, _CHECK_S = 6, 2.0  # edits that are tried on further calls, and seconds of each of these


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRepair:
    """An edit with which a kernel was right on the calls tried, and the line that it comes from."""

    edit: InstructionEdit
    line: SourceLine

    def cause(self, before: Cause) -> Cause:
        """Return the cause of wrong numbers that it shows; `before` where it shows none."""
        if before not in (Cause.WRONG_VALUES, Cause.SPECIAL_CASE):
            return before
        match self.edit.change:
            case InstructionChange.NUMBER | InstructionChange.ARGUMENT:
                return Cause.WRONG_CONSTANT
            case InstructionChange.SIZE:
                return Cause.SIZES
            case (
                InstructionChange.INDEX
                | InstructionChange.PARAMETER
                | InstructionChange.REGISTER
                | InstructionChange.SIGN
            ):
                return Cause.INPUT_MISREAD
            case InstructionChange.OPERATOR:
                return Cause.OTHER_FORM
            case (
                InstructionChange.BOUND
                | InstructionChange.BRANCH
                | InstructionChange.PART
                | InstructionChange.ZERO
            ):
                return before
            case other:
                assert_never(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call: its recording, and what it returned."""

    case: Case
    recording: torch.Tensor
    outputs: tuple[torch.Tensor, ...]


def find_instruction_repair(
    trial: JudgeTrial,
    run: Callable[[Scenario], Run],
    candidate: Candidate,
    *,
    wrong: Sequence[Case],
    right: Sequence[Case],
    near: SourceLine | None,
    until: float,
) -> InstructionRepair | None:
    """Return the first edit that repairs the calls on `wrong` and leaves those on `right` right.

    Lines closest to `near` come first; no search begins after `until` (of time.monotonic), and its
    work fits into the time before. None where no edit does, where the machine cannot execute the
    candidate's launches, or where its outputs are not what a kernel left.
    """
    machine = trial.machine
    if machine is None or machine.absent or not wrong:
        return None
    size = {id(case): elements(trial.problem, case.axes) for case in wrong}
    order = sorted(wrong, key=lambda case: (size[id(case)] < _TELLING, size[id(case)]))
    try:
        first = record_call(trial, run, order[0])
        if first is None:
            return None
        limit_s = _FOR_ALL * (until - time.monotonic())
        calls = edited_calls(trial, machine, first, near=near, limit_s=limit_s).calls
        repairing = [call.edit for call in calls if is_right(trial, first, call)]
        # A parameter is read at the head of a kernel: other edits say where it goes wrong.
        kept = sorted(repairing, key=lambda edit: edit.change is InstructionChange.PARAMETER)
        kept = kept[:_CHECKED]
        for case in (*order[1:], *right):
            if not kept:
                return None
            call = record_call(trial, run, case)
            if call is None:
                return None
            # `kept` are those of some edits with which one more call is right. A right call may
            # keep its bytes, or run code that does not have what is edited.
            was_wrong = case in wrong
            keys = [edit.key for edit in kept]
            found = {
                one.edit.key: one
                for one in edited_calls(
                    trial, machine, call, near=None, limit_s=_CHECK_S, keys=keys
                ).calls
            }
            kept = [
                edit
                for edit in kept
                for one in [found.get(edit.key)]
                if (not was_wrong if one is None else is_right(trial, call, one))
            ]
    except (CuassayError, RuntimeError, ValueError):
        return None
    for edit in kept:
        what = f"a copy of its PTX with {edit.words} was right on the calls tried"
        line = source_line(candidate, edit.file, edit.line, what=what)
        if line is not None:
            return InstructionRepair(edit=edit, line=line)
    return None


def record_call(
    trial: JudgeTrial, run: Callable[[Scenario], Run], case: Case
) -> RecordedCall | None:
    """Return a call with its launches; None where it did not end, or cannot be compared."""
    truth = trial.truth(case)
    scenario = recorded_call(case, on_gpu=trial.device.on_gpu)
    ran = run(scenario)
    recording, record = recording_of(scenario, ran), done(ran, len(scenario.steps) - 1)
    if recording is None or record is None or truth.ill_conditioned:
        return None
    shapes = [tuple(output.value.shape) for output in truth.outputs]
    outputs = matched(trial.problem, shapes, ran, record.items)
    tensors = tuple(one for one in outputs if not isinstance(one, str))
    if len(tensors) != len(truth.outputs):
        return None
    return RecordedCall(case=case, recording=recording, outputs=tensors)


def edited_calls(
    trial: JudgeTrial,
    machine: Machine,
    call: RecordedCall,
    *,
    near: SourceLine | None,
    limit_s: float,
    keys: Sequence[str] | None = None,
    leaving_out: bool = False,
) -> EditedCalls:
    """Return a call with edits of its kernels' instructions, those closest to `near` first."""
    scalars = {n: v for n, v in call.case.scalars.items() if isinstance(v, float)}
    sizes = {axis.name: call.case.axes[axis.name] for axis in trial.problem.var_axes()}
    asked_for: Mapping[str, object] = {
        "limit_s": limit_s,
        "near": near.line if near is not None else 0,
        "sizes": sizes,
        "scalars": scalars,
        "keys": keys,
        "leaving_out": leaving_out,
    }
    return machine.edited(call.recording, asked_for)


def is_right(trial: JudgeTrial, call: RecordedCall, edited: EditedCall) -> bool:
    """Whether the outputs of an edited call are right by one of the problem's precisions."""
    outputs = []
    for coded, like in zip(edited.outputs, call.outputs, strict=True):
        data = torch.frombuffer(bytearray(base64.b64decode(coded)), dtype=torch.uint8)
        outputs.append(data.view(like.dtype).reshape(like.shape).to(like.device))
    for family in policy_of(trial.problem).families:
        truth = trial.truth(call.case, family)
        if all(compare(*pair).passed for pair in zip(outputs, truth.outputs, strict=True)):
            return True
    return False
