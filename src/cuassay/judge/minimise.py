"""From a failing case to a minimal one, and its text: the counterexample."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from cuassay.checks.base import Check
from cuassay.checks.numeric import fill_text
from cuassay.errors import CuassayError
from cuassay.inputs.shrink import shrink
from cuassay.judge.examine import judge_scenario
from cuassay.model.case import Case
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem, ScalarSpec
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.judge.control import Control, RunScenario
    from cuassay.judge.trial import JudgeTrial

_TRIES = {Profile.QUICK: 40, Profile.STANDARD: 80, Profile.DEEP: 200}
# A smaller case counts while it overspends its budget clearly: a counterexample that stands
# at 1.01 of the limit convinces nobody.
_CLEAR_SHARE = 3.0
_BUDGET_S = {Profile.QUICK: 2.5, Profile.STANDARD: 15.0, Profile.DEEP: 60.0}


class Minimiser:
    """Edits the case of a one-case finding towards the smallest that still fails.

    Every try is a real run of the candidate; a case that the reference fails as well, or that
    is ill-conditioned, does not count. Bounded by tries and seconds of the profile.
    """

    def __init__(
        self, trial: JudgeTrial, check: Check, *, run: RunScenario, control: Control
    ) -> None:
        self._trial, self._check, self._run, self._control = trial, check, run, control
        self._found: list[tuple[Case, Finding]] = []

    def minimise(self, finding: Finding) -> Finding:
        """Return the finding with its counterexample on the smallest failing case."""
        scenario = finding.scenario
        if scenario is None or len(scenario.cases) != 1:
            return finding
        profile = self._trial.profile
        deadline = time.perf_counter() + _BUDGET_S[profile]

        def still_fails(case: Case) -> bool:
            return time.perf_counter() < deadline and self._fails(finding, scenario, case)

        recording, self._trial.record = self._trial.record, False
        try:
            smallest = shrink(
                scenario.cases[0], still_fails, self._trial.problem, max_tries=_TRIES[profile]
            )
        finally:
            self._trial.record = recording
        last = next((found for case, found in self._found if case == smallest), finding)
        text = counterexample_text(self._trial.problem, smallest, last)
        minimal = ("smallest failing case", f"{last.message}")
        return dataclasses.replace(
            finding,
            counterexample=text,
            scenario=last.scenario,
            where=last.where,
            details=(minimal, *finding.details),
        )

    def _fails(self, finding: Finding, scenario: Scenario, case: Case) -> bool:
        smaller = dataclasses.replace(scenario, cases=(case,))
        try:
            if self._trial.truth(case).ill_conditioned:
                return False
            run = self._run(smaller)
            found = [
                f
                for f in judge_scenario(self._trial, self._check, smaller, run)
                if f.code == finding.code and f.finding_class is finding.finding_class
            ]
            if not found or not _clear(finding, found[0]):
                return False
            if self._control.shares(self._check, smaller, found):
                return False
        except CuassayError:
            return False
        self._found.append((case, found[0]))
        return True


def _clear(original: Finding, smaller: Finding) -> bool:
    """Whether a smaller case still fails about as clearly as the original needs to."""
    if original.share is None or smaller.share is None:
        return True
    return smaller.share >= min(original.share / 2, _CLEAR_SHARE)


def counterexample_text(problem: Problem, case: Case, finding: Finding) -> str:
    """Return the minimal failing input as commented Python-like text."""
    sizes = ", ".join(f"{name}={size}" for name, size in case.axes.items())
    lines = [f"# {problem.name} with {sizes}"]
    for spec in problem.inputs:
        if isinstance(spec, ScalarSpec):
            value = case.scalars.get(spec.name, spec.default)
            lines.append(f"{spec.name} = {value}")
        else:
            fill = case.fills.get(spec.name)
            usual = "the problem's own generator" if case.generator else "its domain's default"
            text = fill_text(fill) if fill else usual
            lines.append(f"{spec.name} = {spec.dtype.value}[{', '.join(spec.shape)}]: {text}")
    place = finding.where
    if place.got:
        index = ", ".join(str(i) for i in place.index)
        lines.append(f"# {place.output}[{index}]: got {place.got}, expected {place.expected}")
    return "\n".join(lines)
