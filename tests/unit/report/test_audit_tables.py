"""What an audit's tables count, on audits small enough to count by hand."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cuassay.audit.condense import of_verdict
from cuassay.model.audit import Ending
from cuassay.model.diagnosis import Cause, Diagnosis
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Decision
from cuassay.report import audit_json
from cuassay.report import audit_tables as tables
from tests.support import audits, samples


def test_totals_count_both_verdicts() -> None:
    totals = tables.totals(audits.audit(12))
    assert (totals.candidates, totals.judged, totals.unreadable) == (13, 12, 1)
    assert (totals.accepted, totals.rejected, totals.inconclusive) == (6, 4, 2)
    assert totals.accepted_clean == 4
    # Of every six, the fifth is rejected by the benchmark as well.
    assert (totals.theirs_accepted, totals.theirs_accepted_rejected) == (10, 2)
    assert totals.faulty_share == pytest.approx(0.2)


def test_an_audit_without_benchmark_rule_has_no_share() -> None:
    one = audits.audit(0)
    assert tables.totals(one).faulty_share is None
    assert tables.by_problem(one)[0].rejected_share is None


def test_the_family_that_fails_most_comes_first() -> None:
    groups = tables.by_family(audits.audit(12))
    assert [group.name for group in groups[:2]] == ["attention", "softmax"]
    assert groups[0].rejected_share == 1.0
    assert sum(group.candidates for group in groups) == 13


def test_cells_count_candidates_not_findings() -> None:
    cells = tables.cells(audits.audit(6, findings=4))
    assert {cell.failure_class for cell in cells} == {"N1", "S2"}
    assert all(cell.candidates == 1 for cell in cells)


def test_causes_tell_what_the_benchmark_let_through() -> None:
    (cause,) = tables.causes(audits.audit(12))
    assert (cause.code, cause.candidates, cause.theirs_accepted) == ("NUM001", 4, 2)


def test_an_unsafe_finding_of_a_rejected_kernel_is_its_cause() -> None:
    unsafe = audits.finding(0, code="STREAM001", finding_class=FindingClass.UNSAFE)
    one = audits.result(1)
    changed = audits.audit(0)
    rejected = type(one)(
        item=one.item, ending=Ending.JUDGED, verdict=Decision.REJECTED, findings=(unsafe,)
    )
    (cause,) = tables.causes(type(changed)(header=changed.header, results=(rejected,)))
    assert cause.code == "STREAM001"


def test_the_leaderboard_puts_correctness_before_speed() -> None:
    same = {"problem_name": "p"}
    fast_and_wrong = audits.result(1, item=audits.item(1, **same), candidate_us=1.0)
    slow_and_right = audits.result(0, item=audits.item(0, **same), candidate_us=30.0)
    faster_and_right = audits.result(3, item=audits.item(3, **same), candidate_us=20.0)
    base = audits.audit(0)
    audit = type(base)(
        header=base.header, results=(fast_and_wrong, slow_and_right, faster_and_right)
    )
    places = tables.leaderboard(audit)["p"]
    assert [(p.result.item.candidate_name, p.their_rank) for p in places] == [
        ("k3", 2),
        ("k0", 3),
        ("k1", 1),
    ]
    assert places[0].speedup == pytest.approx(3.0)


def test_the_document_is_json_and_carries_what_the_interface_promises() -> None:
    document = json.loads(json.dumps(audit_json.document(audits.audit(12)), allow_nan=False))
    assert document["schema"] == "cuassay/audit/1"
    assert len(document["candidates"]) == 13
    for entry in document["candidates"]:
        assert {"problem", "candidate", "verdict", "conditions", "findings"} <= entry.keys()
    assert document["candidates"][-1]["verdict"] is None
    assert document["candidates"][-1]["ending"] == "unreadable"


def test_a_rejection_carries_its_diagnoses() -> None:
    made = Diagnosis(
        cause=Cause.RACE, words="\x1b[1mtwo threads", remedy="a barrier", findings=("F1",)
    )
    verdict = dataclasses.replace(samples.rejected(), diagnoses=(made,))
    result = of_verdict(audits.item(1), verdict, run="r", attempt=1)
    assert result.diagnoses == (made,)
    [shown] = audit_json.candidate_entry(result)["diagnoses"]
    assert shown["cause"] == "race"
    assert shown["findings"] == ["F1"]
    assert "\x1b" not in shown["words"]


def test_hostile_names_stay_text() -> None:
    nasty = "k\x1b]0;title\x07<script>\u202e"
    one = audits.result(1, item=audits.item(1, candidate_name=nasty), reason=nasty)
    base = audits.audit(0)
    text = json.dumps(audit_json.document(type(base)(header=base.header, results=(one,))))
    assert "\\u001b" not in text
    assert "\\u202e" not in text
