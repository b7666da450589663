"""Which sizes a verdict says were tried, and what must hold before any kernel runs."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest

from cuassay.checks.base import Run
from cuassay.checks.numeric.common import single_call
from cuassay.errors import ProblemError
from cuassay.judge.decide.control import RunScenario
from cuassay.judge.decide.tried import SizeLog
from cuassay.judge.plan.preconditions import check_constraints
from cuassay.model.case import Case
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Scenario
from cuassay.model.trace import BuildFailed, Termination, ToolMissing
from cuassay.model.verdict import AxisCoverage, TriedSizes
from tests.support import fake_trial


def _scenario(rows: int, *, in_domain: bool = True) -> Scenario:
    case = Case(label="a", axes={"rows": rows, "cols": 4}, in_domain=in_domain)
    return single_call(case, label="a")


def _tried(termination: Termination | None = None) -> tuple[SizeLog, RunScenario]:
    trial = fake_trial.scaled_add()

    def run(scenario: Scenario) -> Run:
        found = fake_trial.run_one(trial, trial.reference, scenario)
        if termination is None:
            return found
        ended = dataclasses.replace(found.result, termination=termination)
        return cast("Run", SimpleNamespace(result=ended))

    return SizeLog(trial.problem), run


def _try(tried: SizeLog, run: RunScenario, scenario: Scenario, code: str = "NUM001") -> None:
    tried.note(code, scenario, run(scenario))


def test_sizes_are_kept_sorted_and_counted_by_check() -> None:
    tried, run = _tried()
    for code, sizes in (("NUM001", (7, 3)), ("SHP001", (3, 1, 1))):
        for rows in sizes:
            _try(tried, run, _scenario(rows), code)
    assert tried.coverage() == (
        AxisCoverage(axis="rows", values=(1, 3, 7), checks={"NUM001": 2, "SHP001": 2}),
        AxisCoverage(axis="cols", values=(4,), checks={"NUM001": 1, "SHP001": 1}),
    )


def test_a_case_outside_the_domain_covers_nothing() -> None:
    tried, run = _tried()
    _try(tried, run, _scenario(3, in_domain=False))
    assert tried.coverage() == (AxisCoverage(axis="rows"), AxisCoverage(axis="cols"))


@pytest.mark.parametrize(
    "termination",
    [
        BuildFailed(what="no", log=""),
        ToolMissing(what="nvcc"),
    ],
)
def test_what_did_not_run_covers_nothing(termination: Termination) -> None:
    tried, run = _tried(termination)
    _try(tried, run, _scenario(3))
    assert [axis.values for axis in tried.coverage()] == [(), ()]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (("rows % 2 == 0", "rows % 2 == 1"), "breaks 'rows % 2 == 1'"),
        (("rows > 100",), r"'w0' (rows = 16, cols = 32) breaks 'rows > 100'"),
    ],
)
def test_constraints_that_no_workload_keeps(rules: tuple[str, ...], message: str) -> None:
    trial = fake_trial.scaled_add()
    trial.problem = dataclasses.replace(trial.problem, constraints=rules)
    with pytest.raises(ProblemError) as caught:
        check_constraints(trial)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert str(caught.value).endswith("; correct the constraints or the workloads")


@pytest.mark.parametrize("rule", ["rows == 16", "kv_indptr[-1] == total", "the rows are sorted"])
def test_constraints_that_some_workload_keeps_or_that_are_prose(rule: str) -> None:
    trial = fake_trial.scaled_add()
    trial.problem = dataclasses.replace(trial.problem, constraints=(rule,))
    check_constraints(trial)  # type: ignore[arg-type]


def test_sizes_are_kept_together_with_what_was_found_there() -> None:
    tried, run = _tried()
    for rows in (3, 5, 3):
        _try(tried, run, _scenario(rows))
    wrong = Finding(
        code="NUM001", title="t", message="m", classes=(), finding_class=FindingClass.WRONG,
        severity=Severity.CRITICAL, scenario=_scenario(7),
    )  # fmt: skip
    advice = dataclasses.replace(wrong, finding_class=FindingClass.ADVICE, scenario=_scenario(5))
    assert tried.sizes([wrong, advice]) == (
        TriedSizes(sizes={"rows": 3, "cols": 4}),
        TriedSizes(sizes={"rows": 5, "cols": 4}),
        TriedSizes(sizes={"rows": 7, "cols": 4}, failed=True),
    )
