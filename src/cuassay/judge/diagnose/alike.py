"""Which broken version of the reference gives the candidate's wrong numbers.

The mutants of the power test say what wrong kernels look like. One whose outputs lie within a
small part of the candidate's own error on every failing case names the fault. Of roundings in
another order no error agrees element by element: other experiments are there for them.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CuassayError
from cuassay.judge.decide.structure import matched
from cuassay.judge.diagnose.off_by import Relation, relations
from cuassay.judge.measure.kills import all_mutants
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.turns import in_turns
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.mutants.detect import CANNOT_RUN, Mutant, spread
from cuassay.oracle.truth.make import Truth

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.problem import TensorSpec
    from cuassay.model.trace import ResultItem

# Share of the candidate's squared error that a mutant may leave unexplained. Unrelated mutants
# leave 0.5 and more; the same fault in another order of summation leaves less than 0.01.
_UNEXPLAINED = 0.02
_ROUGHLY = 0.25
_SYSTEMATIC = 0.5  # share of one sign in an error that roundings do not have
_FAR_OFF = 32.0  # times the error that a trusted kernel makes, of an element that is wrong
_FEW = 16  # elements of which signs say nothing
_MOST_SQUARE = 1e12  # of an error in units of the achievable one, by which it counts

CAUSES = {
    "bypass": Cause.TERM_OMITTED,
    "operand": Cause.TERM_OMITTED,
    "constant": Cause.WRONG_CONSTANT,
    "epsilon": Cause.WRONG_CONSTANT,
    "form": Cause.OTHER_FORM,
    "mask": Cause.TERM_OMITTED,
    "shift": Cause.OUT_OF_RANGE,
    "low": Cause.LOW_ACCUMULATION,
    "cast": Cause.LOW_PRECISION,
    "divisor": Cause.WRONG_REDUCTION,
    "dropped": Cause.WRONG_REDUCTION,
    "tile": Cause.TAIL,
    "axis": Cause.WRONG_REDUCTION,
    "neighbour": Cause.INPUT_MISREAD,
    "input ignored": Cause.INPUT_IGNORED,
    "input scaled": Cause.INPUT_MISREAD,
    "input frozen": Cause.INPUT_IGNORED,
    "input rows": Cause.INPUT_MISREAD,
    "inputs exchanged": Cause.INPUT_MISREAD,
    "trivial answer": Cause.TRIVIAL_ANSWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Apart:
    """An output of a candidate beside truth, in float64 on the CPU.

    `finite` are the elements that are finite in both, `unit` is the achievable error of these.
    `born` counts elements that are finite in one alone; `to_truth` and `size` are sums of squares
    in units, of the error and of the candidate's own numbers.
    """

    ours: torch.Tensor
    finite: torch.Tensor
    unit: torch.Tensor | float
    born: float
    to_truth: float
    size: float


@dataclass(frozen=True, kw_only=True)  # without slots: `apart` is worked out once
class WrongOutputs:
    """What the candidate gave on a case, one tensor an output; `right` by the problem's policy."""

    case: Case
    outputs: tuple[torch.Tensor, ...]
    truth: Truth
    right: bool = False

    @functools.cached_property
    def apart(self) -> tuple[_Apart | None, ...]:
        """Each output beside truth, None where it has no element: every mutant is held to it."""
        found: list[_Apart | None] = []
        for got, want in zip(self.outputs, self.truth.outputs, strict=True):
            if not got.numel():
                found.append(None)
                continue
            ours, right = _doubles(got, want.value)
            finite = ours.isfinite() & right.isfinite()
            unit: torch.Tensor | float = 1.0
            if want.scale is not None:
                scale = want.scale.double().cpu().expand_as(right)
                unit = scale[finite].clamp_min(torch.finfo(torch.float32).tiny)
            error = (ours - right)[finite] / unit
            found.append(
                _Apart(
                    ours=ours,
                    finite=finite,
                    unit=unit,
                    born=float((ours.isfinite() != right.isfinite()).sum()),
                    to_truth=float(error.square().clamp_max(_MOST_SQUARE).sum()),
                    size=float((ours[finite] / unit).square().clamp_max(_MOST_SQUARE).sum()),
                )
            )
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """A mutant that explains the candidate's errors element by element."""

    mutant: Mutant

    @property
    def cause(self) -> Cause:
        """What a kernel that is broken so is called."""
        return CAUSES[self.mutant.kind]


