"""Threads of one judge take turns: one thinks while the others wait for their processes.

What a judge knows of a trial is not made for several threads, and Python runs one at a time anyway.
So a thread that judges holds the turn, and gives it away only where it waits: for a worker's
reply, for a process to begin or to end, for another thread. A thread that takes no part in this
waits as if there were no turns.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_MINE = threading.local()  # turn: the lock of a thread that takes turns; missed_s
_AGAIN_S = 0.02


class Turns:
    """The turn of one group of threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the turn in this block, but for where it waits."""
        with self._turn:
            _MINE.turn = self._turn
            try:
                yield
            finally:
                _MINE.turn = None


class Once:
    """What several threads of one judge need: the first one does it, the others wait for it."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do: Callable[[], object] | None = do
        self._free = threading.RLock()

    def __call__(self) -> None:
        """Do it, or wait until it is done; what it raises passes through, once."""
        with waiting():
            self._free.acquire()
        try:
            do, self._do = self._do, None
            if do is not None:
                do()
        finally:
            self._free.release()


def await_readable(sources: Sequence[Any], limit_s: float) -> list[Any]:
    """Return which of the sources can be read, after `limit_s` at the latest; others go on.

    Where others have taken in what this thread waits for, nothing wakes it: with turns it returns
    early, so that it looks again.
    """
    if getattr(_MINE, "turn", None) is not None:
        limit_s = min(limit_s, _AGAIN_S)
    with waiting():
        return select.select(sources, [], [], max(0.0, limit_s))[0]


@contextmanager
def waiting() -> Iterator[None]:
    """Let others go on in this block, which touches nothing that they share."""
    turn: threading.Lock | None = getattr(_MINE, "turn", None)
    if turn is None:
        yield
        return
    turn.release()
    try:
        yield
    finally:
        asked = time.perf_counter()
        turn.acquire()
        _MINE.missed_s = missed_s() + time.perf_counter() - asked


def missed_s() -> float:
    """Return the seconds that this thread waited for its turn while others thought."""
    missed: float = getattr(_MINE, "missed_s", 0.0)
    return missed
