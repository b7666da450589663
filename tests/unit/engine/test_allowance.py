"""A trial's time limit counts its own time alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cuassay.engine.allowance import Deadline
from cuassay.model.events import Progress


class _Clock:
    """Stands in for `threading.Timer` and the clock: `passes` lets seconds go by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self._due: tuple[float, Callable[[], None]] | None = None
        monkeypatch.setattr("cuassay.engine.allowance.time.monotonic", lambda: self.now_s)
        monkeypatch.setattr("cuassay.engine.allowance.threading.Timer", self._timer)

    def _timer(self, seconds: float, expire: Callable[[], None]) -> _Clock:
        self._next = (self.now_s + seconds, expire)
        return self

    def start(self) -> None:
        self._due = self._next

    def cancel(self) -> None:
        self._due = None

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        if self._due is not None and self._due[0] <= self.now_s:
            due, self._due = self._due, None
            due[1]()


def test_time_spent_waiting_for_others_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ended = _Clock(monkeypatch), list[float]()
    limit = Deadline(10.0, lambda: ended.append(clock.now_s))
    clock.passes(6)
    limit.note(Progress(text="waits for 14 GiB", waits=True))
    clock.passes(100)
    limit.note(Progress(text="has the memory that it waited for"))
    clock.passes(3)
    limit.note(Progress(text="another line"))
    assert not ended
    clock.passes(1)
    assert ended == [110.0]


def test_without_a_limit_nothing_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ended = _Clock(monkeypatch), list[float]()
    limit = Deadline(None, lambda: ended.append(clock.now_s))
    limit.note(Progress(text="waits", waits=True))
    limit.note(Progress(text="goes on"))
    clock.passes(1e9)
    limit.cancel()
    assert not ended
