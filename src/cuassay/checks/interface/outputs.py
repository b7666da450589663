"""API002: the output contract, and outputs that stay what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import Read, is_right_for, placed, reads_of, reseeded, same_bits
from cuassay.model.case import Case
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Call, ReadResult, Refill, Scenario, Step
from cuassay.model.trace import ResultItem
from cuassay.model.verdict import Profile

_STRUCTURE = "contract: count, shape, dtype and device"
_TYPE = "contract: exact type"
_ALIASING = "contract: aliasing with inputs"
_LAYOUT = "contract: memory layout"
_HELD_CALLS = "contract: held across other calls"
_HELD_REFILL = "contract: held across a refill of the inputs"
_PLAIN = ("torch.Tensor", "Tensor")
_PARAMETER = "torch.nn.parameter.Parameter"
_OTHER_CALLS = {Profile.QUICK: 3, Profile.STANDARD: 3, Profile.DEEP: 9}


class Api002(Check):
    """Output contract

    What it does
        Looks at what a call returns: number of outputs, shape, dtype, device, exact type, and
        whether an output shares memory with an input. Then it holds the outputs while the
        kernel is called again with other values, and while the caller refills the inputs in
        place, and compares their bytes before and after.

    Why it matters
        A kernel that keeps a static output buffer returns right answers one at a time: each
        call overwrites the tensor that the caller still holds. 19 of 310 kernels that a
        benchmark had accepted did so. A tensor subclass can compute its values only when they
        are compared.

    How it decides
        Another count, shape, dtype, device or type than declared is wrong. So is an output
        that shares an input's memory, and a held output whose bytes change, unless the
        reference does the same on the same scenario. A torch.nn.Parameter and a layout that
        is not row-major are advice: values are right, `view` may fail.

    Can it be wrong?
        Bytes are compared, no rounding is involved. Ring buffers of more than four outputs
        (ten at `deep`) are not noticed.

    Example
        A kernel that allocates `out` once per shape: "y held across other calls now holds
        the answer to call 4".

    Options
        --profile deep holds outputs across nine other calls.
    """

    code = "API002"
    title = "Output contract"
    classes = ("A5", "H4", "S1", "S7")
    group = "host"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario an aspect: what the reference does too is judged one by one."""
        small = trial.cases("small")[:1]
        for case in [placed(case, axes) for axes in settings(trial) for case in small]:
            for aspect in (_STRUCTURE, _TYPE, _ALIASING, _LAYOUT):
                yield single_call(case, label=aspect)
            yield _held_calls(trial, case)
            yield _held_refill(trial, case)

    def judge(self, trial: Trial, scenario: Scenario, run: Run) -> Iterable[Finding]:
        """Judge the aspect that the scenario's label names."""
        if scenario.label in (_HELD_CALLS, _HELD_REFILL):
            yield from self._held(trial, scenario, run)
            return
        record = done(run, 2)
        if record is None:
            return
        case = scenario.cases[0]
        if scenario.label == _STRUCTURE:
            messages = _structure(trial, case, run, record.items)
            yield from (self._report(scenario, text, severity=Severity.HIGH) for text in messages)
            return
        for item in record.items:
            if item.kind == "tensor":
                yield from self._one(scenario, item)

    def _one(self, scenario: Scenario, item: ResultItem) -> Iterable[Finding]:
        name = item.name or "an output"
        advice: dict[str, Any] = {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
        if scenario.label == _TYPE and item.type_name not in _PLAIN:
            text = f"{name} is a {item.type_name}, expected exactly torch.Tensor"
            extra = advice if item.type_name == _PARAMETER else {}
            yield self._report(scenario, text, output=item.name, **extra)
        if scenario.label == _ALIASING and item.aliases:
            shared = ", ".join(f"'{alias}'" for alias in item.aliases)
            text = f"{name} shares the memory of input {shared}: writing to one changes the other"
            yield self._report(scenario, text, output=item.name)
        if scenario.label == _LAYOUT and not _row_major(item):
            text = f"{name} has strides {list(item.strides)} for shape {list(item.shape)}"
            text += ", not the row-major ones: `view` may fail on it"
            yield self._report(scenario, text, output=item.name, **advice)

    def _held(self, trial: Trial, scenario: Scenario, run: Run) -> Iterable[Finding]:
        reads = reads_of(scenario, run)
        if len(reads) < 2:
            return
        first, last = reads[0], reads[-1]
        if same_bits(run, first.items, last.items):
            return
        during = scenario.label.removeprefix("contract: ")
        changed = [
            after.name or f"output {number + 1}"
            for number, (before, after) in enumerate(zip(first.items, last.items, strict=False))
            if not same_bits(run, (before,), (after,))
        ]
        text = f"{', '.join(changed) or 'what was returned'} changes while {during}"
        number = _holds_answer_of(trial, scenario, run, last=last)
        if number and scenario.label == _HELD_CALLS:
            text += f": it now holds the answer to call {number}, a buffer that is used again"
        elif scenario.label == _HELD_REFILL:
            text += ": it is a view of an input, or computed only when it is read"
        yield self._report(scenario, text, output=changed[0] if changed else "")

    def _report(self, scenario: Scenario, text: str, *, output: str = "", **extra: Any) -> Finding:
        place = Where(output=output, axes=dict(scenario.cases[0].axes))
        return self.finding(text, scenario=scenario, where=place, **extra)


def _structure(trial: Trial, case: Case, run: Run, items: tuple[ResultItem, ...]) -> list[str]:
    compared = trial.compare(case, run, items)
    messages = [comparison.mismatch for comparison in compared if comparison.mismatch]
    device = trial.device.split(":", 1)[0]
    messages += [
        f"output '{item.name}' is on {item.device}, expected {device}"
        for item in items
        # Scalars on the host mix freely with tensors on a device.
        if item.kind == "tensor" and item.shape and item.device.split(":", 1)[0] != device
    ]
    return list(dict.fromkeys(messages))


def _row_major(item: ResultItem) -> bool:
    if prod(item.shape) <= 1 or len(item.strides) != len(item.shape):
        return True
    expected = 1
    for size, stride in zip(reversed(item.shape), reversed(item.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _holds_answer_of(trial: Trial, scenario: Scenario, run: Run, *, last: Read) -> int:
    """Return the number of the later call whose answer the held result now is, or 0."""
    for position in range(len(scenario.cases) - 1, 0, -1):
        if is_right_for(trial, scenario.cases[position], read=last, run=run):
            return position + 1
    return 0


def _others(trial: Trial, case: Case, count: int) -> list[Case]:
    return [
        reseeded(case, label=f"other values {k + 1}", seed=trial.seed("API002", "other", k))
        for k in range(count)
    ]


def _held_calls(trial: Trial, case: Case) -> Scenario:
    others = _others(trial, case, _OTHER_CALLS[trial.profile])
    steps: list[Step] = [Allocate(slot="s0", case=0), Call(slot="s0", result="held")]
    steps.append(ReadResult(result="held"))
    for number in range(1, len(others) + 1):
        # Later results are held as well: memory that was given back may be used again.
        steps.append(Allocate(slot=f"s{number}", case=number))
        steps.append(Call(slot=f"s{number}", result=f"r{number}"))
    steps.append(ReadResult(result="held"))
    return Scenario(label=_HELD_CALLS, cases=(case, *others), steps=tuple(steps))


def _held_refill(trial: Trial, case: Case) -> Scenario:
    steps = (
        Allocate(slot="a", case=0),
        Call(slot="a", result="held"),
        ReadResult(result="held"),
        Refill(slot="a", case=1),
        ReadResult(result="held"),
    )
    return Scenario(label=_HELD_REFILL, cases=(case, *_others(trial, case, 1)), steps=steps)
