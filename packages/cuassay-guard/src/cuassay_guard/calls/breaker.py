"""The circuit breaker of one signature: closed, open, half-open.

closed     the kernel serves
open       the trusted operator serves; after `cooldown_s` the breaker turns half-open
half-open  the trusted operator still serves, the kernel runs beside it as a probe: `probes`
           clean ones close the breaker, a bad one opens it for twice as long (up to an hour)
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable

_LONGEST_S = 3600.0


class State(enum.StrEnum):
    """Who serves the calls of a signature."""

    CLOSED = "closed"
    HALF_OPEN = "half-open"
    OPEN = "open"


class Breaker:
    """State of one signature; `changed` is called with the new state, outside the lock."""

    def __init__(
        self,
        *,
        open_after: int,
        cooldown_s: float,
        probes: int,
        changed: Callable[[State], None] = lambda state: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_after, self._cooldown_s, self._probes = open_after, cooldown_s, probes
        self._changed, self._clock = changed, clock
        self._lock = threading.Lock()
        self._state = State.CLOSED
        self._violations = self._clean = 0
        self._pause_s, self._until = cooldown_s, 0.0

    @property
    def state(self) -> State:
        """The present state; an open breaker whose time is over turns half-open."""
        state = self._state  # one read: other threads write
        if state is State.OPEN and self._clock() >= self._until:
            self._to(State.HALF_OPEN, only_from=State.OPEN)
            return self._state
        return state

    def violation(self) -> None:
        """Count a violation; may open the breaker."""
        with self._lock:
            self._violations += 1
            if self._state is State.HALF_OPEN:
                self._pause_s = min(2 * self._pause_s, _LONGEST_S)
            elif self._violations < self._open_after:
                return
            self._until = self._clock() + self._pause_s
            self._clean = 0
        self._to(State.OPEN)

    def clean(self) -> None:
        """Count a call that was checked and found right; may close a half-open breaker."""
        with self._lock:
            if self._state is not State.HALF_OPEN:
                return
            self._clean += 1
            if self._clean < self._probes:
                return
            self._violations, self._pause_s = 0, self._cooldown_s
        self._to(State.CLOSED)

    def _to(self, state: State, *, only_from: State | None = None) -> None:
        with self._lock:
            if self._state is state or (only_from is not None and self._state is not only_from):
                return
            self._state, self._clean = state, 0
        self._changed(state)
