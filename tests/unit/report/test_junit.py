"""JUnit: an open verdict never turns into a pass."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

from cuassay.model.outcome import CheckReport, Errored
from cuassay.report.junit import junit
from tests.support import samples
from tests.support.judged import judged_kernel


def test_junit_counts_and_never_turns_an_open_verdict_into_a_pass() -> None:
    broken = CheckReport(code="X1", title="t", outcome=Errored(reason="boom", traceback="t\x1b[1m"))
    verdict = dataclasses.replace(
        samples.inconclusive(), checks=(*samples.inconclusive().checks, broken)
    )
    root = ElementTree.fromstring(
        junit([judged_kernel(verdict), judged_kernel(None, stopped="no torch")])
    )
    assert [suite.get("errors") for suite in root] == ["2", "1"]
    assert root.get("errors") == "3"
    assert "no verdict: no torch" in junit([judged_kernel(None, stopped="no torch")])
    accepted = ElementTree.fromstring(junit([judged_kernel(samples.accepted())]))
    assert (accepted.get("failures"), accepted.get("errors")) == ("0", "0")