def same_fault(
    trial: JudgeTrial,
    answers: Sequence[WrongOutputs],
    *,
    right: Sequence[WrongOutputs] = (),
    limit: int,
    until: float,
) -> Alike | None:
    """Return the mutant that is wrong as the candidate is, and right as it is, or None.

    `answers` are wrong, `right` are right ones. At most `limit` mutants are run, and none after
    `until` (of time.monotonic).
    """
    if not answers:
        return None
    try:
        cases = [answer.case for answer in answers]
        mutants = spread(all_mutants(trial, cases, suspects=True), limit)
    except CuassayError:
        return None
    best: tuple[float, Mutant] | None = None
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        if mutant.kind in CAUSES:
            by_kind.setdefault(mutant.kind, []).append(mutant)
    for mutant in in_turns(by_kind.values()):
        if time.monotonic() > until:
            break
        left = _left(trial, mutant, answers)
        if left is None:
            continue
        if (best is None or left < best[0] / 2) and _right_too(trial, mutant, right):
            best = left, mutant
    return None if best is None else Alike(mutant=best[1])


def off_by(
    trial: JudgeTrial, answers: Sequence[WrongOutputs], *, right: Sequence[WrongOutputs] = ()
) -> Relation | None:
    """Return the factor or term by which one output of every wrong answer is off, or None.

    All other outputs must be right, and so must what the relation leaves of right answers.
    """
    if not answers:
        return None
    wrong = [
        number
        for number, want in enumerate(answers[0].truth.outputs)
        if want.scale is not None and not compare(answers[0].outputs[number], want).passed
    ]
    if len(wrong) != 1:
        return None
    (number,) = wrong
    seen = [
        (
            answer.case,
            answer.outputs[number].detach().double().cpu(),
            answer.truth.outputs[number].value.double().cpu(),
        )
        for answer in answers
    ]
    best: tuple[float, Relation] | None = None
    for relation in relations(trial.problem, number, seen):
        left = max(_left_of(trial, relation, answer) for answer in answers)
        if left >= _UNEXPLAINED or (best is not None and left >= best[0] / 2):
            continue
        if all(_changes_nothing(trial, relation, answer) for answer in right):
            best = left, relation
    return None if best is None else best[1]


def _predicted(trial: JudgeTrial, relation: Relation, answer: WrongOutputs) -> torch.Tensor | None:
    """Return what a relation makes of the truth, in the output's dtype; None where nothing."""
    want = answer.truth.outputs[relation.output].value.double().cpu()
    value = relation.predicted(answer.case, trial.inputs(answer.case), want)
    if value is None:
        return None
    try:
        shaped = torch.broadcast_to(value, want.shape)
    except RuntimeError:
        return None
    return shaped.to(answer.outputs[relation.output])


def _left_of(trial: JudgeTrial, relation: Relation, answer: WrongOutputs) -> float:
    """Return the share of an answer's squared error that a relation leaves unexplained."""
    value = _predicted(trial, relation, answer)
    if value is None:
        return math.inf
    outputs = [value if n == relation.output else got for n, got in enumerate(answer.outputs)]
    share = _unexplained(answer, outputs)
    return math.inf if share is None else share


def _changes_nothing(trial: JudgeTrial, relation: Relation, answer: WrongOutputs) -> bool:
    """Whether a relation leaves a right answer right."""
    value = _predicted(trial, relation, answer)
    return value is not None and compare(value, answer.truth.outputs[relation.output]).passed


def systematic(answer: WrongOutputs) -> bool:
    """Whether the error has mostly one sign beside the truth, as no rounding to nearest has."""
    for got, want in zip(answer.outputs, answer.truth.outputs, strict=True):
        if want.scale is None or want.value.numel() < _FEW:
            continue
        ours, right = _doubles(got, want.value)
        used = ours.isfinite() & right.isfinite() & (right != 0)
        parts = ((ours - right) * right.sign())[used]
        size = float(parts.abs().sum())
        if size and abs(float(parts.sum())) / size > _SYSTEMATIC:
            return True
    return False


