"""What nothing decided is never an acceptance: the least of all, and what is required."""

from __future__ import annotations

import pytest

from cuassay.checks.registry import DECIDED_BY, LEAST, codes
from cuassay.judge.decide.required import decide_least, decide_required, undecided_least
from cuassay.model.conditions import CONDITIONS, UNDECIDED
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
    own = {*SCOPE_CONDITIONS, "benchmark", "own-problem", UNDECIDED}
    assert set(DECIDED_BY) | own == set(CONDITIONS)
    assert {code for found in DECIDED_BY.values() for code in found} <= set(codes())


_LEAST = tuple(codes[0] for codes in LEAST.values())


def _ended(*missing: str) -> tuple[Decision, str]:
    reports = [
        _report(Skipped(reason="no time") if code in missing else Passed(), clean=1, code=code)
        for code in (*_LEAST, "DET001")
    ]
    return decide_least(Decision.ACCEPTED, "fine", reports, short=missing, advice="more time")


@pytest.mark.parametrize("code", _LEAST)
def test_time_that_ends_before_the_least_of_an_acceptance_leaves_it_undecided(code: str) -> None:
    decision, reason = _ended(code, "DET001")
    assert decision is Decision.INCONCLUSIVE
    assert f"({code})" in reason
    assert reason.endswith(": more time")
    assert "DET001" not in reason


def test_time_that_ends_after_the_least_of_an_acceptance_changes_nothing() -> None:
    assert _ended("DET001", "SHP002") == (Decision.ACCEPTED, "fine")
    # One scenario of a check that was ended early decides; so does another size of another check.
    assert decide_least(
        Decision.ACCEPTED,
        "fine",
        [_report(Passed(), clean=1, code=code) for code in (*_LEAST[:4], "SHP002", "MEM001")],
        short=("SHP001", "MEM002", "NUM001"),
        advice="more time",
    ) == (Decision.ACCEPTED, "fine")


def test_one_reason_names_all_that_had_no_time_and_another_fault_keeps_its_own() -> None:
    short = _LEAST
    made = decide_least(Decision.INCONCLUSIVE, "NUM001", [], short=short, advice="more time")
    assert all(f"({code}" in made[1] for code in _LEAST)
    assert decide_least(
        Decision.INCONCLUSIVE,
        "a fault of cuassay",
        [_report(Passed(), clean=1, code="NUM001")],
        short=short[1:],
        advice="more time",
    ) == (Decision.INCONCLUSIVE, "a fault of cuassay")


def test_what_does_not_apply_or_was_not_chosen_is_not_missing() -> None:
    only = [_report(Passed(), clean=1, code="NUM001")]
    made = decide_least(Decision.ACCEPTED, "fine", only, short=("DET001",), advice="more time")
    assert made == (Decision.ACCEPTED, "fine")
    wrong = decide_least(Decision.REJECTED, "wrong", [], short=_LEAST, advice="more time")
    assert wrong == (Decision.REJECTED, "wrong")


def test_the_least_of_an_acceptance_names_checks_that_exist() -> None:
    assert {code for row in LEAST.values() for code in row} <= set(codes())


def test_a_check_of_the_least_that_could_not_tell_is_a_condition() -> None:
    why = "between guard zones it raised RuntimeError: no"
    reports = [
        _report(Inconclusive(reason=why), code="MEM002"),
        _report(Passed(), clean=1, code="MEM001"),
        _report(Inconclusive(reason="cut off"), code="SHP002"),
        _report(Inconclusive(reason="no axis"), code="DET002"),
    ]
    condition = undecided_least(reports, short=("SHP002",))
    assert condition == f"undecided: MEM002 could not tell: {why}"
    bound = decide_required(
        Decision.ACCEPTED, "fine", reports, require=(UNDECIDED,), stated=(condition,)
    )
    assert bound[0] is Decision.INCONCLUSIVE
    assert undecided_least(reports[1:], short=("SHP002",)) == ""
