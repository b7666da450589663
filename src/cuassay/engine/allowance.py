"""How long a judge may take: time that it spends waiting for other trials does not count."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cuassay.model.events import Event, Progress


class Deadline:
    """Calls `expire`, once and in a thread of its own, after `limit_s` seconds; None: never.

    It stands still from a `Progress` that says the trial waits for others to its next event.
    """

    def __init__(self, limit_s: float | None, expire: Callable[[], None]) -> None:
        self._left_s, self._expire = limit_s, expire
        self._timer: threading.Timer | None = None
        self._started = 0.0
        self._run()

    def note(self, event: Event) -> None:
        """Follow what the judge says."""
        waits = isinstance(event, Progress) and event.waits
        if waits and self._timer is not None and self._left_s is not None:
            self._left_s = max(self._left_s - (time.monotonic() - self._started), 0.0)
            self.cancel()
        elif not waits and self._timer is None:
            self._run()

    def cancel(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        if self._left_s is not None:
            self._started = time.monotonic()
            self._timer = threading.Timer(self._left_s, self._expire)
            self._timer.daemon = True
            self._timer.start()
