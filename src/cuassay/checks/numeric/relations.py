"""META001: relations between answers that the reference obeys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Needs, Split
from cuassay.checks.numeric.common import comparison_finding, fill_text, one_by_one
from cuassay.checks.numeric.relation_guess import base_case, element_limit, relations
from cuassay.checks.numeric.relation_laws import Law, laws
from cuassay.checks.numeric.relation_members import members
from cuassay.checks.numeric.relation_residual import Residual, residual
from cuassay.checks.state.answers import Read, reads_of
from cuassay.errors import NothingToCheckError, ProblemError
from cuassay.inputs.geometry import elements, legal, try_sizes
from cuassay.model.case import Case
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.policy import policy_of
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.relation import AdditiveOver, Relation, text_of, words_of
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from torch import Tensor

_WORST, _ENERGY = 6.0, 2.5  # the limits of NUM001 for one answer


_MOST_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}


class Meta001(Check):
    """Metamorphic relations of the reference

    What it does
        Calls the kernel on inputs that are transforms of each other: the same rows in another
        order, alone, in a smaller and in a larger batch, beside copies of themselves; one
        batch and its parts; an upstream gradient, its halves and its double; logits with a
        constant added; values of one, so that a weighted mean must be one. Which relations
        apply is declared by the problem, or guessed and confirmed on the reference in float64.

    Why it matters
        A kernel that uses the first row's scalar or gradient for the whole batch, mixes rows
        through shared state, drops the last chunk of a sum, or picks another algorithm by
        batch size is right on the inputs it was tuned on. Training with accumulation and
        serving with batches of every size meet the others.

    How it decides
        Every answer must be right by the statistics of NUM001; the finding says on which
        members of the relation it is and on which it is not. Then the residual of the relation
        must stay within the answers' achievable errors added in quadrature: worst element
        within 6, energy within 2.5. Equal bits between batches are DET002's subject.

    Can it be wrong?
        A kernel that adds in another order by batch size passes, since the budget is what
        honest orders achieve. Guessed relations that the float64 reference breaks on any of
        several seeds are dropped. A problem that declares a relation which its own reference
        breaks is not judged by this check, and is told.

    Example
        A backward that scales all rows by the first upstream gradient: "right on one slice
        alone, wrong on all 13".

    Options
        --profile sets how many relations are tried: 3, 8 or 20 scenarios.
    """

    code = "META001"
    title = "Metamorphic relations of the reference"
    classes = ("A12", "A13", "C9", "L2", "L6", "L7", "N6", "N7", "O5")
    ranks = True
    needs = Needs(split=Split.ANY_SIDE)
    grades = True

    def skip(self, trial: Trial) -> str:
        """Return why no relation can be tried, or an empty string."""
        base = base_case(trial)
        if base is None:
            return "no small case could be planned"
        size = elements(trial.problem, base.axes)
        most = _MOST_ELEMENTS[trial.device.kind]
        # A relation holds several answers and their truths at once.
        return f"its smallest case has {size:,} elements" if size > most else ""

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a relation, then the same on other data as far as budgets go.

        Raises CannotJudgeError where the reference breaks a relation that is declared.
        """
        left = trial.effort.related_scenarios
        used: list[Relation] = []
        for relation in relations(trial):
            scenario = _scenario(trial, relation, base_case(trial, text_of(relation)))
            if scenario is None:
                continue
            used.append(relation)
            left -= 1
            yield scenario
            if left <= 0:
                break
        if not used:
            raise NothingToCheckError("no relation was found that the reference keeps")
        if trial.profile is not Profile.QUICK:
            yield from islice(_on_other_data(trial, used), max(left, 0))

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge each answer, then what ties them together."""
        reads = reads_of(scenario, run)
        relation = scenario.relation
        if relation is None or len(reads) < len(scenario.cases):
            return
        # Held, so that the trial has them when they are asked for again, once an output and law: of
        # large outputs it keeps few by itself.
        truths = [trial.truth(read.case) for read in reads]
        wrong = [answers.wrong(read, closely=True) for read in reads]
        if any(wrong):
            yield from self._wrong(trial, scenario, answers, reads)
            return
        undecided = {
            position
            for truth in truths
            for position, output in enumerate(truth.outputs)
            if output.ill_conditioned
        }
        for law in laws(trial.problem, relation, scenario.cases):
            if law.output not in undecided:
                yield from self._broken(trial, scenario, run, reads, law=law)

    def _wrong(
        self, trial: Trial, scenario: Scenario, answers: Answers, reads: Sequence[Read]
    ) -> Iterable[Finding]:
        """Yield one finding an output, on the first member that is wrong."""
        assert scenario.relation is not None
        failed = [answers.wrong(read, closely=True) for read in reads]
        for output in dict.fromkeys(c.output for found in failed for c in found):
            bad = [any(c.output == output for c in found) for found in failed]
            first = bad.index(True)
            comparison = next(c for c in failed[first] if c.output == output)
            wrong = [read.case.label for read, is_bad in zip(reads, bad, strict=True) if is_bad]
            right = [read.case.label for read, is_bad in zip(reads, bad, strict=True) if not is_bad]
            if not right:
                sides = f"wrong on every one of {', '.join(wrong)}"
            else:
                sides = f"right on {', '.join(right)} and wrong on {', '.join(wrong)}"
            lead = f"{words_of(scenario.relation)}; {sides}"
            yield comparison_finding(
                self, trial, scenario, reads[first].case, comparison, lead=lead
            )

    def _broken(
        self, trial: Trial, scenario: Scenario, run: Run, reads: Sequence[Read], *, law: Law
    ) -> Iterable[Finding]:
        """Yield a finding where right answers contradict each other."""
        used = {term.member for term in law.terms}
        answers = {member: _answer(trial.problem, reads[member], run, law) for member in used}
        tensors = {member: value for member, value in answers.items() if value is not None}
        if len(tensors) < len(used):
            return
        first: Residual | None = None
        for family in policy_of(trial.problem).families:
            truths = {
                member: trial.truth(reads[member].case, family).outputs[law.output]
                for member in used
            }
            found = residual(law, tensors, truths)
            if found is None or (found.peak <= _WORST and found.energy <= _ENERGY):
                return
            first = first or found
        if first is not None:
            yield self._contradiction(trial, scenario, law, first)

    def _contradiction(
        self, trial: Trial, scenario: Scenario, law: Law, found: Residual
    ) -> Finding:
        assert scenario.relation is not None
        spec = trial.problem.outputs[law.output]
        peak = found.peak / _WORST >= found.energy / _ENERGY
        measured, allowed = (found.peak, _WORST) if peak else (found.energy, _ENERGY)
        statistic = "worst element" if peak else "energy"
        named = ", ".join(scenario.cases[term.member].label for term in law.terms)
        outside = not all(case.in_domain for case in scenario.cases)
        kind = {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW} if outside else {}
        base = scenario.cases[0]
        return self.finding(
            f"{spec.name}: {words_of(scenario.relation)}, yet the answers contradict each other "
            f"({named}): {statistic} of the residual is {measured:.3g} times what right answers "
            f"may be off by together, allowed {allowed:.3g}",
            scenario=scenario,
            measured=measured,
            allowed=allowed,
            statistic=f"{statistic} of the relation's residual",
            where=Where(
                output=spec.name,
                group=text_of(scenario.relation),
                index=found.index,
                got=f"{found.value:.6g}",
                expected="0",
                axes=dict(base.axes),
                fills={name: fill_text(fill) for name, fill in base.fills.items()},
            ),
            **kind,
        )


def _scenario(trial: Trial, relation: Relation, base: Case | None) -> Scenario | None:
    """Return the scenario of a relation on a base, None where it has no members there."""
    if base is None:
        return None
    if isinstance(relation, AdditiveOver):
        base = _longer(trial, base, relation.axis)
    try:
        cases = members(trial.problem, relation, base, limit=element_limit(trial))
    except ProblemError:
        return None
    if not laws(trial.problem, relation, cases):
        return None
    label = f"relation {text_of(relation)} on {base.label}"
    steps = one_by_one(range(len(cases)))
    return Scenario(label=label, cases=cases, steps=steps, relation=relation)


def _longer(trial: Trial, base: Case, axis: str) -> Case:
    """Return the base with a longer sum, so that chunks and tiles end within its parts."""
    problem: Problem = trial.problem
    found = next((a for a in problem.var_axes() if a.name == axis), None)
    if not isinstance(found, VarAxis) or not found.declared or base.generator:
        return base
    size = trial.effort.parted_length
    wanted = size - size % found.multiple_of
    sizes = try_sizes(problem, base.axes, {axis: wanted})
    if sizes is None or wanted <= base.axes[axis] or not legal(problem, sizes):
        return base
    large = elements(problem, sizes) > element_limit(trial)
    return base if large else dataclasses.replace(base, axes=sizes)


def _on_other_data(trial: Trial, used: Sequence[Relation]) -> Iterator[Scenario]:
    """Yield the relations again on the numeric regimes that are small enough, in turn."""
    if not used:
        return
    limit = element_limit(trial)
    fit = [
        case
        for case in trial.cases("numeric")
        if case.in_domain and not case.benchmark and elements(trial.problem, case.axes) <= limit
    ]
    for number, case in enumerate(fit):
        relation = used[number % len(used)]
        base = dataclasses.replace(case, seed=trial.seed("META001", "numeric", number))
        scenario = _scenario(trial, relation, base)
        if scenario is not None:
            yield scenario


def _answer(problem: Problem, read: Read, run: Run, law: Law) -> Tensor | None:
    """Return the tensor of a law's output in a read; None where none was sent."""
    names: Mapping[str, int] = {item.name: n for n, item in enumerate(read.items)}
    position = names.get(problem.outputs[law.output].name, law.output)
    item = read.items[position] if position < len(read.items) else None
    if item is None or item.kind != "tensor" or item.buffer < 0:
        return None
    return run.tensor(item)
