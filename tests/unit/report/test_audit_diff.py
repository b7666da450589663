"""What changed between two audits: regressions first, edits told from changes of cuassay's own."""

from __future__ import annotations

import dataclasses

from cuassay.model.audit import Audit, AuditResult
from cuassay.model.verdict import Decision
from cuassay.report.audit_diff import Difference, difference, document, lines
from tests.support.audits import finding, header, item, result


def _compared(old: list[AuditResult], new: list[AuditResult]) -> Difference:
    first, second = (Audit(header=header(), results=tuple(one)) for one in (old, new))
    return difference(first, second)


def test_what_ended_alike_is_counted_and_nothing_more() -> None:
    found = _compared([result(0), result(1)], [result(0), result(1)])
    assert (found.same, found.changes, found.added, found.removed) == (2, (), (), ())
    assert list(lines(found)) == [
        "2 ended alike, 0 changed (0 no longer accepted), 0 added, 0 removed"
    ]


def test_a_kernel_that_is_no_longer_accepted_comes_first() -> None:
    repaired = dataclasses.replace(result(1), verdict=Decision.ACCEPTED, findings=())
    broken = dataclasses.replace(
        result(0), verdict=Decision.REJECTED, findings=(finding(1),), digest="f" * 64
    )
    found = _compared([result(1), result(0)], [repaired, broken])
    first, second = found.changes
    assert (first.new, second.new) == (broken, repaired)
    assert (first.regressed, second.regressed) == (True, False)
    assert (first.appeared, first.gone, second.gone) == (("STATE001",), (), ("NUM001",))
    assert (first.edited, second.edited) == (True, False)
    shown = list(lines(found))
    assert "1 no longer accepted" in shown[0]
    assert shown[1].split("norm_0 / k0")[1].split() == ["+STATE001", "(edited)"]
    assert shown[2].endswith("-NUM001 (the same files)")


def test_other_findings_of_the_same_verdict_are_a_change() -> None:
    other = dataclasses.replace(result(1), findings=(finding(1),))
    (change,) = _compared([result(1)], [other]).changes
    assert (change.appeared, change.gone, change.regressed) == (("STATE001",), ("NUM001",), False)


def test_a_digest_that_one_side_lacks_says_nothing_of_an_edit() -> None:
    unread = dataclasses.replace(result(0), digest="", verdict=Decision.INCONCLUSIVE)
    (change,) = _compared([result(0)], [unread]).changes
    assert not change.edited
    moved = dataclasses.replace(unread, item=item(0, key="0" * 63 + "f"))
    assert _compared([result(0)], [moved]).changes[0].edited


def test_the_document_has_who_came_and_went_with_clean_names() -> None:
    hostile = result(2, item=item(2, candidate_name="k\x1b[31m"))
    found = document(_compared([result(0)], [hostile]))
    assert [row["candidate"] for row in found["removed"]] == ["k0"]
    (added,) = found["added"]
    assert "\x1b" not in added["candidate"]
    assert added["verdict"] == "ACCEPTED"
