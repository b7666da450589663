"""Findings: their order, what of a budget they use, and which of them reject."""

from __future__ import annotations

import itertools

from cuassay.model.outcome import (
    CheckReport,
    Failed,
    Finding,
    FindingClass,
    Passed,
    Severity,
    worst_first,
)


def _finding(
    of: FindingClass = FindingClass.WRONG, severity: Severity = Severity.HIGH, *,
    measured: float | None = None, allowed: float | None = None,
) -> Finding:  # fmt: skip
    return Finding(
        code="NUM001", title="t", message="m", classes=(), finding_class=of, severity=severity,
        measured=measured, allowed=allowed,
    )  # fmt: skip


def test_a_share_is_of_a_budget_and_none_where_there_is_no_budget() -> None:
    assert _finding(measured=3.0, allowed=2.0).share == 1.5
    assert _finding(measured=0.0, allowed=2.0).share == 0.0
    for measured, allowed in ((None, 2.0), (3.0, None), (3.0, 0.0)):
        assert _finding(measured=measured, allowed=allowed).share is None


def test_the_worst_comes_first_whatever_the_order_was() -> None:
    ordered = (
        _finding(severity=Severity.CRITICAL),
        _finding(measured=4.0, allowed=1.0),
        _finding(measured=2.0, allowed=1.0),
        _finding(),  # nothing measured: after what is known to be beyond its budget
        _finding(FindingClass.UNSAFE, Severity.CRITICAL, measured=9.0, allowed=1.0),
        _finding(FindingClass.ADVICE, Severity.CRITICAL),
    )
    for mixed in itertools.permutations(ordered):
        assert worst_first(mixed) == ordered


def test_a_condition_keeps_what_was_seen_and_rejects_no_more() -> None:
    wrong = _finding(severity=Severity.CRITICAL, measured=2.0, allowed=1.0)
    unsafe = wrong.as_condition("on one stream")
    assert (unsafe.finding_class, unsafe.severity) == (FindingClass.UNSAFE, Severity.MEDIUM)
    assert (unsafe.condition, unsafe.share) == ("on one stream", 2.0)
    assert wrong.as_condition("c", severity=Severity.LOW).severity is Severity.LOW


def test_only_wrong_findings_of_a_failed_check_reject() -> None:
    wrong, unsafe = _finding(), _finding(FindingClass.UNSAFE)
    report = CheckReport(code="c", title="t", outcome=Failed(findings=(unsafe, wrong)))
    assert report.wrong == (wrong,)
    advised = CheckReport(code="c", title="t", outcome=Passed(), advice=(wrong,))
    assert advised.wrong == ()
