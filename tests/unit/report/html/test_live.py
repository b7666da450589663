"""The page of a trial that has no verdict: running, silent or stopped."""

from __future__ import annotations

from cuassay.model.events import (
    CaseFinished,
    CheckFinished,
    CheckStarted,
    EngineStopped,
    Event,
    FindingReported,
    Progress,
)
from cuassay.model.outcome import CheckReport, Passed
from cuassay.report.html.live import SILENT_S, render
from tests.support import samples

_STARTED = samples.events(samples.accepted())[0]


def _page(*events: Event, silent_s: float = 0.0) -> str:
    return render((_STARTED, *events), silent_s=silent_s)


def test_a_running_trial_says_what_it_does_and_how_far_it_is() -> None:
    report = CheckReport(code="NUM001", title="t", outcome=Passed())
    page = _page(
        CheckStarted(code="NUM001", title="t"),
        CheckFinished(report=report),
        CheckStarted(code="SHP001", title="Other <shapes>"),
    )
    assert '<h1 class="word">RUNNING</h1>' in page
    assert "SHP001 Other &lt;shapes&gt;" in page
    assert "1 of " in page
    ended = _page(CaseFinished(code="SHP001", label="rows=3", duration_s=1.0))
    assert "SHP001: rows=3 is done" in ended
    assert "compiling" in _page(Progress(text="compiling"))
    assert "it begins" in render(())


def test_a_trial_that_wrote_nothing_for_minutes_may_be_dead() -> None:
    assert "SILENT" not in _page(silent_s=SILENT_S)
    assert '<h1 class="word">SILENT</h1>' in _page(silent_s=SILENT_S + 1)


def test_a_trial_that_stopped_says_why_however_long_ago() -> None:
    page = _page(EngineStopped(exit_code=3, message="no <tool>"), silent_s=9999)
    assert '<h1 class="word">NO VERDICT</h1>' in page
    assert "no &lt;tool&gt;" in page


def test_what_was_found_so_far_is_shown() -> None:
    page = _page(FindingReported(finding=samples.hot_rows()))
    assert "What was found so far" in page
    assert 'id="F1"' in page
