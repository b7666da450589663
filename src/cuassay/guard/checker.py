"""The thread that checks sampled calls, one for all guards of a process.

It starts with the first sampled call and again should it die; the job that it held is then
counted as lost and its memory given back. Callers never wait for it: a full queue drops.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

_QUEUE = 256
_TICK_S = 1.0


class Job(Protocol):
    """One sampled call that waits for its check."""

    def run(self) -> None:
        """Check it. Must not raise for what the kernel or the trusted operator do."""

    def lost(self) -> None:
        """Give up on it: count it and free what it holds."""


class Checker:
    """A bounded queue and its thread."""

    def __init__(self, *, capacity: int = _QUEUE, tick_s: float = _TICK_S) -> None:
        self._capacity, self._tick_s = capacity, tick_s
        self._ticks: list[Callable[[], None]] = []
        self.restarts = 0
        self._reset()

    def _reset(self) -> None:
        self._wake = threading.Condition()
        self._queue: deque[Job] = deque()
        self._current: Job | None = None
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()

    def every_tick(self, do: Callable[[], None]) -> None:
        """Call `do` about once a second while there are guards; its exceptions are dropped."""
        if do not in self._ticks:
            self._ticks.append(do)

    def submit(self, job: Job) -> bool:
        """Queue a job; False where the queue is full. Never waits for a check."""
        if self._owner != os.getpid():  # a forked child: its parent's thread is not there
            self._reset()
        with self._wake:
            if len(self._queue) >= self._capacity:
                return False
            self._queue.append(job)
            self._ensure()
            self._wake.notify()
        return True

    def start(self) -> None:
        """Make sure that the thread runs."""
        if self._owner != os.getpid():
            self._reset()
        with self._wake:
            self._ensure()

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is queued or being checked; False after `timeout_s`."""
        until = time.monotonic() + timeout_s
        with self._wake:
            while self._queue or self._current is not None:
                if self._queue or self._current is not None:
                    self._ensure()
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._wake.wait(min(left, 0.05))
        return True

    @property
    def pending(self) -> int:
        """How many jobs wait or are being checked."""
        return len(self._queue) + (self._current is not None)

    def _ensure(self) -> None:
        """Start the thread, or start it again. Called with the condition held."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._thread is not None:
            self.restarts += 1
        held, self._current = self._current, None
        if held is not None:
            held.lost()
        self._thread = threading.Thread(target=self._work, name="cuassay-guard", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        due = time.monotonic() + self._tick_s
        while True:
            with self._wake:
                if not self._queue:
                    self._wake.wait(max(0.0, due - time.monotonic()))
                job = self._current = self._queue.popleft() if self._queue else None
            if job is not None:
                job.run()
                with self._wake:
                    self._current = None
                    self._wake.notify_all()
                del job
            if time.monotonic() >= due:
                self._tick()
                due = time.monotonic() + self._tick_s

    def _tick(self) -> None:
        for do in self._ticks:
            with contextlib.suppress(Exception):  # an exporter that fails must not stop checks
                do()

    def stop(self) -> None:
        """Forget what waits; at interpreter exit."""
        with self._wake:
            while self._queue:
                self._queue.popleft().lost()


CHECKER = Checker()
atexit.register(CHECKER.stop)
