"""Which findings get a minimal counterexample: one a cause."""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.judge import explain
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass, Severity
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario

_CODES = ("NUM001", "SHP001", "MEM001")


def _report(code: str, cause: Cause | None = None) -> CheckReport:
    finding = Finding(
        code=code,
        id=code,
        title=code,
        message=f"message of {code}",
        classes=(),
        finding_class=FindingClass.WRONG,
        severity=Severity.CRITICAL,
        cause=cause,
        scenario=Scenario(
            label=code,
            cases=(Case(label="one", axes={"rows": 3}, fills={}, scalars={}, seed=1),),
            steps=(
                Allocate(slot="a", case=0),
                Call(slot="a", result="r"),
                ReadResult(result="r"),
            ),
        ),
    )
    return CheckReport(code=code, title=code, outcome=Failed(findings=(finding,)))


@pytest.fixture
def shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every finding be shrunk at once."""

    class Minimiser:
        def __init__(self, *given: object, **more: object) -> None:
            pass

        def minimise(self, finding: Finding) -> Finding:
            return dataclasses.replace(finding, counterexample=f"# smallest of {finding.code}")

    monkeypatch.setattr(explain, "Minimiser", Minimiser)


def _examples(*reports: CheckReport) -> dict[str, str]:
    timeline = SimpleNamespace(span=lambda *names: contextlib.nullcontext())
    bench: Any = SimpleNamespace(
        plan=SimpleNamespace(checks=[SimpleNamespace(code=code) for code in _CODES]),
        trial=SimpleNamespace(timeline=timeline),
        emit=lambda event: None,
    )
    nobody: Any = None
    found = explain.with_smallest_inputs(bench, reports, nobody, nobody)
    return {f.code: f.counterexample for report in found for f in report.wrong if f.counterexample}


@pytest.mark.usefixtures("shrunk")
def test_findings_of_one_cause_share_one_smallest_input() -> None:
    assert _examples(_report("NUM001"), _report("SHP001")) == {"NUM001": "# smallest of NUM001"}


@pytest.mark.usefixtures("shrunk")
def test_each_of_two_causes_has_a_smallest_input() -> None:
    found = _examples(
        _report("NUM001", Cause.NOT_DETERMINISTIC),
        _report("SHP001", Cause.NOT_DETERMINISTIC),
        _report("MEM001", Cause.LAYOUT),
    )
    assert set(found) == {"NUM001", "MEM001"}
