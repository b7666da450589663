"""What lanes find is told in the order of one lane, whichever of them was first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.checks.base import Check
from cuassay.checks.gpu.timing import Perf001
from cuassay.checks.numeric.determinism import Det001
from cuassay.checks.numeric.shapes import Shp001
from cuassay.checks.numeric.values import Num001
from cuassay.judge.decide.examine import Examined
from cuassay.judge.lanes import CheckLane, Lanes, Teller
from cuassay.judge.run.budget import TimeBudget
from cuassay.model.events import CheckFinished, CheckStarted, Event, FindingReported
from cuassay.model.jobs import Stop
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass, Passed, Severity
from tests.support.fake_trial import scaled_add
from tests.support.judging import bench

CHECKS = (Num001(), Shp001(), Det001())


def _finding(code: str, number: int) -> Finding:
    return Finding(
        code=code,
        title="",
        message=f"{code} {number}",
        classes=(),
        finding_class=FindingClass.WRONG,
        severity=Severity.CRITICAL,
        id=f"{code}.{number}",
    )


def _all_of(teller: Teller, code: str, *findings: Finding) -> None:
    tell = teller.of(code)
    tell(CheckStarted(code=code, title=""))
    for finding in findings:
        tell(FindingReported(finding=finding))
    outcome = Failed(findings=findings) if findings else Passed(summary="1 scenario")
    tell(CheckFinished(report=CheckReport(code=code, title="", outcome=outcome)))


def test_a_check_is_told_once_those_before_it_have_ended() -> None:
    told: list[Event] = []
    teller = Teller(CHECKS, told.append, label="RUN")
    _all_of(teller, "DET001", _finding("DET001", 1))
    assert told == []
    teller.of("NUM001")(CheckStarted(code="NUM001", title=""))
    assert told == [CheckStarted(code="NUM001", title="")]  # as it goes
    _all_of(teller, "SHP001", _finding("SHP001", 1), _finding("SHP001", 2))
    assert len(told) == 1
    report = CheckReport(code="NUM001", title="", outcome=Passed(summary="1 scenario"))
    teller.of("NUM001")(CheckFinished(report=report))
    assert [one.report.code for one in told if isinstance(one, CheckFinished)] == [
        "NUM001",
        "SHP001",
        "DET001",
    ]
    ids = [one.finding.id for one in told if isinstance(one, FindingReported)]
    assert ids == ["F1", "F2", "F3"]
    (last,) = teller.reports[-1].wrong
    assert (last.id, last.reproduce) == ("F3", "cuassay replay RUN/F3")


def test_what_cannot_be_built_is_the_only_report_and_nothing_is_told_after_it() -> None:
    told: list[Event] = []
    teller = Teller(CHECKS, told.append, label="RUN")
    late = teller.of("SHP001")
    late(CheckStarted(code="SHP001", title=""))
    unbuilt = _finding("", 0)
    failed = Failed(findings=(unbuilt,))
    teller.stop(CheckReport(code="BUILD001", title="", outcome=failed))
    late(CheckFinished(report=CheckReport(code="SHP001", title="", outcome=Passed(summary=""))))
    assert [report.code for report in teller.reports] == ["BUILD001"]
    assert len(told) == 1
    assert teller.reports[0].wrong[0].id == "F1"


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _lanes(clock: _Clock, executed: Sequence[str] = ()) -> Lanes:
    nothing: Any = None
    return Lanes(
        nothing,
        nothing,
        nothing,
        Teller(CHECKS, lambda event: None, label="RUN"),
        planned=[check.code for check in CHECKS],
        executed=executed,
        stop=Stop.NEVER,
        several=False,
        budget=TimeBudget(10.0, clock=clock),
    )


def test_a_check_hurries_where_half_of_the_time_is_over_and_what_a_verdict_rests_on_waits() -> None:
    clock = _Clock()
    lanes = _lanes(clock)
    lanes.begun.add("NUM001")
    assert not lanes.hurries(Num001())
    clock.now += 6.0
    assert lanes.hurries(Num001())  # another size was not judged, and no check of it began
    assert list(lanes.budget.cut) == ["NUM001"]
    lanes.begun.add("SHP001")
    assert not lanes.hurries(Shp001())  # the time left is its own, though DET001 waits
    assert list(lanes.budget.cut) == ["NUM001"]


def test_at_the_end_a_check_leaves_the_time_to_what_was_executed_beside_it() -> None:
    clock = _Clock()
    lanes = _lanes(clock, executed=("DET001",))
    lanes.begun |= {"NUM001", "SHP001"}
    clock.now += 8.0
    assert not lanes.hurries(Shp001())
    clock.now += 1.0
    assert lanes.hurries(Shp001())
    lanes.begun.add("DET001")
    assert not lanes.hurries(Shp001())


@pytest.mark.parametrize(("quiet", "alone"), [(True, {"PERF001"}), (False, set[str]())])
def test_what_began_beside_the_checks_leaves_none_of_them_alone(
    quiet: bool, alone: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process apart runs on the GPU meanwhile: no time of a call is taken from such a run."""

    async def examine(check: Check) -> Examined:
        outcome = Passed(summary="1 scenario")
        return Examined(report=CheckReport(code=check.code, title="", outcome=outcome))

    monkeypatch.setattr(
        CheckLane, "_examination_of", lambda self, check: SimpleNamespace(examine=examine)
    )
    executor: Any = SimpleNamespace(
        fresh=False, is_quiet=quiet, expect=lambda mode: None, run=None, ahead=None
    )
    lanes = _lanes(_Clock())
    lanes.trial = bench(scaled_add(), lambda x, bias, gain: x * gain + bias).trial
    lanes.teller = Teller([Num001(), Perf001()], lambda event: None, label="RUN")
    lane = CheckLane(lanes, executor, parts=lambda before, check: False)
    asyncio.run(lane.run([Num001(), Perf001()]))
    assert lanes.alone == alone
