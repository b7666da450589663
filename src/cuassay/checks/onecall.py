"""How the checks judge one call that may end in any way, and refusals are no business of theirs."""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.buildrun import termination_finding
from cuassay.checks.numeric import comparison_finding
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario


def judge_one_call(
    check: Check, trial: Trial, scenario: Scenario, run: Run, *, lead: str
) -> Iterator[Finding]:
    """Yield what is wrong with a `single_call` scenario: how it ended, else its numbers.

    A size that the kernel refuses and nobody promised is left to SHP001, which makes it a
    condition of use.
    """
    case = scenario.cases[0]
    ended = termination_finding(scenario, run, problem=trial.problem)
    if ended is not None:
        if ended.finding_class is FindingClass.WRONG:
            yield ended
        return
    record = done(run, 2)
    if record is None or trial.truth(case).ill_conditioned:
        return
    for comparison in trial.compare(case, run, record.items):
        if not comparison.passed:
            yield comparison_finding(check, trial, scenario, case, comparison, lead=lead)