def _right_too(trial: JudgeTrial, mutant: Mutant, right: Sequence[WrongOutputs]) -> bool:
    """Whether a mutant is right on the cases on which the candidate is."""
    for answer in right:
        try:
            outputs = mutant.run(list(trial.inputs(answer.case).values()))
        except (*CANNOT_RUN, CuassayError):
            continue
        pairs = zip(outputs, answer.truth.outputs, strict=True)
        if not all(compare(got, want).passed for got, want in pairs):
            return False
    return True


def relative_error(answer: WrongOutputs) -> float:
    """Return norm(error) / norm(truth) of the worst output; infinite where a value is not finite.

    Outputs without floating values are left out.
    """
    worst = 0.0
    for got, want in zip(answer.outputs, answer.truth.outputs, strict=True):
        if want.scale is None or not want.value.numel():
            continue
        error, right = _doubles(got, want.value)
        size = float(right.norm())
        found = float((error - right).norm()) / size if size else math.inf
        worst = max(worst, found if math.isfinite(found) else math.inf)
    return worst


def wrong_elements(
    trial: JudgeTrial, case: Case, run: Run, items: tuple[ResultItem, ...]
) -> Iterator[tuple[TensorSpec, torch.Tensor]]:
    """Yield, for each output of a result that has some, which of its elements are far off."""
    truth = trial.truth(case)
    shapes = [tuple(output.value.shape) for output in truth.outputs]
    given = matched(trial.problem, shapes, run, items)
    for got, want, spec in zip(given, truth.outputs, trial.problem.outputs, strict=False):
        if isinstance(got, str) or want.scale is None:
            continue
        ours, right = _doubles(got, want.value)
        apart = (ours - right).abs() > _FAR_OFF * want.scale.double().cpu()
        wrong = apart | (ours.isfinite() != right.isfinite())
        if bool(wrong.any()):
            yield spec, wrong


def _left(trial: JudgeTrial, mutant: Mutant, answers: Sequence[WrongOutputs]) -> float | None:
    """Return the unexplained share of the error: the worst over the cases.

    Of three cases one may be explained roughly: where small values cancel, the candidate's own
    roundings are a part of its error. None where the mutant cannot run or explains less.
    """
    shares: list[float] = []
    for answer in answers:
        try:
            outputs = mutant.run(list(trial.inputs(answer.case).values()))
        except (*CANNOT_RUN, CuassayError):
            return None
        share = _unexplained(answer, outputs)
        if share is None or share > _ROUGHLY:
            return None
        shares.append(share)
        rough = sum(one > _UNEXPLAINED for one in shares)
        if rough > len(answers) // 3:
            return None
    return max((one for one in shares if one <= _UNEXPLAINED), default=None)


def _unexplained(answer: WrongOutputs, outputs: Sequence[torch.Tensor]) -> float | None:
    """Return the mutant's squared distance over the truth's, in units of achievable error.

    Answers far smaller than the truth are all about as far from it: what is apart beyond the
    achievable error must be a small part of the candidate's own numbers too.
    """
    to_mutant = to_truth = apart = size = 0.0
    for got, broken, one in zip(answer.outputs, outputs, answer.apart, strict=True):
        if got.shape != broken.shape:
            return None
        if one is None:
            continue
        theirs = broken.detach().double().cpu()
        if bool((one.ours.isfinite() != theirs.isfinite()).any()):
            return None
        beside = (one.ours - theirs)[one.finite] / one.unit
        to_mutant += float(beside.square().clamp_max(_MOST_SQUARE).sum())
        # A NaN where the truth is finite is an error of any size.
        to_truth += one.born * 1e6 + one.to_truth
        apart += float((beside.abs() - 1.0).clamp_min(0.0).square().clamp_max(_MOST_SQUARE).sum())
        size += one.size
    if to_truth <= 0:
        return None
    return max(to_mutant / to_truth, apart / size if size else 0.0)


def _doubles(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return first.detach().double().cpu(), second.detach().double().cpu()
