"""How far a trial looked: what it says of the power of its inputs, and of listed workloads."""

from __future__ import annotations

import pytest

from cuassay.catalog import registry
from cuassay.checks.numeric.common import single_call
from cuassay.checks.registry import all_checks
from cuassay.formats.execute import load_reference
from cuassay.judge.decide.scope import scope_of, with_power
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.machine import LaunchCount
from cuassay.model.outcome import CheckReport, Skipped
from cuassay.model.scope import JudgedBy, Scope
from cuassay.model.verdict import BenchmarkRule, Power, Profile


@pytest.fixture
def trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )


def _scope(trial: JudgeTrial, *, judged: bool, rule: BenchmarkRule | None = None) -> Scope:
    check = next(one for one in all_checks() if one.code == "NUM001")
    case = max(trial.cases("numeric"), key=lambda one: one.axes["rows"])
    right = [(check, single_call(case, label="a call"))] if judged else []
    gpu = CheckReport(
        code="GRAPH001", title="Graphs", outcome=Skipped(reason="no GPU", needs_gpu=True)
    )
    other = CheckReport(code="PERF001", title="Times", outcome=Skipped(reason="not asked for"))
    return scope_of(
        trial,
        right,
        [gpu, other],
        rule=rule,
        launches=LaunchCount(),
        has_launches=False,
        unreached=(),
        shared=(),
    )


def test_a_trial_looked_as_far_as_its_largest_right_call(trial: JudgeTrial) -> None:
    largest = max(case.axes["rows"] for case in trial.cases("numeric"))
    rows = next(one for one in _scope(trial, judged=True).axes if one.axis == "rows")
    assert rows.values == largest
    assert rows.listed >= largest
    assert all(one.values == 0 for one in _scope(trial, judged=False).axes)


def test_checks_that_need_a_gpu_are_named_and_others_that_were_skipped_are_not(
    trial: JudgeTrial,
) -> None:
    (family,) = _scope(trial, judged=False).families
    assert family.codes == ("GRAPH001",)


def test_a_workload_that_only_the_benchmarks_rule_judged_says_so(trial: JudgeTrial) -> None:
    first = trial.problem.workloads[0].id
    rule = BenchmarkRule(
        accepted=True,
        matched_ratio=1.0,
        required_ratio=0.99,
        atol=0.01,
        rtol=0.01,
        workload=first,
        worst_output="y",
    )
    plain = {one.workload: one for one in _scope(trial, judged=False).workloads}
    ruled = {one.workload: one for one in _scope(trial, judged=False, rule=rule).workloads}
    assert plain[first].judged is JudgedBy.NO
    assert plain[first].reason
    assert ruled[first].judged is JudgedBy.RULE
    assert all(one.judged is JudgedBy.NO for name, one in ruled.items() if name != first)


def test_the_power_is_there_or_its_absence_has_a_reason(trial: JudgeTrial) -> None:
    scope = _scope(trial, judged=False)
    assert with_power(scope, Power(mutants=3, killed=2)).power_missing == ""
    assert "no broken version" in with_power(scope, Power(mutants=0, killed=0)).power_missing
    assert "too long" in with_power(scope, None).power_missing
