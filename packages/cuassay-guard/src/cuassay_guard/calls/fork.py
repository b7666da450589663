"""A lock that a forked child does not find taken by a thread that it does not have."""

from __future__ import annotations

import os
import threading


class ForkLock:
    """Gives the lock to take."""

    __slots__ = ("_lock", "_process")

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()

    def mine(self) -> threading.Lock:
        """Return this process's lock; a fresh one in a forked child."""
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        return self._lock
