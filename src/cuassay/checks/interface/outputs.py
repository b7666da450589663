"""API002: the output contract."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import placed, reads_of
from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Cause
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.problem import TensorSpec
from cuassay.model.reports import Returned
from cuassay.model.scenario import Call, Scenario
from cuassay.model.trace import ResultItem, done_steps

# Their own evaluations take outputs in any of the plain containers.
_TAKES_ANY = ("sol-execbench", "flashinfer-trace")
_CONTAINERS = ("tuple", "list", "dict")
_SPARE_BYTES, _SPARE_TIMES = 1 << 20, 4  # of memory behind outputs, beyond their own bytes
_PLAIN = ("torch.Tensor", "Tensor")
_BYTES = {dtype.value: dtype.itemsize for dtype in DType}
_PARAMETER = "torch.nn.parameter.Parameter"


class Aspect(enum.StrEnum):
    """What one scenario is judged for; the reference is judged for the same alone."""

    STRUCTURE = "contract: count, shape, dtype and device"
    TYPE = "contract: exact type"
    ALIASING = "contract: aliasing with inputs"
    SHARING = "contract: outputs in each other's memory"
    LAYOUT = "contract: memory layout"
    STORAGE = "contract: memory behind the outputs"


class Api002(Check):
    """Output contract

    What it does
        Looks at what a call returns: in a tuple, list, dict or bare, number of outputs, shape,
        dtype, device, exact type, conjugate and negative bits, whether an output shares memory
        with an input or with another output, and how much memory it keeps alive. Whether an input
        is passed through is tried where another one is all zeros, or all ones.

    Why it matters
        Code around the kernel relies on all of these. An output that lies in an input changes
        when the caller reuses the input, and one that lies in another output changes when the
        caller works in place on that one. A tensor subclass can compute its values only when
        they are compared.

    How it decides
        Another count, shape, dtype, device or type than declared is wrong. So is a container that
        the reference does not return, `(y,)` for `y` or a dict for a tuple; a list for a tuple, and
        a plain container where the problem's own evaluation takes any, are advice. Wrong is an
        output with a conjugate or negative bit: its memory holds other values. So is one
        that shares an input's memory, and so are two outputs with a byte in common, unless the
        reference's are so too: slices of one buffer have none. A torch.nn.Parameter
        and a layout that is not row-major are advice: values are right, `view` may fail. Outputs
        that keep alive more than four times their own bytes and 1 MiB are the condition
        `resources`.
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
    ranks = True
    classes = ("A5", "H4")
    needs = Needs(when=When.DECISIVE, group=Group.HOST)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario an aspect: what the reference does too is judged one by one."""
        small = trial.cases("small")[:1]
        for case in [placed(case, axes) for axes in settings(trial) for case in small]:
            for aspect in Aspect:
                yield single_call(case, label=aspect)
        # What adds nothing, or multiplies by one, may be passed through.
        for case in small:
            for name, kind in product(_real(trial, case), ("zeros", "ones")):
                fills = {**case.fills, name: Fill(kind=kind)}
                passed = dataclasses.replace(case, label=f"{name} all {kind}", fills=fills)
                if trial.settled(passed) is not None:
                    yield single_call(passed, label=Aspect.ALIASING)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the aspect that the scenario is about."""
        aspect = Aspect(scenario.label)
        for read in reads_of(scenario, run):
            if aspect is Aspect.STORAGE:
                yield from self._kept_alive(scenario, read.items)
                continue
            if aspect is Aspect.STRUCTURE:
                yield from self._container(trial, scenario, run)
                compared = answers.compare(read.case, read.items)
                messages = [comparison.mismatch for comparison in compared if comparison.mismatch]
                device = trial.device.kind
                messages += [
                    f"output '{item.name}' is on {item.device}, expected {device}"
                    for item in read.items
                    # Scalars on the host mix freely with tensors on a device.
                    if item.kind == "tensor"
                    and item.shape
                    and item.device.partition(":")[0] != device
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

    def _container(self, trial: Trial, scenario: Scenario, run: Run) -> Iterator[Finding]:
        """Yield the container where the reference returns its outputs in another one."""
        for _, record in done_steps(scenario, run.result, Call):
            if not isinstance(record.report, Returned):
                continue
            ours, theirs = record.report.container, trial.container(scenario.cases[0])
            if ours == theirs:
                continue
            said, expected = _returned_in(ours), _returned_in(theirs)
            text = f"the call returns {said}, the reference returns {expected}"
            advice: dict[str, Any] = {
                "finding_class": FindingClass.ADVICE,
                "severity": Severity.LOW,
            }
            unpacked_alike = {ours, theirs} == {"tuple", "list"}
            taken = trial.problem.origin in _TAKES_ANY and (not ours or ours in _CONTAINERS)
            extra = advice if unpacked_alike or taken else {"severity": Severity.HIGH}
            yield self._report(scenario, text, cause=Cause.WRONG_STRUCTURE, **extra)

    def _kept_alive(self, scenario: Scenario, items: Sequence[ResultItem]) -> Iterator[Finding]:
        """Yield the outputs whose storage is far larger than all outputs together."""
        tensors = [item for item in items if item.kind == "tensor" and item.dtype in _BYTES]
        own = sum(_BYTES[item.dtype] * prod(item.shape) for item in tensors)
        for item in tensors:
            if item.storage_bytes > _SPARE_TIMES * own + _SPARE_BYTES and not item.aliases:
                name = item.name or "an output"
                what = (
                    f"{name} keeps {item.storage_bytes:,} bytes alive for {own:,} bytes of values"
                )
                yield self._report(
                    scenario,
                    what,
                    output=item.name,
                    cause=Cause.PROCESS_STATE,
                    finding_class=FindingClass.UNSAFE,
                    severity=Severity.HIGH,
                    condition=f"resources: {what}",
                )
                return

    def _one(self, scenario: Scenario, aspect: Aspect, item: ResultItem) -> Iterable[Finding]:
        name = item.name or "an output"
        advice: dict[str, Any] = {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
        if aspect is Aspect.TYPE and item.type_name not in _PLAIN:
            text = f"{name} is a {item.type_name}, expected exactly torch.Tensor"
            extra = advice if item.type_name == _PARAMETER else {}
            extra = {**extra, "cause": Cause.WRONG_STRUCTURE}
            yield self._report(scenario, text, output=item.name, **extra)
        if aspect is Aspect.TYPE and item.flags:
            bits = " and ".join(item.flags)
            text = f"{name} has its {bits} set: what reads its memory finds other values"
            text += "; return resolve_conj() and resolve_neg() of it"
            yield self._report(scenario, text, output=item.name, cause=Cause.WRONG_STRUCTURE)
        if aspect is Aspect.ALIASING and item.aliases:
            shared = ", ".join(f"'{alias}'" for alias in item.aliases)
            text = f"{name} shares the memory of input {shared}: writing to one changes the other"
            yield self._report(scenario, text, output=item.name, cause=Cause.OUTPUT_SHARES_INPUT)
        if aspect is Aspect.LAYOUT and not _row_major(item):
            text = f"{name} has strides {list(item.strides)} for shape {list(item.shape)}"
            text += ", not the row-major ones: `view` may fail on it"
            yield self._report(scenario, text, output=item.name, cause=Cause.LAYOUT, **advice)

    def _report(self, scenario: Scenario, text: str, *, output: str = "", **extra: Any) -> Finding:
        place = Where(output=output, axes=dict(scenario.cases[0].axes))
        return self.finding(text, scenario=scenario, where=place, **extra)


def _real(trial: Trial, case: Case) -> list[str]:
    """Return the inputs that may hold any number."""
    return [
        spec.name
        for spec in trial.problem.inputs
        if isinstance(spec, TensorSpec)
        and spec.name in case.fills
        and isinstance(spec.domain, Real)
        and spec.domain.low is spec.domain.high is None
        and spec.dtype.is_floating
        and spec.dtype.itemsize > 1
    ]


def _returned_in(container: str) -> str:
    return f"a {container}" if container else "the bare output"


def _row_major(item: ResultItem) -> bool:
    if prod(item.shape) <= 1 or len(item.strides) != len(item.shape):
        return True
    expected = 1
    for size, stride in zip(reversed(item.shape), reversed(item.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
