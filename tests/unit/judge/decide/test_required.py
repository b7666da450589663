"""A required condition that nothing decided is never an acceptance."""

from __future__ import annotations

import pytest

from cuassay.checks.registry import DECIDED_BY, codes
from cuassay.judge.decide.required import decide_required
from cuassay.model.conditions import CONDITIONS
from cuassay.model.outcome import CheckReport, Inconclusive, Outcome, Passed, Skipped
from cuassay.model.scope import SCOPE_CONDITIONS
from cuassay.model.verdict import Decision


def _report(outcome: Outcome, *, clean: int = 0, code: str = "DET002") -> CheckReport:
    return CheckReport(code=code, title="a check", outcome=outcome, clean=clean)


@pytest.mark.parametrize(
    "outcome",
    [
        Skipped(reason="no axis is known", applicable=False),
        Inconclusive(reason="no scenario could be judged"),
        Passed(summary="0 scenarios; decided nothing"),
    ],
)
def test_a_required_condition_that_decided_nothing_is_inconclusive(outcome: Outcome) -> None:
    decision, reason = decide_required(
        Decision.ACCEPTED, "fine", [_report(outcome)], require=("batch-invariant",)
    )
    assert decision is Decision.INCONCLUSIVE
    assert reason.startswith("--require batch-invariant: DET002 decided nothing")


def test_one_check_that_judged_something_decides_a_condition() -> None:
    reports = [
        _report(Skipped(reason="needs a GPU", needs_gpu=True), code="KERNEL001"),
        _report(Passed(summary="3 scenarios"), clean=3, code="LAYOUT001"),
    ]
    made = decide_required(Decision.ACCEPTED, "fine", reports, require=("layouts",))
    assert made == (Decision.ACCEPTED, "fine")


def test_a_limit_of_the_scope_does_not_meet_what_is_required() -> None:
    decision, reason = decide_required(
        Decision.ACCEPTED, "fine", [], require=("sizes",), stated=("sizes: rows to 4 of 8",)
    )
    assert decision is Decision.INCONCLUSIVE
    assert reason == "--require sizes is not met: sizes: rows to 4 of 8"


def test_what_is_not_required_and_what_is_rejected_stay_as_they_are() -> None:
    report = _report(Skipped(reason="no axis is known"))
    accepted = decide_required(
        Decision.ACCEPTED, "fine", [report], require=("layouts",), stated=("sizes: 4 of 8",)
    )
    assert accepted[0] is Decision.ACCEPTED
    rejected = decide_required(Decision.REJECTED, "wrong", [report], require=("batch-invariant",))
    assert rejected == (Decision.REJECTED, "wrong")


def test_every_condition_has_a_check_that_decides_it_or_is_one_of_the_verdict_itself() -> None:
    own = {*SCOPE_CONDITIONS, "benchmark", "own-problem"}
    assert set(DECIDED_BY) | own == set(CONDITIONS)
    assert {code for found in DECIDED_BY.values() for code in found} <= set(codes())
