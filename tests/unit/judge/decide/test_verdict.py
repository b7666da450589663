"""A check that did not run is never a pass; wrong outranks everything."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.judge.decide.verdict import bind, conditions, decide
from cuassay.model.outcome import (
    CheckReport,
    Errored,
    Failed,
    Finding,
    FindingClass,
    Inconclusive,
    Outcome,
    Passed,
    Severity,
    Skipped,
)
from cuassay.model.verdict import Decision, Profile


def _finding(kind: FindingClass, condition: str = "") -> Finding:
    return Finding(
        code="X001",
        title="t",
        message="m",
        classes=(),
        finding_class=kind,
        severity=Severity.HIGH,
        condition=condition,
    )


def _report(code: str, outcome: Outcome) -> CheckReport:
    return CheckReport(code=code, title="t", outcome=outcome)


_GOOD = _report("NUM001", Passed())
_WRONG = _report("X001", Failed(findings=(_finding(FindingClass.WRONG),)))
_UNSAFE = _report("X002", Failed(findings=(_finding(FindingClass.UNSAFE, "shapes: only 8"),)))


@pytest.mark.parametrize(
    ("other", "profile", "decision"),
    [
        (Passed(), Profile.QUICK, Decision.ACCEPTED),
        (Skipped(reason="no index", applicable=False), Profile.DEEP, Decision.ACCEPTED),
        (Skipped(reason="no GPU"), Profile.STANDARD, Decision.ACCEPTED),
        (Skipped(reason="no GPU"), Profile.DEEP, Decision.INCONCLUSIVE),
        (Inconclusive(reason="noise"), Profile.STANDARD, Decision.ACCEPTED),
        (Inconclusive(reason="noise"), Profile.DEEP, Decision.INCONCLUSIVE),
        (Errored(reason="bug"), Profile.QUICK, Decision.INCONCLUSIVE),
    ],
)
def test_what_an_outcome_does(other: Outcome, profile: Profile, decision: Decision) -> None:
    assert decide([_GOOD, _report("X009", other)], profile=profile)[0] is decision


@pytest.mark.parametrize(
    "outcome",
    [
        Inconclusive(reason="r"),
        Skipped(reason="s"),
        Skipped(reason="the reference takes none of the inputs", applicable=False),
        Errored(reason="e"),
    ],
)
def test_without_numbers_nothing_was_shown(outcome: Outcome) -> None:
    assert decide([_report("NUM001", outcome)], profile=Profile.QUICK)[0] is Decision.INCONCLUSIVE


def test_wrong_outranks_a_fault_of_ours() -> None:
    reports = [_GOOD, _report("X009", Errored(reason="bug")), _WRONG]
    decision, reason = decide(reports, profile=Profile.DEEP)
    assert decision is Decision.REJECTED
    assert reason.startswith("X001: m")


def test_numbers_that_were_never_judged_accept_nothing() -> None:
    refused = Failed(findings=(_finding(FindingClass.UNSAFE, "shapes: only 8"),))
    report = _report("NUM001", refused)
    assert decide([report], profile=Profile.QUICK)[0] is Decision.INCONCLUSIVE
    partly = dataclasses.replace(report, clean=2)
    assert decide([partly], profile=Profile.QUICK)[0] is Decision.ACCEPTED


def test_advice_binds_where_it_is_required() -> None:
    advice = (_finding(FindingClass.ADVICE, "deterministic: float atomics"),)
    report = dataclasses.replace(_report("DET001", Passed()), advice=advice)
    assert decide([_GOOD, report], profile=Profile.QUICK)[0] is Decision.ACCEPTED
    bound = bind([_GOOD, report], ["deterministic"])
    assert decide(bound, profile=Profile.QUICK)[0] is Decision.REJECTED


def test_unsafe_is_a_condition_until_it_is_required() -> None:
    reports = [_GOOD, _UNSAFE]
    assert decide(reports, profile=Profile.QUICK)[0] is Decision.ACCEPTED
    assert conditions(reports) == ("shapes: only 8",)
    bound = bind(reports, ["shapes"])
    assert decide(bound, profile=Profile.QUICK)[0] is Decision.REJECTED
    assert conditions(bound) == ()
