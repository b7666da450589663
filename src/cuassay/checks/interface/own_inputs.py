"""API004: facts of the problem's own inputs that the reference does not need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split
from cuassay.checks.numeric.common import comparison_finding
from cuassay.checks.state.answers import Read, reads_of, same_bits
from cuassay.model.case import UNSTRUCTURED, Case
from cuassay.model.diagnosis import Cause
from cuassay.model.domain import Real
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem
from cuassay.model.scenario import Scenario, Step, call_steps


class Api004(Check):
    """Facts of the problem's own inputs that the reference does not need

    What it does
        Runs the problem's generator several times and notes what holds in every run: an input
        is constant, its rows are equal, it counts up, it is sorted. Each such fact of one input
        is broken alone, where the reference accepts that, and the kernel is called; what is
        constant of a module's state is varied at once. Then slices
        that never change by themselves, along every axis, take other values: one or a few at a
        time.

    Why it matters
        A generator that gives every row of `position_ids` the same values cannot tell a kernel
        that reads row 0 alone from a right one. 8 of 11 such kernels of a benchmark passed.

    How it decides
        The kernel must be right for the broken inputs, at a shape whose axes are at least 2.
        The reference accepts them if it runs, stays finite where it was finite, and returns
        something else than before. Where the input shares an ancestor with others (a saved
        statistic, a mask made from lengths), or the slice that changed repeats another one (the
        two halves of a rotary table), a failure is a condition of use, `consistent`. Where every
        matrix of an input is symmetric, triangular or diagonal, it is so in all other checks, and
        a failure without that is the condition `structure`.

    Can it be wrong?
        A fact that callers always keep and the problem does not state looks like one that
        happens to hold. State it in cuassay.toml ([facts.INPUT] or [domains.INPUT]): what is
        stated is not broken.

    Example
        position_ids[0] is used for every row: rejected with the fact in the message.

    Options
        --profile quick breaks 6 facts and changes slices in 6 calls, standard 16 and 32, deep
        64 and 128.
    """

    code = "API004"
    title = "Facts of the problem's own inputs that the reference does not need"
    cause = Cause.INPUT_MISREAD
    classes = ("A6", "A7", "O1")
    needs = Needs(split=Split.ANY_SIDE, group=Group.HOST)

    def skip(self, trial: Trial) -> str:
        """Return why no fact can be broken, or an empty string."""
        if trial.cases("facts") or trial.cases("slices"):
            return ""
        return "no fact of the problem's own inputs can be broken"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a scenario a fact: the intact inputs, then the broken ones."""
        cases = trial.cases("facts")
        for base, broken in zip(cases[::2], cases[1::2], strict=True):
            yield Scenario(
                label=f"own inputs: {broken.label}",
                cases=(base, broken),
                steps=(*call_steps("a", 0, "r0"), *call_steps("b", 1, "r1")),
            )
        sliced = trial.cases("slices")
        steps: list[Step] = []
        for number in range(len(sliced)):
            steps += call_steps(f"s{number}", number, f"r{number}")
        if sliced:
            yield Scenario(label="own inputs: slices changed", cases=sliced, steps=tuple(steps))

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the broken inputs where the kernel is right for the intact ones."""
        reads = reads_of(scenario, run)
        if len(reads) < 2 or answers.wrong(reads[0]):
            return
        for broken in reads[1:]:
            found = next(
                self._relies(trial, scenario, run, answers, intact=reads[0], broken=broken), None
            )
            if found is not None:
                yield found
                return

    def _relies(
        self,
        trial: Trial,
        scenario: Scenario,
        run: Run,
        answers: Answers,
        *,
        intact: Read,
        broken: Read,
    ) -> Iterator[Finding]:
        for comparison in answers.wrong(broken):
            case = broken.case
            same = same_bits(run, intact.items, broken.items) or answers.is_right_for(
                intact.case, broken
            )
            how = "the kernel does not read what differs" if same else "the kernel relies on it"
            lead = f"in the problem's own inputs {case.fact}; {how}, the reference does not"
            legal = dataclasses.replace(case, in_domain=True)
            found = comparison_finding(self, trial, scenario, legal, comparison, lead=lead)
            condition = _condition(trial.problem, case)
            yield found.as_condition(condition) if condition else found


def _condition(problem: Problem, case: Case) -> str:
    """Return what callers keep where a kernel is wrong for a case, '' where they need not."""
    for name, fill in case.fills.items():
        if UNSTRUCTURED in fill.parameters:
            domain = problem.input(name).domain
            assert isinstance(domain, Real)
            return f"structure: {name} is {domain.structure.words}"
    if not case.related:
        return ""
    changed = next(name for name, fill in case.fills.items() if fill.parameters)
    if case.related == (changed,):
        return f"consistent: slices of {changed} repeat one another as in the problem's own inputs"
    return f"consistent: {changed} belongs to {', '.join(case.related)}"
