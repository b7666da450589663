"""What a failed benchmark rule means: never an acceptance without a word.

The same call is judged against truth. Where that finds it wrong, or the call does not end, the
kernel is rejected with it. Where truth explains the answer, the benchmark's tolerance is narrower
than what trusted implementations achieve, which is a condition, unless nobody stated one. Where
truth decides nothing, so does the verdict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from cuassay.checks.endings.findings import inconclusive_reason
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.large_sizes import Shp002, workload_call
from cuassay.errors import CuassayError
from cuassay.formats.generated import is_stated, outside_domain
from cuassay.judge.decide.benchmark_rule import benchmark_case
from cuassay.judge.decide.examine import judge_scenario
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass
from cuassay.model.problem import TensorSpec, Workload
from cuassay.model.scenario import Poison
from cuassay.model.verdict import BenchmarkRule
from cuassay.sandbox.host.waits import run_now

if TYPE_CHECKING:
    from cuassay.judge.decide.control import Control, RunScenario
    from cuassay.judge.trial import JudgeTrial


_WHOLE_S = 16.0  # by count, of the benchmark's own call and its truth


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAnswer:
    """What a failed rule leads to: wrong findings, or a condition, or why nothing is decided."""

    findings: tuple[Finding, ...] = ()
    condition: str = ""
    undecided: str = ""


def answer_to_rule(
    trial: JudgeTrial,
    run: RunScenario,
    control: Control,
    rule: BenchmarkRule | None,
    *,
    name: Callable[[Finding], Finding],
) -> RuleAnswer:
    """Return what the verdict owes to the benchmark's own rule; nothing where that did not fail."""
    if rule is None or rule.accepted is not False:
        return RuleAnswer()
    check = Shp002()
    workload = next(one for one in trial.problem.workloads if one.id == rule.workload)
    try:
        if beyond := _beyond_domain(trial, workload):
            return RuleAnswer(condition=f"benchmark: {_words(rule, beyond)}" if rule.stated else "")
        # The benchmark's own call, or where its truth costs too much one on slices
        case = benchmark_case(trial, workload)
        whole = single_call(case, label=case.label, poison=Poison.ZEROS)
        costs_little = trial.has_room(case) and trial.scenario_s(whole) <= _WHOLE_S
        scenario = whole if costs_little else workload_call(trial, workload.id)
        ran = None if scenario is None else run(scenario)
        if scenario is None or ran is None:
            return RuleAnswer(undecided=_words(rule, "a truth of it costs too much"))
        if lacking := inconclusive_reason(ran):  # a GPU, say, that a trial on a CPU has not
            return RuleAnswer(undecided=_words(rule, lacking))
        made = judge_scenario(trial, check, scenario, ran)
        found = [
            dataclasses.replace(one, finding_class=FindingClass.WRONG) for one in made.findings
        ]
        if found and not run_now(control.shares(check, scenario, found)):
            return RuleAnswer(findings=tuple(map(name, found)))
        unknown = next((one.undecided for one in made.comparisons if one.undecided), "")
        if not found and len(scenario.cases) > 1:
            unknown = "a truth of the whole call costs too much, and some slices of it are right"
        if unknown:
            return RuleAnswer(undecided=_words(rule, unknown))
    except CuassayError as error:
        return RuleAnswer(undecided=_words(rule, str(error)))
    if not rule.stated:
        return RuleAnswer()
    why = "the reference fails it too" if found else "against truth the answer is right"
    return RuleAnswer(condition=f"benchmark: {_words(rule, why)}")


def with_findings(
    reports: Iterable[CheckReport], findings: tuple[Finding, ...]
) -> tuple[CheckReport, ...]:
    """Return the reports with wrong findings of the check that judges listed workloads."""
    if not findings:
        return tuple(reports)
    found = []
    for report in reports:
        if report.code == Shp002.code:
            others = report.outcome.findings if isinstance(report.outcome, Failed) else ()
            report = dataclasses.replace(report, outcome=Failed(findings=(*findings, *others)))
        found.append(report)
    if not any(report.code == Shp002.code for report in found):
        found.append(
            CheckReport(
                code=Shp002.code, title=Shp002.title, outcome=Failed(findings=findings), scenarios=1
            )
        )
    return tuple(found)


def _beyond_domain(trial: JudgeTrial, workload: Workload) -> str:
    """Return which of the benchmark's own inputs no caller may pass; '' where callers may pass all.

    What a problem's author declares of its inputs holds for the kernel; the benchmark may not.
    """
    case = benchmark_case(trial, workload)
    values = trial.inputs(case)
    for spec in trial.problem.inputs:
        value = values[spec.name]
        if isinstance(spec, TensorSpec) and is_stated(spec) and isinstance(value, torch.Tensor):
            beyond = outside_domain(spec, value, case.axes)
            if beyond:
                return (
                    f"its input '{spec.name}' lies outside of what the problem declares: {beyond}"
                )
    return ""


def _words(rule: BenchmarkRule, why: str) -> str:
    said = rule.note or (
        f"{rule.matched_ratio or 0.0:.4g} of the elements lie within atol {rule.atol:g}, rtol "
        f"{rule.rtol:g}, {rule.required_ratio:.4g} are needed"
    )
    if not rule.stated:
        return f"the answer at workload {rule.workload} is not the reference's ({said}); {why}"
    return f"the problem's own rule fails at workload {rule.workload} ({said}); {why}"
