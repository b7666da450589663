"""SHP001: shapes beside the listed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import exception_text, memory_fault, termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.numeric.common import comparison_finding, single_call
from cuassay.checks.numeric.each_size import each_size, swept, unlike
from cuassay.checks.numeric.listed_sizes import refusal_condition, sizes_in_words
from cuassay.checks.state.answers import reads_of
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Call, Scenario
from cuassay.model.trace import Finished, ScenarioResult, StepRaised


class Shp001(Check):
    """Shapes beside the listed ones

    What it does
        Calls the kernel at neighbours of the workloads' sizes: one less, one more, 1, 2, 3,
        primes, tile sizes plus and minus one and minus two, one size for all axes, and 0 where the
        domain includes it, for every var axis, together and one at a time. Then beside numbers that
        the candidate's sources compare sizes with: each by itself, and those of two axes at once.
        At `standard` then at the first 4,096 sizes of each axis in turn, the others small.

    Why it matters
        A kernel written for seven benchmark lengths may bake in strides, tile counts or a
        table of sizes. Elsewhere it stops with an error, or returns wrong numbers in silence:
        the last partial tile is skipped, or padding leaks into a sum.

    How it decides
        Numbers that differ from truth by more than the achievable error are wrong at every
        legal size, listed or not, since nothing tells the caller. Of sizes in turn truth is made
        where an answer is further from the reference as written than twice the right ones.
        A call that stops with an exception is wrong where the problem declares the axis's bounds
        and the size lies within them. Where an axis has no declared bounds, only its workloads
        are promised: an exception at another size becomes a condition of use that names the listed
        sizes. A crash, a hang or a memory fault is wrong in either case. Outside the domain (a
        size 0 that nobody declared) it is advice.

    Can it be wrong?
        The reference runs at the same sizes first; a size that it cannot handle is not
        reported. A kernel whose numbers are wrong everywhere is reported here too.

    Example
        A row sum that adds full tiles of 128 only returns too small a sum at 129 columns. A
        kernel that asserts `hidden in (1024, 4096)` is accepted under the condition
        "shapes: only the sizes of its workloads" unless the problem declares other bounds.

    Options
        --profile sets how many sizes are tried, and how many in turn: 0, 4,096 or 16,384;
        --require shapes makes the condition binding.
    """

    code = "SHP001"
    title = "Shapes beside the listed ones"
    classes = ("O7", "O8", "O10")
    ranks = True
    needs = Needs(when=When.DECISIVE, split=Split.ANY_SIDE, group=Group.SHAPES)
    grades = True
    asks_right = True
    judges_failures = True

    def skip(self, trial: Trial) -> str:
        """Return why there is no other shape to try, or an empty string."""
        return "" if trial.cases("shapes") else "no axis of the problem varies"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call per neighbouring shape."""
        for case in trial.cases("shapes"):
            yield single_call(case, label=f"shapes: {case.label}")
        yield from each_size(trial)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge how the calls ended, then their numbers: of several the first that is wrong."""
        reads = reads_of(scenario, run)
        ended = termination_finding(scenario, run, problem=trial.problem)
        if ended is not None:
            case = scenario.cases[min(len(reads), len(scenario.cases) - 1)]
            yield ended_finding(self, trial, scenario, run, case=case, ended=ended)
            return
        several = len(scenario.cases) > 1
        for read in unlike(trial, run, reads) if several else reads:
            wrong = answers.wrong(read)
            alone = scenario
            if several:
                alone = single_call(read.case, label=f"shapes: {read.case.label}")
            lead = f"at {sizes_in_words(trial.problem, read.case)}"
            for comparison in wrong:
                yield comparison_finding(self, trial, alone, read.case, comparison, lead=lead)
            if wrong:
                return

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Return up to which size of an axis each was tried."""
        return swept(seen)


def ended_finding(
    check: Check, trial: Trial, scenario: Scenario, run: Run, *, case: Case, ended: Finding
) -> Finding:
    """Return the finding of a call at a shape that did not end normally.

    `ended` says how; `case` is the call's. A size that nobody promised, and that the kernel
    refuses by an exception, is a condition of use.
    """
    sizes = sizes_in_words(trial.problem, case)
    # The exception of the call if the process lived on and no memory fault is named
    raised = None
    if isinstance(run.result.termination, Finished):
        first = next((r for r in run.result.records if isinstance(r, StepRaised)), None)
        if first is not None and isinstance(scenario.steps[first.index], Call):
            raised = None if memory_fault(first) else first
    kind, severity, condition = FindingClass.WRONG, Severity.HIGH, ""
    cause = ended.cause if raised is None else Cause.REFUSES_SIZES
    if raised is None:
        message = f"at {sizes}: {ended.message}"
    else:
        message = f"at {sizes} the kernel refuses to run: {exception_text(raised)}"
        condition = refusal_condition(trial.problem, case)
        if condition:
            kind, severity = FindingClass.UNSAFE, Severity.MEDIUM
        elif case.in_domain:
            message += "; the size lies within the problem's domain"
    if not case.in_domain:
        kind, severity, condition = FindingClass.ADVICE, Severity.LOW, ""
    return check.finding(
        message,
        scenario=scenario,
        where=Where(group=sizes, axes=dict(case.axes)),
        finding_class=kind,
        severity=severity,
        condition=condition,
        evidence=ended.evidence,
        cause=cause,
        lines=ended.lines,
    )
