"""Spans of a trial: they begin where the last one ended, and are kept where a block raises."""

from __future__ import annotations

import pytest

from cuassay.judge.timeline import Timeline
from cuassay.model.verdict import Lane


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("cuassay.judge.timeline.time.time", lambda: now[0])
    return now


def test_what_passed_reaches_from_the_last_span_to_now(clock: list[float]) -> None:
    kept = Timeline(started=90.0)
    lane = next(iter(Lane))
    kept.passed(lane, "the judge starts")
    clock[0] = 104.0
    kept.passed(lane, "the plan")
    assert [(s.what, s.begin_s, s.end_s) for s in kept.spans] == [
        ("the judge starts", 0.0, 10.0),
        ("the plan", 10.0, 14.0),
    ]


def test_a_block_is_a_span_also_where_it_raises(clock: list[float]) -> None:
    kept = Timeline()  # begins now
    lane = next(iter(Lane))

    def judge() -> None:
        with kept.span(lane, "a check") as parts:
            clock[0] += 3.0
            parts.seconds["values"] = 2.0
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        judge()
    (span,) = kept.spans
    assert (span.lane, span.what, span.begin_s, span.end_s) == (lane, "a check", 0.0, 3.0)
    assert dict(span.parts_s) == {"values": 2.0}


def test_spans_are_kept_in_the_order_of_their_ends(clock: list[float]) -> None:
    kept = Timeline()
    lane = next(iter(Lane))
    with kept.span(lane, "outer"):
        clock[0] += 1.0
        with kept.span(lane, "inner"):
            clock[0] += 1.0
    assert [(s.what, s.begin_s, s.end_s) for s in kept.spans] == [
        ("inner", 1.0, 2.0),
        ("outer", 0.0, 2.0),
    ]


def test_what_was_waited_for_is_added_up(clock: list[float]) -> None:
    kept = Timeline(started=90.0)
    for _ in range(2):
        with kept.waits():
            clock[0] += 30.0
    assert kept.waited_s == 60.0
