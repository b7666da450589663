"""NUM005: a NaN in an input shows in the output, as in the reference."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Needs, Split
from cuassay.checks.numeric.common import one_by_one
from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.checks.plain_first import with_scalars
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.axes import shape_of
from cuassay.model.case import Case, FillValue
from cuassay.model.domain import Choice, Opaque, Real
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.problem import ScalarSpec, TensorSpec
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    import torch

_LEAST_BYTES = 2  # narrower floats have no infinity, or no NaN
_PLACES = 3  # tried in an input until one reaches a floating output
_CONDITION = "non-finite: a NaN in an input may be hidden, outputs then look like numbers"


class Num005(Check):
    """A NaN in an input is not hidden

    What it does
        Puts one NaN into one floating input after another, at a random place from which it
        reaches an output of the reference, and calls the kernel; once more with each floating
        scalar at 0, where its declared bounds hold 0.

    Why it matters
        Loss scalers skip a step, and monitors raise an alarm, where they see NaN or infinity. A
        maximum that ignores NaN, a clamp or a `nan_to_num` turns a broken batch into plausible
        numbers, and the weights are trained with them.

    How it decides
        Where the reference shows NaN in a floating output, that output of the kernel must hold
        NaN or another infinity, at whatever place. If it does not the NaN was hidden: a condition
        of use, since the declared inputs are finite. So is a call that does not come to its end.
        A plain call comes first and must be right.

    Can it be wrong?
        Which elements a NaN reaches is the kernel's own business: one that skips what a mask
        hides passes. Places that no output of the reference depends on are not tried.

    Example
        `tl.maximum(x, 0.0)` as ReLU: "a NaN in x is hidden: no element of y shows it".

    Options
        --require non-finite makes the condition binding; --profile sets how many inputs are
        tried: 4, 16 or 64.
    """

    code = "NUM005"
    title = "A NaN in an input is not hidden"
    classes = ("N13",)
    ranks = True
    finding_class = FindingClass.UNSAFE
    severity = Severity.MEDIUM
    needs = Needs(split=Split.ANY_SIDE)
    judges_failures = True  # what a NaN ends is a condition as well

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a scenario an input of which some element reaches a floating output.

        Raises NothingToCheckError where there is none.
        """
        from cuassay.inputs.fills import family

        nothing = True
        for small in trial.cases("small")[:1]:
            usual = with_scalars(trial, small)
            floating = [
                spec
                for spec in tensor_inputs(trial.problem)
                if family(spec) == "real" and not isinstance(spec.domain, Opaque)
            ]
            floating = [spec for spec in floating if spec.dtype.itemsize >= _LEAST_BYTES]
            tried = [(usual, spec) for spec in floating[: trial.effort.non_finite_inputs]]
            # A factor of 0 may leave the product out: 0 times NaN is NaN.
            tried += [(base, spec) for base in _with_zeros(trial, usual) for spec in floating[:1]]
            for base, spec in tried:
                broken = _broken(trial, base, spec)
                if broken is not None:
                    nothing = False
                    more = base.label.removeprefix(usual.label) if base is not usual else ""
                    yield Scenario(
                        label=f"NaN in {spec.name}{more}",
                        cases=(base, broken),
                        steps=one_by_one(range(2)),
                    )
        if nothing:
            raise NothingToCheckError("a NaN in an input reaches no floating output")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report outputs that are finite where the reference's are not."""
        reads = reads_of(scenario, run)
        if not reads:
            raise CannotJudgeError("the plain call did not come to its end")
        if answers.first_wrong(reads[0]):
            return
        broken = scenario.cases[1]
        name = next(n for n, fill in broken.fills.items() if "spoil" in fill.parameters)
        place = Where(axes=dict(broken.axes), group=f"NaN in {name}")
        if len(reads) == 1:
            ended = termination_finding(scenario, run, problem=trial.problem)
            why = f": {ended.message}" if ended is not None else ""
            text = f"a call with a NaN in {name} does not come to its end{why}"
            yield self.finding(text, scenario=scenario, where=place, condition=_CONDITION)
            return
        shown = trial.exact(broken)
        if not len(reads[0].items) == len(reads[1].items) == len(shown):
            return  # what a call returns is API002's subject
        items = zip(reads[0].items, reads[1].items, strict=True)
        for spec, (before, after), right in zip(trial.problem.outputs, items, shown, strict=True):
            narrow = spec.dtype.itemsize < _LEAST_BYTES
            if not _has_nan(right) or narrow or before.buffer < 0 or after.buffer < 0:
                continue
            plain, got = run.tensor(before), run.tensor(after)
            if not _has_nan(got) and int(got.isinf().sum()) <= int(plain.isinf().sum()):
                text = f"a NaN in {name} is hidden: no element of {spec.name} shows it"
                zeros = [n for n, value in broken.scalars.items() if value == 0]
                text += f" with {' and '.join(zeros)} = 0" if zeros else ""
                where = dataclasses.replace(place, output=spec.name)
                yield self.finding(text, scenario=scenario, where=where, condition=_CONDITION)


def _with_zeros(trial: Trial, base: Case) -> list[Case]:
    """Return the base with one floating scalar at 0 each, where its declared bounds hold 0."""
    found = []
    for spec in trial.problem.inputs:
        if not isinstance(spec, ScalarSpec) or not spec.dtype.is_floating:
            continue
        match spec.domain:
            case Real(low=float() | int() as low, high=float() | int() as high):
                has_zero = low <= 0 <= high
            case Choice(values=values):
                has_zero = 0 in values
            case _:
                has_zero = False
        if has_zero and base.scalars.get(spec.name) != 0:
            scalars = {**base.scalars, spec.name: 0.0}
            label = f"{base.label}, {spec.name} = 0"
            found.append(dataclasses.replace(base, label=label, scalars=scalars))
    return found[: trial.effort.zero_scalars]


def _broken(trial: Trial, base: Case, spec: TensorSpec) -> Case | None:
    """Return the base with one NaN in an input that shows in a floating output, if any does."""
    random = Random(trial.seed("NUM005", spec.name))
    count = math.prod(shape_of(spec.shape, base.axes))
    for _ in range(_PLACES if count else 0):
        spoiled: dict[str, FillValue] = {"spoil": (random.randrange(count),), "spoil_with": "nan"}
        fill = with_parameters(own_fill(base, spec), spoiled)
        broken = dataclasses.replace(
            base, label=f"NaN in {spec.name}", fills={**base.fills, spec.name: fill}
        )
        if any(map(_has_nan, trial.exact(broken))):
            return broken
    return None


def _has_nan(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isnan().any())
