"""DET002: a slice's bits do not depend on the batch around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import fill_text, one_by_one
from cuassay.checks.numeric.relation_guess import RelationTrials, base_case, element_limit, guesses
from cuassay.checks.numeric.relation_laws import Law, applied, laws
from cuassay.checks.numeric.relation_members import members
from cuassay.checks.state.answers import Read, reads_of
from cuassay.errors import ProblemError
from cuassay.inputs.geometry import elements, tensor_inputs
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.problem import Problem
from cuassay.model.relation import RowsIndependent, text_of
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from torch import Tensor

_QUICK_ELEMENTS = {"cpu": 0, "cuda": 1 << 22}


class Det002(Check):
    """Batch invariance

    What it does
        Calls the kernel on a batch, on the same slices in another order, on one of them alone,
        on half of them and on a larger batch of copies, and compares the bits of each slice.
        The batch is any axis along which each slice of the answer depends on its own inputs
        alone: declared by the problem, or guessed and confirmed on the reference in float64.

    Why it matters
        A split of a sum that is chosen by batch size gives a request other last bits at night
        than at noon. Sampling then takes another token, a trainer's probabilities do not match
        the server's, and no run can be repeated.

    How it decides
        Bits that differ between members of the batch are advice, and reject under --require
        batch-invariant. Numbers that are wrong on any member are left to META001. Where bits
        already differ between two equal calls DET001 has the reason, and nothing is said here.

    Can it be wrong?
        The reference goes through the same scenario: on outputs whose bits it changes with the
        batch as well nothing is reported for anybody, also under --require, for then no trusted
        answer says what the bits should be. Sizes that are not tried may take another path, and
        a low-precision output hides most last bits of a float32 sum: small cases show less.

    Example
        A GEMM that splits its sum in 4 below 16 rows and not at all above.

    Options
        --require batch-invariant makes equal bits binding; --profile sets how many axes are
        tried: 1, 3 or 8, each also on a case of the numeric checks (not at quick on a CPU).
    """

    code = "DET002"
    title = "Batch invariance"
    cause = Cause.NOT_DETERMINISTIC
    classes = ("C9",)
    needs = Needs(group=Group.REPEAT, alone=True)
    finding_class = FindingClass.ADVICE
    severity = Severity.LOW

    def __init__(self) -> None:
        self._of: tuple[Problem, int, Profile] | None = None
        self._found: tuple[RowsIndependent, ...] = ()

    def skip(self, trial: Trial) -> str:
        """Return why there is no batch, or an empty string."""
        base = base_case(trial)
        if base is None:
            return "no small case could be planned"
        if elements(trial.problem, base.axes) > element_limit(trial):
            return "its smallest case is too large to be called as several batches"
        if not self._axes(trial):
            return "no axis is known along which each slice depends on its own inputs alone"
        return ""

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a scenario per axis on a small case, then on larger ones."""
        for relation in self._axes(trial):
            for base in _bases(trial, relation):
                yield from batches(trial, relation, base)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare the bits of each slice with those that it had in the first batch."""
        reads = reads_of(scenario, run)
        relation = scenario.relation
        if not isinstance(relation, RowsIndependent) or len(reads) <= len(scenario.cases):
            return
        first, again = reads[0], reads[-1]
        differing: dict[int, list[str]] = {}
        for law in laws(trial.problem, relation, scenario.cases):
            one, other = (_answer(trial, run, read, law) for read in (first, again))
            if not _bits_equal(one, other):
                continue  # two equal calls differ already
            member = law.terms[0].member
            if not _equal(trial, run, law, reads):
                differing.setdefault(law.output, []).append(scenario.cases[member].label)
        if differing and any(answers.wrong(read) for read in reads):
            return  # asked last: truths of many batches cost more than their bits
        for output, labels in differing.items():
            name = trial.problem.outputs[output].name
            base = scenario.cases[0]
            yield self.finding(
                f"{name}: a slice along '{relation.axis}' differs in its last bits with the batch "
                f"around it ({', '.join(labels)} against {base.label}), within the achievable "
                "error",
                scenario=scenario,
                where=Where(
                    output=name,
                    group=f"slices along '{relation.axis}'",
                    axes=dict(base.axes),
                    fills={key: fill_text(fill) for key, fill in base.fills.items()},
                ),
                condition=f"batch-invariant: the last bits of {name} depend on the batch",
            )

    def _axes(self, trial: Trial) -> tuple[RowsIndependent, ...]:
        """Return the relations to try; those of the last trial are kept, for they cost lifts."""
        key = (trial.problem, trial.seed("DET002"), trial.profile)
        if self._of != key:
            self._found = tuple(islice(_independent(trial), trial.effort.independent_axes))
            self._of = key
        return self._found


def _independent(trial: Trial) -> Iterator[RowsIndependent]:
    """Yield the relations over axes that lead every input with them, the declared ones first."""
    problem = trial.problem
    declared = [r for r in problem.relations if isinstance(r, RowsIndependent)]
    known = {text_of(relation) for relation in declared}
    guessed = [r for r in guesses(problem)[0] if text_of(r) not in known]
    verifier = RelationTrials(trial)
    for relation in (*declared, *guessed):
        if not isinstance(relation, RowsIndependent) or not _leads(problem, relation.axis):
            continue
        found = relation if relation in declared else verifier.confirmed(relation)
        if isinstance(found, RowsIndependent) and any(
            True for base in _bases(trial, found) for _ in batches(trial, found, base)
        ):
            yield found


def _leads(problem: Problem, axis: str) -> bool:
    """Whether an axis is the first of every input that carries it: a batch, as callers say."""
    carriers = [spec for spec in tensor_inputs(problem) if axis in spec.shape]
    return bool(carriers) and all(spec.shape[0] == axis for spec in carriers)


def _bases(trial: Trial, relation: RowsIndependent) -> list[Case]:
    """Return a small case and the largest numeric ones that are cheap (none at quick on a CPU)."""
    small = base_case(trial, "DET002", text_of(relation))
    limit = element_limit(trial)
    if trial.profile is Profile.QUICK:
        limit = _QUICK_ELEMENTS[trial.device.kind]
    fit = [
        case
        for case in trial.cases("numeric")
        if case.in_domain and not case.benchmark and elements(trial.problem, case.axes) <= limit
    ]
    fit.sort(key=lambda case: -elements(trial.problem, case.axes))
    return ([small] if small else []) + fit[: trial.effort.larger_cases]


def batches(trial: Trial, relation: RowsIndependent, base: Case) -> Iterator[Scenario]:
    """Yield the batches of a relation against its base, a slice alone in a scenario of its own.

    References often take another path for a single row: that excuses no other batch.
    """
    try:
        first, *others = members(trial.problem, relation, base, limit=element_limit(trial)) or [
            base
        ]
    except ProblemError:
        return
    for alone in (False, True):
        group = [case for case in others if (case.axes[relation.axis] == 1) is alone]
        cases = (first, *group)
        if group and laws(trial.problem, relation, cases):
            what = "one slice alone" if alone else "batches"
            label = f"{what} along {relation.axis} of {base.label}"
            # The scenario of a call on each case, the first one's once more at the end.
            steps = one_by_one((*range(len(cases)), 0))
            yield Scenario(label=label, cases=cases, steps=steps, relation=relation)


def _equal(trial: Trial, run: Run, law: Law, reads: Sequence[Read]) -> bool:
    """Whether the slices that a law says are equal have the same bits; True if none were sent."""
    answers = [_answer(trial, run, reads[term.member], law) for term in law.terms]
    if any(answer is None for answer in answers):
        return True
    pairs = zip(law.terms, answers, strict=True)
    one, other = (applied(term, answer) for term, answer in pairs if answer is not None)
    return _bits_equal(one, other)


def _bits_equal(first: Tensor | None, second: Tensor | None) -> bool:
    import torch

    if first is None or second is None or first.shape != second.shape:
        return False
    return bool(torch.equal(first, second))


def _answer(trial: Trial, run: Run, read: Read, law: Law) -> Tensor | None:
    """Return a law's output in a read as integers of its bits; None where none was sent."""
    import torch

    spec = trial.problem.outputs[law.output]
    named = [item for item in read.items if item.name == spec.name]
    found = named or list(read.items[law.output : law.output + 1])
    if not found or found[0].kind != "tensor" or found[0].buffer < 0:
        return None
    tensor = run.tensor(found[0])
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(words[tensor.element_size()])
