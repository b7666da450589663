"""Numbers and sentences that every sink shares."""

from __future__ import annotations

import dataclasses
import math

import pytest

from cuassay.model.outcome import CheckReport, Errored, Failed, Passed, Skipped
from cuassay.model.verdict import AxisCoverage, BenchmarkRule, Decision, Profile
from cuassay.report import words
from tests.support import samples


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "not measured"),
        (0.0, "0"),
        (0.0892, "0.0892"),
        (0.00486, "0.00486"),
        (18.354, "18.4"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (1234.5, "1 234"),
        (3.1e-7, "3.10e-7"),
        (2.5e12, "2.50e12"),
        (math.nan, "NaN"),
        (math.inf, "infinite"),
        (-math.inf, "-infinite"),
    ],
)
def test_number(value: float | None, expected: str) -> None:
    assert words.number(value) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, ""),
        (0.734, "73 % of the allowed error"),
        (18.354, "18.4 times the allowed error"),
        (math.inf, "infinite times the allowed error"),
        (math.nan, "NaN"),
    ],
)
def test_times(share: float | None, expected: str) -> None:
    assert words.times(share) == expected


@pytest.mark.parametrize(
    ("value_s", "expected"),
    [(0.0, "0.0 s"), (0.03, "30 ms"), (9.66, "9.7 s"), (130.0, "2 min 10 s")],
)
def test_seconds(value_s: float, expected: str) -> None:
    assert words.seconds(value_s) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), "rows: no size was tried"),
        ((7,), "rows: 7"),
        (tuple(range(1, 9)), "rows: 1, 2, 3, 4, 5, 6, 7, 8"),
        (tuple(range(1, 18)), "rows: 1, 2, 3, 4, 5, 6, 7 ... 17 (17 values)"),
    ],
)
def test_coverage_line(values: tuple[int, ...], expected: str) -> None:
    assert words.coverage_line(AxisCoverage(axis="rows", values=values)) == expected


def test_a_ratio_that_misses_never_reads_as_whole() -> None:
    rule = BenchmarkRule(
        accepted=False, matched_ratio=0.99999999, required_ratio=1.0, atol=0, rtol=0, workload=""
    )
    verdict = dataclasses.replace(samples.rejected(), benchmark_rule=rule)
    assert words.rule_sides(verdict).theirs_why.startswith("99.9999 %")


def test_sides_differ_only_where_both_decided() -> None:
    assert words.rule_sides(samples.rejected()).differ
    assert not words.rule_sides(samples.accepted()).differ
    assert words.rule_sides(samples.inconclusive()).theirs == "NOT EVALUATED"
    assert not words.rule_sides(samples.inconclusive()).differ


def test_our_side_names_the_measure() -> None:
    assert "NUM002, 18.4 times the allowed error" in words.rule_sides(samples.rejected()).ours_why
    assert "73 % of the allowed error" in words.rule_sides(samples.accepted()).ours_why


def test_findings_without_id_get_one_and_a_command() -> None:
    bare = dataclasses.replace(samples.hot_rows(), id="", reproduce="")
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=(bare,)))
    verdict = dataclasses.replace(samples.rejected(), checks=(check,), run="r")
    (found,) = words.identified(verdict)
    assert (found.id, found.reproduce) == ("F1", "cuassay replay r/F1")


def test_not_checked_lists_everything_without_an_answer() -> None:
    lines = words.not_checked(samples.rejected())
    assert [line.split()[0] for line in lines] == ["DET001", "MEM001", "these", "not"]
    assert any("truth is float32" in line for line in words.not_checked(samples.inconclusive()))


def test_a_check_that_does_not_apply_is_no_gap() -> None:
    skipped = CheckReport(
        code="NUM002", title="t", outcome=Skipped(reason="no reduction", applicable=False)
    )
    verdict = dataclasses.replace(samples.accepted(), checks=(skipped,))
    assert words.not_checked(verdict) == (words.NO_CHECK_YET,)
    assert not words.applies(skipped)


def test_outcome_words_cover_the_union() -> None:
    errored = CheckReport(code="X", title="t", outcome=Errored(reason="boom"))
    passed = CheckReport(code="X", title="t", outcome=Passed(summary="all well"))
    assert words.outcome_word(errored) == "errored"
    assert words.outcome_reason(passed) == "all well"


@pytest.mark.parametrize(
    ("decision", "profile", "expected"),
    [
        (Decision.INCONCLUSIVE, Profile.QUICK, "cuassay doctor"),
        (Decision.ACCEPTED, Profile.QUICK, "--profile standard"),
        (Decision.ACCEPTED, Profile.STANDARD, "--profile deep"),
    ],
)
def test_next_step(decision: Decision, profile: Profile, expected: str) -> None:
    verdict = dataclasses.replace(samples.accepted(), decision=decision, profile=profile)
    assert expected in words.next_step(verdict)


def test_nothing_is_next_after_a_deep_acceptance() -> None:
    assert words.next_step(dataclasses.replace(samples.accepted(), profile=Profile.DEEP)) == ""
    assert words.next_step(samples.rejected()) == "cuassay explain NUM002"


def test_block_cuts_and_says_how_much() -> None:
    assert words.block("a\nb\nc\nd", lines=3) == ("a", "b", "... 2 more lines in the run folder")
    assert words.block("a\nb\n", lines=3) == ("a", "b")
