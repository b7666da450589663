"""API003: every declared input and scalar reaches the output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process, Split
from cuassay.checks.numeric.common import comparison_finding, fill_text, single_call
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import Read, moved_names, placed, reads_of, same_bits, truth_moved
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Scenario, Step, call_steps
from cuassay.model.verdict import Profile

Pair = tuple[Case, Case]  # base, moved


class Api003(Check):
    """Every input and scalar reaches the output

    What it does
        Moves each declared tensor and scalar alone to other legal values, also those that the
        problem's own generator always sets to the same, at a shape whose every axis is at
        least 2, and calls the kernel.

    Why it matters
        What a benchmark keeps constant can be hard-coded: an epsilon, a scale of 1, a mask of
        ones, a frequency table that is rebuilt instead of read. Of an index tensor with equal
        rows only row 0 may be read. All of it passes until a caller passes something else.

    How it decides
        The kernel must be right for the moved values. If it is not, and its result equals
        that for the old values, it ignores the argument; else it uses it wrongly. Each
        argument has a process of its own (`quick` uses one for all), the moved values come
        first, so an answer kept from an earlier call is not blamed here but by STATE001. An
        argument that neither the reference nor the kernel uses is no fault.

    Can it be wrong?
        Inputs that belong together (a mask and its dropout rate, a saved statistic) are moved
        through the problem's generator where they can be; a case marked as inconsistent is
        advice only. An argument whose effect is below the achievable error cannot be seen.

    Example
        A kernel with eps = 1e-6 in its source: right for the default, wrong for 3e-2.

    Options
        --profile standard and deep use one scenario an argument, in a new process where an
        answer is wrong.
    """

    code = "API003"
    title = "Every input and scalar reaches the output"
    ranks = True
    classes = ("A6", "A7", "A12", "A13", "O1")
    # its new processes only keep an earlier answer from being blamed
    needs = Needs(process=Process.NEW_IF_WRONG, split=Split.ANY_SIDE, group=Group.HOST)

    def skip(self, trial: Trial) -> str:
        """Return why no argument can be moved, or an empty string."""
        return "" if pairs_of(trial) else "no argument has another legal value"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the distinct base cases, then the moved ones against their bases.

        `quick` has one scenario for all, which shows a kernel that is wrong throughout too.
        """
        for axes in settings(trial):
            pairs = [(placed(base, axes), placed(moved, axes)) for base, moved in pairs_of(trial)]
            if trial.profile is Profile.QUICK:
                yield _scenario(pairs)
                continue
            for base in _distinct(base for base, _ in pairs):
                # Fresh: an answer kept from an earlier scenario must not be blamed here.
                alone = single_call(base, label="arguments: before any is moved")
                yield dataclasses.replace(alone, fresh=True)
            for pair in pairs:
                yield _scenario([pair])

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the base alone, or each moved case beside its base."""
        reads = reads_of(scenario, run)
        if len(scenario.cases) == 1:
            for read in reads:
                yield from self._failed(trial, scenario, answers, read=read)
            return
        if len(reads) > 2 and all(same_bits(run, reads[0].items, r.items) for r in reads[1:]):
            return  # an answer kept from the first call, which STATE001 reports
        axes = scenario.cases[0].axes
        base_of = {_key(placed(b, axes)): _key(placed(a, axes)) for a, b in pairs_of(trial)}
        known = {_key(read.case): read for read in reads}
        beside = [(moved, known.get(base_of.get(_key(moved.case), ""))) for moved in reads]
        blamed = throughout = False
        for place, (moved, base) in enumerate(beside):
            if base is None:  # itself a base, or its base was not reached
                continue
            # Of a kernel that is wrong throughout only an argument that it ignores says more, and
            # truths of all the others take long.
            if throughout and not same_bits(run, moved.items, base.items):
                continue
            for finding in self._pair(trial, scenario, run, answers, moved=moved, base=base):
                blamed = True
                yield finding
            if place == 0:
                throughout = len(reads) > 2 and all(answers.wrong(r) for r in reads[:2])
        if throughout and not blamed:
            yield from self._failed(trial, scenario, answers, read=reads[1])

    def _failed(
        self, trial: Trial, scenario: Scenario, answers: Answers, *, read: Read, lead: str = ""
    ) -> Iterable[Finding]:
        for comparison in answers.wrong(read):
            yield comparison_finding(
                self, trial, scenario, read.case, comparison, lead=lead or "before any is moved"
            )

    def _pair(
        self,
        trial: Trial,
        scenario: Scenario,
        run: Run,
        answers: Answers,
        *,
        moved: Read,
        base: Read,
    ) -> Iterable[Finding]:
        if not answers.wrong(moved):
            return
        names = ", ".join(f"'{name}'" for name in moved_names(base.case, moved.case))
        change = change_in_words(base.case, moved.case)
        if answers.is_right_for(base.case, moved) or (
            same_bits(run, moved.items, base.items)
            and not all(run.tensor(item).isnan().all() for item in moved.items if item.buffer >= 0)
            and truth_moved(trial, base.case, moved.case)
        ):
            text = f"{names} does not reach the output: the result is the same after {change}"
            extra: dict[str, Any] = {"cause": Cause.INPUT_IGNORED}
            if not moved.case.in_domain:
                extra |= {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
                text += " (moved alone it may contradict the other inputs)"
            place = Where(
                group=f"{names} moved alone",
                axes=dict(moved.case.axes),
                fills={name: fill_text(fill) for name, fill in moved.case.fills.items()},
            )
            yield self.finding(text, scenario=scenario, where=place, **extra)
        elif not answers.wrong(base):
            lead = f"right before and wrong after {change}"
            first = next(iter(self._failed(trial, scenario, answers, read=moved, lead=lead)), None)
            if first is not None:
                yield first


def pairs_of(trial: Trial) -> list[Pair]:
    """Return (base, moved) of the planned argument cases."""
    cases = trial.cases("arguments")
    return list(zip(cases[::2], cases[1::2], strict=False))


def change_in_words(base: Case, moved: Case) -> str:
    """Return `eps goes from 1e-06 to 0.03` or `x takes other values`."""
    parts = []
    for name in moved_names(base, moved):
        if name in moved.scalars:
            parts.append(f"{name} goes from {base.scalars.get(name)} to {moved.scalars[name]}")
        else:
            parts.append(f"{name} takes other values")
    return " and ".join(parts)


def _distinct(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that differ in more than their label."""
    seen: dict[str, Case] = {}
    for case in cases:
        seen.setdefault(_key(case), case)
    return list(seen.values())


def _key(case: Case) -> str:
    """Return what of a case says which inputs it has."""
    return repr((sorted(case.axes.items()), case.seed, case.scalars, case.fills, case.generator))


def _scenario(pairs: Sequence[Pair]) -> Scenario:
    """Return one call of each moved case, and behind the first of them one of their base."""
    every = [case for base, moved in pairs for case in (moved, base)]
    cases = _distinct(every)
    steps: list[Step] = []
    for number in range(len(cases)):
        steps += call_steps(f"s{number}", number, f"r{number}")
    what = pairs[0][1].label if len(pairs) == 1 else "each moved alone"
    return Scenario(label=f"arguments: {what}", cases=tuple(cases), steps=tuple(steps), fresh=True)
