"""A verdict has three values, and lists what every check saw."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass, Passed, Severity
from cuassay.model.profile import Profile
from cuassay.model.verdict import Decision, Verdict


def _verdict(decision: Decision, *checks: CheckReport) -> Verdict:
    return Verdict(
        decision=decision, reason="", problem="p", candidate="k.py", profile=Profile.QUICK,
        device="cpu", digest="d", truth="float64", truth_reason="", precision_grade="",
        checks=checks,
    )  # fmt: skip


@pytest.mark.parametrize("decision", Decision)
def test_only_an_acceptance_passes_and_no_verdict_is_true_or_false(decision: Decision) -> None:
    verdict = _verdict(decision)
    assert verdict.passed is (decision is Decision.ACCEPTED)
    with pytest.raises(TypeError, match="three values"):
        bool(verdict)


def test_findings_are_those_of_failed_checks_and_all_advice_the_worst_first() -> None:
    wrong = Finding(
        code="NUM001", title="t", message="m", classes=(), finding_class=FindingClass.WRONG,
        severity=Severity.HIGH,
    )  # fmt: skip
    advice = dataclasses.replace(wrong, finding_class=FindingClass.ADVICE)
    unsafe = wrong.as_condition("c")
    verdict = _verdict(
        Decision.REJECTED,
        CheckReport(code="a", title="t", outcome=Passed(), advice=(advice,)),
        CheckReport(code="b", title="t", outcome=Failed(findings=(unsafe,))),
        CheckReport(code="c", title="t", outcome=Failed(findings=(wrong,)), advice=(advice,)),
    )
    assert verdict.findings == (wrong, unsafe, advice, advice)
