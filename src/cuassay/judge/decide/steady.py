"""Does a finding show every time? One that does not is a finding about determinism."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from cuassay.checks.base import Check
from cuassay.checks.numeric.determinism import Det001, repeats
from cuassay.errors import CuassayError
from cuassay.judge.decide.examine import judge_scenario
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial

_FRESH = 4  # more runs than that, each in a fresh process, must show what one did not
# Found by repeating, or too dear to repeat: a hang costs its whole time limit each time.
_NOT_REPEATED = frozenset({"DET001", "RUN004", "RUN006", "BUILD001"})


def steady(
    trial: JudgeTrial, check: Check, finding: Finding, *, run: RunScenario, again: int = 1
) -> tuple[Finding, bool]:
    """Return the finding and whether it shows again on identical inputs.

    A failure that `again` further runs all show is returned as it is: that many extra runs.
    One that only fresh processes show gets a scenario that asks for one. Anything else comes
    back as a determinism finding that says in how many runs it showed, and False.
    """
    scenario = finding.scenario
    if scenario is None or finding.code in _NOT_REPEATED:
        return finding, True

    def shows(again: Scenario) -> bool:
        try:
            found = judge_scenario(trial, check, again, run(again)).findings
        except CuassayError:
            return False
        return any(f.code == finding.code for f in found)

    shown = 0
    while shown < again and shows(scenario):
        shown += 1
    if shown == again:
        return finding, True
    fresh = dataclasses.replace(scenario, fresh=True)
    if not scenario.fresh and all(shows(fresh) for _ in range(again + _FRESH)):
        return dataclasses.replace(finding, scenario=fresh), True
    failed, runs = 1 + shown, 2 + shown  # the first run and `shown` more fail, the next does not
    deadline = time.perf_counter() + trial.effort.marginal_s
    while runs < trial.effort.marginal_runs and time.perf_counter() < deadline:
        failed += shows(scenario)
        runs += 1
    repeated = _repeated(trial, scenario, run)
    seen = f"fails {failed} of {runs} runs on identical inputs"
    return dataclasses.replace(
        finding,
        code=Det001.code,
        title=Det001.title,
        classes=("C1", "C9"),
        finding_class=FindingClass.WRONG,
        severity=Severity.CRITICAL,
        message=f"{seen}: {finding.message}",
        scenario=repeated or scenario,
        details=((f"found by {finding.code}", seen), *finding.details),
    ), False


def _repeated(trial: JudgeTrial, scenario: Scenario, run: RunScenario) -> Scenario | None:
    """Return a scenario of many calls in one process that shows it too: it replays better."""
    if len(scenario.cases) != 1:
        return None
    check = Det001()
    many = repeats(trial, scenario.cases[0])
    try:
        found = judge_scenario(trial, check, many, run(many)).findings
    except CuassayError:
        return None
    wrong = any(f.code == check.code and f.finding_class is FindingClass.WRONG for f in found)
    return many if wrong else None
