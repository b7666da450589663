"""API002: the output contract."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import placed, reads_of
from cuassay.model.diagnosis import Cause
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ResultItem

_PLAIN = ("torch.Tensor", "Tensor")
_KEPT_TIMES, _KEPT_MORE = 8, 1 << 20  # times an output's bytes, and bytes beyond them
_PARAMETER = "torch.nn.parameter.Parameter"


class Aspect(enum.StrEnum):
    """What one scenario is judged for; the reference is judged for the same alone."""

    STRUCTURE = "contract: count, shape, dtype and device"
    TYPE = "contract: exact type"
    ALIASING = "contract: aliasing with inputs"
    SHARING = "contract: outputs in each other's memory"
    LAYOUT = "contract: memory layout"
    STORAGE = "contract: memory kept alive"


class Api002(Check):
    """Output contract

    What it does
        Looks at what a call returns: number of outputs, shape, dtype, device, exact type, how
        much memory it keeps alive, and whether an output shares memory with an input or with
        another output.

    Why it matters
        Code around the kernel relies on all of these. An output that lies in an input changes
        when the caller reuses the input, and one that lies in another output changes when the
        caller works in place on that one. A tensor subclass can compute its values only when
        they are compared.

    How it decides
        Another count, shape, dtype, device or type than declared is wrong. So is an output
        that shares an input's memory, and so are two outputs with a byte in common, unless the
        reference's are so too: slices of one buffer have none. A torch.nn.Parameter
        and a layout that is not row-major are advice: values are right, `view` may fail.
        An output that keeps alive more than eight times its own bytes, and 1 MiB more than
        these, is the condition `storage`.
        Whether an output keeps its values while it is held is STATE001's question.

    Can it be wrong?
        No numbers are compared. Two outputs that begin at different addresses are told apart up to
        256 MiB of memory.

    Example
        A kernel that works in place: "y shares the memory of input 'x': writing to one
        changes the other".

    Options
        None.
    """

    code = "API002"
    title = "Output contract"
    classes = ("A5", "H4")
    needs = Needs(group=Group.HOST)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario an aspect: what the reference does too is judged one by one."""
        small = trial.cases("small")[:1]
        for case in [placed(case, axes) for axes in settings(trial) for case in small]:
            for aspect in Aspect:
                yield single_call(case, label=aspect)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the aspect that the scenario is about."""
        aspect = Aspect(scenario.label)
        for read in reads_of(scenario, run):
            if aspect is Aspect.STRUCTURE:
                compared = answers.compare(read.case, read.items)
                messages = [comparison.mismatch for comparison in compared if comparison.mismatch]
                device = trial.device.split(":", 1)[0]
                messages += [
                    f"output '{item.name}' is on {item.device}, expected {device}"
                    for item in read.items
                    # Scalars on the host mix freely with tensors on a device.
                    if item.kind == "tensor"
                    and item.shape
                    and item.device.split(":", 1)[0] != device
                ]
                for text in list(dict.fromkeys(messages)):
                    wrong = {"severity": Severity.HIGH, "cause": Cause.WRONG_STRUCTURE}
                    yield self._report(scenario, text, **wrong)
                continue
            names = [item.name or f"output {n}" for n, item in enumerate(read.items)]
            for number, item in enumerate(read.items):
                if item.kind != "tensor":
                    continue
                yield from self._one(scenario, aspect, item)
                later = [names[other] for other in item.overlaps if other > number]
                if aspect is Aspect.SHARING and later:
                    shared = ", ".join(f"'{name}'" for name in later)
                    text = f"{names[number]} shares memory with {shared}: "
                    text += "writing to one changes the other"
                    cause = Cause.OUTPUT_SHARES_OUTPUT
                    yield self._report(scenario, text, output=item.name, cause=cause)

    def _one(self, scenario: Scenario, aspect: Aspect, item: ResultItem) -> Iterable[Finding]:
        name = item.name or "an output"
        advice: dict[str, Any] = {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
        if aspect is Aspect.TYPE and item.type_name not in _PLAIN:
            text = f"{name} is a {item.type_name}, expected exactly torch.Tensor"
            extra = advice if item.type_name == _PARAMETER else {}
            extra = {**extra, "cause": Cause.WRONG_STRUCTURE}
            yield self._report(scenario, text, output=item.name, **extra)
        if aspect is Aspect.ALIASING and item.aliases:
            shared = ", ".join(f"'{alias}'" for alias in item.aliases)
            text = f"{name} shares the memory of input {shared}: writing to one changes the other"
            yield self._report(scenario, text, output=item.name, cause=Cause.OUTPUT_SHARES_INPUT)
        if aspect is Aspect.LAYOUT and not _row_major(item):
            text = f"{name} has strides {list(item.strides)} for shape {list(item.shape)}"
            text += ", not the row-major ones: `view` may fail on it"
            yield self._report(scenario, text, output=item.name, cause=Cause.LAYOUT, **advice)

        size = prod(item.shape) * DType(item.dtype).itemsize
        if aspect is Aspect.STORAGE and not item.aliases and _keeps_much(item.storage_bytes, size):
            kept = f"{item.storage_bytes / 2**20:,.1f} MiB"
            text = f"{name} has {size:,} bytes and keeps {kept} of memory alive"
            yield self._report(
                scenario,
                text,
                output=item.name,
                finding_class=FindingClass.UNSAFE,
                severity=Severity.MEDIUM,
                condition=f"storage: {text}",
            )

    def _report(self, scenario: Scenario, text: str, *, output: str = "", **extra: Any) -> Finding:
        place = Where(output=output, axes=dict(scenario.cases[0].axes))
        return self.finding(text, scenario=scenario, where=place, **extra)


def _keeps_much(kept: int, size: int) -> bool:
    return kept > _KEPT_TIMES * size and kept > size + _KEPT_MORE


def _row_major(item: ResultItem) -> bool:
    if prod(item.shape) <= 1 or len(item.strides) != len(item.shape):
        return True
    expected = 1
    for size, stride in zip(reversed(item.shape), reversed(item.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
