"""From a failing case to one that convinces: gross first, then small, then of simple numbers."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from cuassay.checks.base import Check
from cuassay.errors import CuassayError
from cuassay.inputs.generalise import generalise
from cuassay.inputs.geometry import elements
from cuassay.inputs.scalars import sizes_given
from cuassay.inputs.shrink import shrink
from cuassay.inputs.size_law import OutOfBudget
from cuassay.judge.decide.examine import judge_scenario
from cuassay.judge.decide.steady import steady
from cuassay.judge.diagnose.tensor_words import tensor_words
from cuassay.model.case import Case
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem, Scalar, ScalarSpec
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Backward, Upstream
from cuassay.model.told import told_apart
from cuassay.sandbox.host.waits import run_now

if TYPE_CHECKING:
    from cuassay.judge.decide.control import Control, RunScenario
    from cuassay.judge.trial import JudgeTrial

# A smaller case counts while it overspends its budget clearly: a counterexample that stands
# at 1.01 of the limit convinces nobody.
_CLEAR_SHARE = 3.0
_GROSS_SHARE = 10.0
_GROSS_ERROR = 0.01  # of the larger of the two values
_LEAST_SIZE = 1e-6  # of a value that convinces: smaller ones look like rounding
_GENERAL_ELEMENTS = {"cpu": 1 << 16, "cuda": 1 << 22}  # of a case run often
_CONFIRMED = 5  # further runs that must show the smallest case too


class Minimiser:
    """Edits the case of a one-case finding towards the smallest that still fails.

    Every try is a real run of the candidate; a case that the reference fails as well, or that
    is ill-conditioned, does not count. Bounded by tries and seconds of the profile. A failure
    that a second run on identical inputs does not show is not shrunk: it becomes a finding
    about determinism.
    """

    def __init__(
        self, trial: JudgeTrial, check: Check, *, run: RunScenario, control: Control
    ) -> None:
        self._trial, self._check, self._run, self._control = trial, check, run, control
        self._found: list[tuple[Case, Finding]] = []

    def minimise(self, finding: Finding) -> Finding:
        """Return the finding with its counterexample on the smallest failing case.

        Message, measure and place stay those of the case that first showed it, which says how
        bad it gets; the scenario, and so the replay, is the smallest.
        """
        finding, shows_again = steady(self._trial, self._check, finding, run=self._run)
        scenario = finding.scenario
        if scenario is None or len(scenario.cases) != 1 or not shows_again:
            return finding
        effort = self._trial.effort
        deadline = time.perf_counter() + effort.shrink_s

        def still_fails(case: Case) -> bool:
            if time.perf_counter() >= deadline:
                return False
            return self._fails(finding, scenario, case) is True

        smallest = shrink(
            scenario.cases[0],
            still_fails,
            self._trial.problem,
            max_tries=effort.shrink_runs,
            inputs=self._trial.inputs,
        ).case
        last = next((found for case, found in self._found if case == smallest), finding)
        # Shrinking a failure that comes and goes leaves a case that mostly passes.
        small = dataclasses.replace(finding, scenario=last.scenario)
        told, shows_again = steady(self._trial, self._check, small, run=self._run, again=_CONFIRMED)
        if not shows_again:
            return told
        general = self._holds_for(last, scenario, scenario.cases[0], smallest)
        details = [("smallest failing case", last.message)]
        text = counterexample_text(
            self._trial.problem, smallest, last, self._trial.inputs(smallest)
        )
        if general:
            details.append(("holds for", general))
            text += f"\n# holds for {general}"
        return dataclasses.replace(
            finding,
            counterexample=text,
            scenario=told.scenario,
            holds_for=general,
            details=(*details, *finding.details),
        )

    def _holds_for(self, finding: Finding, scenario: Scenario, first: Case, smallest: Case) -> str:
        effort, problem = self._trial.effort, self._trial.problem
        deadline = time.perf_counter() + effort.general_s

        def fails(case: Case) -> bool | None:
            if time.perf_counter() >= deadline:
                raise OutOfBudget
            return self._fails(finding, scenario, case)

        limit = _GENERAL_ELEMENTS[self._trial.device.kind]
        return generalise(
            smallest,
            fails,
            problem,
            drawn=first.fills,
            max_runs=effort.general_runs,
            max_elements=max(limit, 2 * elements(problem, smallest.axes)),
            fills=effort.general_fills,
        )

    def _fails(self, finding: Finding, scenario: Scenario, case: Case) -> bool | None:
        """Return whether the same failure shows on `case`; None where the case cannot tell."""
        changed = dataclasses.replace(scenario, cases=(case,))
        try:
            truth = self._trial.truth(case)
            if truth.ill_conditioned:
                return None
            run = self._run(changed)
            found = [
                f
                for f in judge_scenario(self._trial, self._check, changed, run).findings
                if f.code == finding.code and f.finding_class is finding.finding_class
            ]
            if not found:
                aside = [o.name for o in truth.outputs if o.ill_conditioned]
                return None if finding.where.output in aside else False
            # `clear` says whether a smaller case still fails about as clearly as the original
            # needs to.
            smaller = found[0]
            if convinces(finding):
                clear = convinces(smaller)
            elif finding.share is None or smaller.share is None:
                clear = True
            else:
                clear = smaller.share >= min(finding.share / 2, _CLEAR_SHARE)
            if not clear or run_now(self._control.shares(self._check, changed, found)):
                return None
        except CuassayError:
            return None
        self._found.append((case, found[0]))
        return True


def convinces(finding: Finding) -> bool:
    """Whether a finding shows a gross error: its worst element is no matter of rounding."""
    if finding.share is not None and finding.share < _GROSS_SHARE:
        return False
    try:
        got, want = float(finding.where.got), float(finding.where.expected)
    except ValueError:
        return False
    if not math.isfinite(got) or not math.isfinite(want):
        return repr(got) != repr(want)
    size = max(abs(got), abs(want))
    return size >= _LEAST_SIZE and abs(got - want) >= _GROSS_ERROR * size


def counterexample_text(
    problem: Problem, case: Case, finding: Finding, values: Mapping[str, torch.Tensor | Scalar]
) -> str:
    """Return the minimal failing input as commented Python-like text.

    `values` are the inputs of the case: what is said of them is what they hold.
    """
    sizes = ", ".join(f"{name}={size}" for name, size in case.axes.items())
    lines = [f"# {problem.name} with {sizes}"]
    place = finding.where
    for spec in problem.inputs:
        value = values.get(spec.name)
        if isinstance(spec, ScalarSpec):
            given = {**case.scalars, **sizes_given(problem, case.axes)}
            shown = given.get(spec.name, spec.default if value is None else value)
            lines.append(f"{spec.name} = {shown}")
        elif isinstance(value, torch.Tensor):
            # `row` is the row of an input that has the worst element, where it shares the first
            # axis.
            output = next((one for one in problem.outputs if one.name == place.output), None)
            shares = output is not None and output.shape and spec.shape[:1] == output.shape[:1]
            row = place.index[0] if shares and place.index and len(spec.shape) > 1 else None
            text = tensor_words(value, case.fills.get(spec.name), row=row)
            lines.append(f"{spec.name} = {spec.dtype.value}[{', '.join(spec.shape)}]: {text}")
    for step in finding.scenario.steps if finding.scenario is not None else ():
        if isinstance(step, Backward):
            match step.upstream:
                case Upstream.ONES:
                    upstream_words = "ones"
                case _:
                    upstream_words = f"normal numbers of seed {step.seed}, {step.upstream.value}"
            lines.append(f"# upstream gradient: {upstream_words}")
    if place.got:
        index = ", ".join(str(i) for i in place.index)
        got, expected = told_apart(place.got, place.expected)
        lines.append(f"# {place.output}[{index}]: got {got}, expected {expected}")
    return "\n".join(lines)
