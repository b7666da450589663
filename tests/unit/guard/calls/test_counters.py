"""Counters of what became of calls."""

from __future__ import annotations

from cuassay_guard.calls.counters import EventCounts


def test_a_call_is_settled_once() -> None:
    tally, ticket, other = EventCounts(), object(), object()
    tally.submit(ticket)
    tally.submit(other)
    tally.settle(ticket, "checked")
    tally.settle(ticket, "lost")
    tally.add("checked")
    assert tally.items() == {"submitted": 2, "checked": 2, "done": 1}
    tally.settle(other, "lost")
    assert (tally["lost"], tally["done"]) == (1, 2)
