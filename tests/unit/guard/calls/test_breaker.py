"""The breaker opens after violations, probes, and closes again."""

from __future__ import annotations

from cuassay_guard.calls.breaker import Breaker, State


def test_the_breaker_opens_probes_and_closes() -> None:
    now = [0.0]
    states: list[State] = []
    breaker = Breaker(
        open_after=2, cooldown_s=10, probes=2, changed=states.append, clock=lambda: now[0]
    )
    breaker.violation()
    assert breaker.state == "closed"
    breaker.violation()
    assert breaker.state == "open"
    breaker.clean()  # of a call sampled before it opened
    now[0] = 9.0
    assert breaker.state == "open"
    now[0] = 10.0
    assert breaker.state == "half-open"
    breaker.violation()
    now[0] = 29.0  # twice as long
    assert breaker.state == "open"
    now[0] = 30.0
    assert breaker.state == "half-open"
    breaker.clean()
    assert breaker.state == "half-open"
    breaker.clean()
    assert breaker.state == "closed"
    assert states == ["open", "half-open", "open", "half-open", "closed"]
