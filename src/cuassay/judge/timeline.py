"""Where a trial's seconds go: spans by the judge's clock, since the driver started the trial."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from cuassay.model.verdict import Lane, Span
from cuassay.sandbox.host.parts import Parts


class Timeline:
    """Collects spans. `started` is the trial's beginning as `time.time()` has it.

    `waited_s` passed for what the trial's limit does not count, such as a compiler.
    """

    def __init__(self, started: float | None = None) -> None:
        self.started = time.time() if started is None else started
        self.spans: list[Span] = []
        self.waited_s = 0.0

    def passed(self, lane: Lane, what: str) -> None:
        """Note what took the time from the last span's end, or the trial's beginning, to now."""
        begin_s = self.spans[-1].end_s if self.spans else 0.0
        end_s = time.time() - self.started
        self.spans.append(Span(lane=lane, what=what, begin_s=begin_s, end_s=end_s, parts_s={}))

    @contextmanager
    def span(self, lane: Lane, what: str) -> Iterator[Parts]:
        """Note how long this block takes, also where it raises, and into what it divides it."""
        parts = Parts()
        begin_s = time.time() - self.started
        try:
            yield parts
        finally:
            end_s = time.time() - self.started
            self.spans.append(
                Span(lane=lane, what=what, begin_s=begin_s, end_s=end_s, parts_s=parts.seconds)
            )

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Count this block as waited for."""
        begun = time.time()
        try:
            yield
        finally:
            self.waited_s += time.time() - begun
