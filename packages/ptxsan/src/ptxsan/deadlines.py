"""Ends what takes too long: one thread watches all launches of a process.

A thread for each launch takes longer to start and to join than most launches take.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Watch:
    """What is due, by number: when (`time.monotonic`), and what to call then.

    The thread lives from the first entry on until it wakes up and finds none. `wakes` is when it
    does: who enters something that is due later need not wake it.
    """

    changed: threading.Condition = field(default_factory=threading.Condition)
    due: dict[int, tuple[float, Callable[[], None]]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    wakes: float = 0.0
    runs: bool = False

    def run(self) -> None:
        """Call what is due until nothing is left."""
        with self.changed:
            while self.due:
                now = time.monotonic()
                for number in [number for number, (at, _) in self.due.items() if at <= now]:
                    self.due.pop(number)[1]()
                self.wakes = min((at for at, _ in self.due.values()), default=now)
                self.changed.wait(self.wakes - now)
            self.runs = False


_watch = _Watch()


@contextmanager
def within(limit_s: float, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` from another thread once this block has taken `limit_s`, never after its end.

    `stop` must be short: other blocks of the process wait for it.
    """
    watch, at = _watch, time.monotonic() + limit_s
    with watch.changed:
        number = next(watch.numbers)
        watch.due[number] = (at, stop)
        if not watch.runs:
            watch.runs = True
            threading.Thread(target=watch.run, name="deadlines", daemon=True).start()
        elif at < watch.wakes:
            watch.changed.notify()
    try:
        yield
    finally:
        with watch.changed:
            watch.due.pop(number, None)


def _begin_anew() -> None:
    """A forked process has none of its parent's threads, and may find its lock taken."""
    global _watch
    _watch = _Watch()


os.register_at_fork(after_in_child=_begin_anew)
