"""The thread that checks sampled calls, one for all guards of a process.

It starts with the first sampled call and again should it die; the job that it held is then
counted as lost and its memory given back. Callers never wait for it: a full queue drops, and
nothing that a caller does takes a lock that the thread could die with. (A thread killed inside
`Condition.__enter__`, which is Python, leaves its lock taken for ever; SimpleQueue is C.)
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

_QUEUE = 256
_TICK_S = 1.0
_POLL_S = 0.002


class SampledCheck(Protocol):
    """One sampled call that waits for its check."""

    started: bool

    def run(self) -> None:
        """Check it. Must not raise for what the kernel or the trusted operator do."""

    def lost(self) -> None:
        """Give up on it: count it and free what it holds."""


class Checker:
    """A bounded queue and its thread."""

    def __init__(self, *, capacity: int = _QUEUE, tick_s: float = _TICK_S) -> None:
        self._capacity, self._tick_s = capacity, tick_s
        self._ticks: list[Callable[[], None]] = []
        self._closers: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []
        self.restarts = 0
        self._reset()

    def _reset(self) -> None:
        self._starting = threading.Lock()  # taken by callers alone, and never waited for
        self._queue: queue.SimpleQueue[SampledCheck | None] = queue.SimpleQueue()
        self.stopping = False
        self._open: dict[int, SampledCheck] = {}  # submitted and not finished
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()
        self._pauses: set[object] = set()
        self._busy = False

    def every_tick(self, do: Callable[[], None]) -> None:
        """Call `do` about once a second while there are guards; its exceptions are dropped."""
        if do not in self._ticks:
            self._ticks.append(do)

    def submit(self, job: SampledCheck) -> bool:
        """Queue a job; False where the queue is full. Never waits."""
        if self._owner != os.getpid():  # a forked child: its parent's thread is not there
            self._reset()
        if self.stopping or len(self._open) >= self._capacity:
            return False
        self._open[id(job)] = job
        self._queue.put(job)
        self.start()
        return True

    def start(self) -> None:
        """Make sure that the thread runs."""
        if self._owner != os.getpid():
            self._reset()
        thread = self._thread
        if self.stopping or (thread is not None and thread.is_alive()):
            return
        if self._starting.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._starting.release()

    def _start(self) -> None:
        """Start the thread, perhaps again: what it held is lost, what waits is queued anew."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._thread is not None:
            self.restarts += 1
            self._queue = queue.SimpleQueue()
            for key, job in list(self._open.items()):
                if job.started:
                    self._open.pop(key, None)
                    job.lost()
                else:
                    self._queue.put(job)
        made = threading.Thread(target=self._work, name="cuassay-guard", daemon=True)
        made.start()
        self._thread = made

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is queued or being checked; False after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while self._open:
            self.start()
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
        return True

    @property
    def pending(self) -> int:
        """How many jobs wait or are being checked."""
        return len(self._open)

    def _work(self) -> None:
        due = time.monotonic() + self._tick_s
        while not self.stopping:
            with contextlib.suppress(queue.Empty):
                job = self._queue.get(timeout=max(0.0, due - time.monotonic()))
                if job is not None:
                    self._one(job)
                del job
            if time.monotonic() >= due:
                for do in self._ticks:
                    # An exporter that fails must not stop checks.
                    with contextlib.suppress(Exception):
                        do()
                due = time.monotonic() + self._tick_s

    def _one(self, job: SampledCheck) -> None:
        if job.started or id(job) not in self._open:  # queued twice around a restart
            return
        self._busy = True
        try:
            while self._pauses and not self.stopping:
                self._busy = False
                time.sleep(_POLL_S)
                self._busy = True
            job.started = True
            job.run()
            self._open.pop(id(job), None)
        finally:
            self._busy = False

    @contextlib.contextmanager
    def paused(self, timeout_s: float = 30.0) -> Iterator[None]:
        """Let no check run inside; waits for the one that is running, at most `timeout_s`."""
        mine = object()
        self._pauses.add(mine)
        try:
            until = time.monotonic() + timeout_s
            while self._busy and time.monotonic() < until:
                time.sleep(_POLL_S)
            yield
        finally:
            self._pauses.discard(mine)

    def at_stop(self, do: Callable[[], None], *, after: bool = False) -> None:
        """Call `do` at the interpreter's exit: to cut short what a check may be waiting for.

        With `after`, once no check runs any more.
        """
        (self._last if after else self._closers).append(do)

    def stop(self, timeout_s: float = 20.0) -> None:
        """End the thread and forget what waits; at the interpreter's exit.

        A thread that is still inside torch while the interpreter goes down aborts the process.
        """
        self.stopping = True
        thread = self._thread if self._owner == os.getpid() else None
        for do in self._closers:
            with contextlib.suppress(Exception):
                do()
        self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
        for do in self._last:
            with contextlib.suppress(Exception):
                do()
        for key, job in list(self._open.items()):
            if not job.started:
                self._open.pop(key, None)
                job.lost()


CHECKER = Checker()
atexit.register(CHECKER.stop)
