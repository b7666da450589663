"""A trial that has no verdict yet, or ended without one, as an HTML page: what was seen so far."""

from __future__ import annotations

from collections.abc import Iterable

from cuassay.model.events import (
    CaseFinished,
    CheckFinished,
    CheckStarted,
    EngineStarted,
    EngineStopped,
    Event,
    FindingReported,
    Progress,
)
from cuassay.model.outcome import Finding
from cuassay.report import words
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.finding import finding_card
from cuassay.report.html.page import page
from cuassay.report.html.parts import facts, more, section, text
from cuassay.report.html.style import CSS, SCRIPT
from cuassay.report.html.verdict import check_table

_CARDS = 12
SILENT_S = 600.0  # a build and a long scenario stay well below


def render(events: Iterable[Event], *, silent_s: float = 0.0) -> str:
    """Return the page of a trial by the events that it has written.

    `silent_s` is how long ago it wrote the last: after minutes it may well be dead, and the
    page does not say that it runs.
    """
    seen = tuple(events)
    started = next((event for event in seen if isinstance(event, EngineStarted)), None)
    stopped = next((event for event in seen if isinstance(event, EngineStopped)), None)
    name = one_line(started.candidate, limit=120) if started else "a trial"
    silent = silent_s > SILENT_S
    word = "NO VERDICT" if stopped else "SILENT" if silent else "RUNNING"
    named = (started.problem, started.candidate) if started else ()
    listed = "".join(f"<span>{text(name)}</span>" for name in named)
    ended = [event.report for event in seen if isinstance(event, CheckFinished)]
    found: tuple[Finding, ...] = tuple(e.finding for e in seen if isinstance(e, FindingReported))
    telling, rest = words.grouped(found)
    ordered = (*telling, *rest)
    cards = "".join(finding_card(f, pictures=False, text_bytes=2048) for f in ordered[:_CARDS])
    cards += more(len(ordered) - _CARDS, "more")
    planned = next((len(event.checks) for event in seen if isinstance(event, EngineStarted)), 0)
    done = sum(isinstance(event, CheckFinished) for event in seen)
    why = one_line(stopped.message) if stopped else _now(seen)
    count = f"{done} of {planned} checks done" if planned else f"{done} checks done"
    if word == "SILENT":
        why = f"nothing was written for {words.seconds(silent_s)}: it may have been killed. {why}"
    tone = "calm" if word == "RUNNING" else "mid"
    body = (
        f'<div class="top"><b>cuassay</b>{listed}</div>'
        f'<header class="card hero {tone}"><h1 class="word">{word}</h1>'
        f'<p class="why">{html_text(why)}</p>{facts([("progress", count)])}</header>'
    )
    if ordered:
        body += f"<section><h2>What was found so far</h2>{cards}</section>"
    if ended:
        body += section("Checks", check_table(ended))
    return page(
        title=f"{word}: {name}",
        body=body,
        css=CSS,
        script=SCRIPT,
        island={"schema": "cuassay/live/1", "state": word},
        name="live",
    )


def _now(seen: tuple[Event, ...]) -> str:
    """Return what the trial is doing, by its last event."""
    for event in reversed(seen):
        match event:
            case CheckStarted(code=code, title=title):
                return f"{one_line(code, limit=20)} {one_line(title, limit=120)}"
            case CaseFinished(code=code, label=label):
                return f"{one_line(code, limit=20)}: {one_line(label, limit=120)} is done"
            case Progress(text=said):
                return one_line(said)
    return "it begins"
