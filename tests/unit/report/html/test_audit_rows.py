"""The table of an audit's candidates: worst first, escaped, and with working filters."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from cuassay.model.audit import AuditResult
from cuassay.model.verdict import Decision
from cuassay.report.html import audit_rows
from tests.support import audits


def _section(*results: AuditResult) -> str:
    made = dataclasses.replace(audits.audit(0), results=results)
    return audit_rows.candidates_section(made)


def _result(number: int, verdict: Decision | None, **changes: object) -> AuditResult:
    made = audits.result(number)
    return dataclasses.replace(made, verdict=verdict, **changes)  # type: ignore[arg-type]


def test_the_worst_kernels_come_first() -> None:
    finding = audits.finding(0)
    shares = [dataclasses.replace(finding, share=share) for share in (2.0, math.nan, 90.0)]
    results = [
        _result(1, Decision.ACCEPTED, findings=()),
        _result(2, Decision.REJECTED, findings=(shares[0],)),
        _result(3, Decision.INCONCLUSIVE, findings=()),
        _result(4, Decision.REJECTED, findings=(shares[2], shares[0])),
        _result(5, None, findings=()),
    ]
    order = re.findall(r'<tbody id="c-0*(\d)"', _section(*results))
    assert order == ["4", "2", "3", "5", "1"]
    assert 'data-n="NaN"' in _section(_result(6, Decision.REJECTED, findings=(shares[1],)))


def test_a_wrong_kernel_that_their_rule_accepts_is_marked() -> None:
    rejected = _result(1, Decision.REJECTED, theirs=True)
    assert audit_rows.clash(rejected)
    assert 'data-clash="1"' in _section(rejected)
    for other in (
        _result(1, Decision.REJECTED, theirs=False),
        _result(1, Decision.REJECTED, theirs=None),
        _result(1, Decision.ACCEPTED, theirs=True),
    ):
        assert not audit_rows.clash(other)
    assert "not evaluated" in _section(_result(1, Decision.ACCEPTED, theirs=None))


def test_names_cannot_leave_their_place() -> None:
    item = audits.item(1, id='a"b<c', candidate_name="<script>", author='x" onload="y')
    page = _section(_result(1, Decision.REJECTED, item=item))
    assert "<script>" not in page
    assert 'onload="y' not in page
    assert audit_rows.anchor(_result(1, None, item=item)) == "c-a_b_c"


@pytest.mark.parametrize(
    ("value", "link"),
    [("a b", "family=a-b"), ("a&b=c", "family=a%26b%3Dc"), ("ü", "family=%C3%BC")],
)
def test_a_filter_link_holds_any_name(value: str, link: str) -> None:
    assert audit_rows.filter_link("family", value) == link


def test_a_result_says_how_it_ended_where_it_has_no_verdict() -> None:
    assert audit_rows.word(_result(1, Decision.REJECTED)) == "REJECTED"
    undecided = _result(1, None)
    assert audit_rows.word(undecided) == undecided.ending.value.upper()
    assert audit_rows.tone(undecided) == "calm"


def test_many_candidates_are_cut_and_the_rest_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_rows, "ROWS", 2)
    page = _section(*(_result(number, Decision.ACCEPTED) for number in range(5)))
    assert page.count("<tbody") == 2
    assert "and 3 more kernels" in page


def test_findings_of_one_kernel_are_cut_and_counted() -> None:
    found = tuple(audits.finding(number, id=f"F{number}") for number in range(9))
    assert "and 3 more, all in the JSON report" in _section(
        _result(1, Decision.REJECTED, findings=found)
    )
