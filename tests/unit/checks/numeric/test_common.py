"""Findings of comparisons: how bad they are, and what they say."""

from __future__ import annotations

import dataclasses
import math

import pytest

from cuassay.checks.numeric.common import (
    comparison_finding,
    fill_text,
    message,
    one_by_one,
    single_call,
    worst_statistic,
)
from cuassay.checks.numeric.values import Num001
from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Allocate, Call, ReadResult, Release
from cuassay.oracle.compare.groups import Statistic
from cuassay.oracle.compare.outputs import Comparison
from tests.support.fake_trial import row_sum

_CASE = Case(label="c", axes={"rows": 2, "cols": 3}, fills={"x": Fill(kind="normal")})


def _comparison(**changes: object) -> Comparison:
    statistic = Statistic(name="G", value=5.0, limit=2.5, group="axis rows, slice 1")
    made = Comparison(
        output="y", passed=False, share=2.0, statistics=(statistic,), worst_index=(1,), got=1.5,
        expected=1.0, relative_error=1e-4, trusted_relative_error=1e-6,
    )  # fmt: skip
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def _finding(comparison: Comparison, *, in_domain: bool = True) -> Finding:
    case = dataclasses.replace(_CASE, in_domain=in_domain)
    scenario = single_call(case, label="plain")
    return comparison_finding(Num001(), row_sum(), scenario, case, comparison, lead="at rows = 2")


def test_a_finding_says_where_by_how_much_and_what_was_allowed() -> None:
    found = _finding(_comparison())
    assert found.message.startswith("at rows = 2: y[1] is 1.5, expected 1; the mean error is 5 ")
    assert "axis rows, slice 1, allowed 2.5" in found.message
    assert (found.measured, found.allowed, found.statistic) == (5.0, 2.5, "the mean error")
    assert found.where.fills == {"x": "normal"}


@pytest.mark.parametrize(
    ("got", "expected", "error", "severity"),
    [
        (1.5, 1.0, 0.0, Severity.CRITICAL),
        (1.002, 1.0, 0.0, Severity.HIGH),
        (1.0 + 1e-5, 1.0, 0.0, Severity.MEDIUM),
        (1.0 + 1e-5, 1.0, 0.2, Severity.CRITICAL),
        (math.nan, 1.0, 0.0, Severity.CRITICAL),
        (0.0, 0.0, 0.0, Severity.MEDIUM),
    ],
)
def test_severity_follows_the_size_of_the_error(
    got: float, expected: float, error: float, severity: Severity
) -> None:
    found = _finding(_comparison(got=got, expected=expected, relative_error=error))
    worst_of_both = min((Num001.severity, severity), key=lambda one: -list(Severity).index(one))
    assert found.severity is worst_of_both


def test_outside_the_domain_a_wrong_number_is_advice() -> None:
    found = _finding(_comparison(), in_domain=False)
    assert (found.finding_class, found.severity) == (FindingClass.ADVICE, Severity.LOW)


def test_causes_that_the_comparison_itself_tells() -> None:
    wrong_shape = _finding(_comparison(mismatch="output 'y' has shape [3]"))
    assert wrong_shape.cause is Cause.WRONG_STRUCTURE
    assert wrong_shape.message.endswith("output 'y' has shape [3]")
    classes = (Statistic(name="class", value=1.0, limit=0.0, group="whole tensor"),)
    born = _finding(_comparison(statistics=classes, got=math.inf))
    assert born.cause is Cause.OUT_OF_RANGE
    kept = _finding(_comparison(statistics=classes, got=1.0, expected=math.inf))
    assert kept.cause is not Cause.OUT_OF_RANGE


def test_an_output_of_another_shape_has_no_element_to_show() -> None:
    comparison = _comparison(
        mismatch="output 'y' has shape [2, 1], expected [2]", statistics=(), worst_index=(),
        got=math.nan, expected=math.nan,
    )  # fmt: skip
    where = _finding(comparison).where
    assert (where.got, where.expected, where.index) == ("", "", ())


def test_the_group_that_is_off_most_is_named() -> None:
    groups = {"rows with 1 hit": (1e-4, 1e-4), "rows with >= 256 hits": (9e-2, 1e-4)}
    comparison = _comparison(groups=groups)
    text = message(comparison, worst_statistic(comparison))
    assert (
        "relative error 9.00e-02 on rows with >= 256 hits where a trusted kernel has 1.00e-04"
        in (text)
    )


def test_without_an_overspent_statistic_there_is_none_to_name() -> None:
    fine = _comparison(statistics=(Statistic(name="G", value=1.0, limit=2.5, group="g"),))
    assert worst_statistic(fine) is None
    assert message(fine, None) == "y: outside the achievable error"


def test_a_fill_in_words_cuts_long_lists() -> None:
    assert fill_text(Fill(kind="zeros")) == "zeros"
    assert fill_text(Fill(kind="normal", parameters={"scale": 30})) == "normal(scale=30)"
    long = Fill(kind="explicit", parameters={"values": tuple(range(20))})
    assert fill_text(long) == "explicit(values=(0, 1, 2, 3, 4, 5, 6, 7, ... 20 values))"


def test_calls_one_by_one_let_go_of_each_result() -> None:
    steps = one_by_one([3, 1])
    assert [type(step) for step in steps] == [Allocate, Call, ReadResult, Release] * 2
    assert [step.result for step in steps if isinstance(step, Call)] == ["r0", "r1"]
    same = one_by_one([0, 0], numbered=False)
    assert [step.result for step in same if isinstance(step, Call)] == ["r", "r"]
