"""A second look at a failure by a small margin: the same recipe under other secret seeds.

The limits of the comparison are calibrated for one comparison. A trial makes hundreds, over many
cases, outputs and slices, and a search even climbs toward the worst; the largest of so many
draws lies beyond a limit that one draw keeps. A fault of the kernel fails again on other values
of the same recipe, an unlucky draw does not. What is far beyond its limit, or is no number at
all, needs no second look: no draw explains it.

Measured without it (benchmarks/results/false-alarms-standard-cpu.json): of 270 trials of correct
kernels at `standard` two were rejected, at 1.05 and 1.18 times a limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuassay.errors import CannotJudgeError
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cuassay.judge.trial import JudgeTrial

    Judged = Callable[[Scenario], Awaitable[Sequence[Finding]]]

REDRAWN = 3  # times that a recipe is drawn again
MARGINAL = 2.0  # shares of the budget up to which the worst of many draws explains a failure


def marginal(findings: Sequence[Finding]) -> bool:
    """Whether every finding is a number that overspends its budget by little."""
    return bool(findings) and all(
        found.finding_class is FindingClass.WRONG
        and found.share is not None
        and 1.0 < found.share <= MARGINAL
        for found in findings
    )


async def confirmed(
    trial: JudgeTrial, scenario: Scenario, findings: Sequence[Finding], *, judged: Judged
) -> str:
    """Return why the findings are the luck of one draw, or an empty string if they are not.

    `judged` runs a scenario and returns what its check says of it; it may raise
    CannotJudgeError, and such a draw counts for neither side. The findings stand if at least
    as many draws fail as pass.
    """
    codes = {found.code for found in findings}
    failed = passed = 0
    for number in range(REDRAWN):
        try:
            found = await judged(redrawn(trial, scenario, number))
        except CannotJudgeError:
            continue
        failed += any(finding.code in codes for finding in found)
        passed += not found
    if failed >= passed:
        return ""
    return f"{findings[0].message}: {passed} of {REDRAWN} other draws of the same recipe pass"


async def seen_again(again: Sequence[Scenario], finding: Finding, *, judged: Judged) -> Finding:
    """Return the finding; of one that does not show in all of `again`, the calls differ anyway.

    A call that is right once and wrong once is not evidence for what was changed between the two.
    """
    for scenario in again:
        try:
            shown = {found.message for found in await judged(scenario)}
        except CannotJudgeError:
            continue
        if finding.message not in shown:
            output = finding.where.output or "the output"
            message = f"{output} is right after some of several equal calls and wrong after others"
            return dataclasses.replace(finding, message=message, cause=Cause.NOT_DETERMINISTIC)
    return finding


async def blamed(controls: Sequence[Scenario], finding: Finding, *, judged: Judged) -> Finding:
    """Return the finding, without its cause where a control shows the same wrong number.

    A control lacks the condition that the finding blames: the number is wrong without it, too.
    """
    place = finding.where
    for scenario in controls:
        try:
            shown = [found.where for found in await judged(scenario)]
        except CannotJudgeError:
            continue
        if any(
            (one.output, one.index, one.got) == (place.output, place.index, place.got)
            for one in shown
        ):
            return dataclasses.replace(finding, cause=None)
    return finding


def redrawn(trial: JudgeTrial, scenario: Scenario, number: int) -> Scenario:
    """Return a scenario with other values by the same recipes.

    Cases that shared a seed share the new one, so that relations between them stay.
    """

    def anew(case: Case) -> Case:
        return dataclasses.replace(case, seed=trial.seed("confirm", case.seed, number))

    return dataclasses.replace(scenario, cases=tuple(map(anew, scenario.cases)))
