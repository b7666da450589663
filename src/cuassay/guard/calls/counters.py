"""Counters that cost a plain addition: each thread adds in its own slot, readers sum the slots.

No lock and no atomic on the hot path: only its own thread writes to a slot. Slots of threads
that ended are folded into a total, so that many short threads leave nothing behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass

_FOLD_EVERY = 32


class ThreadCounters:
    """One thread's counters of one guard, and its distance to the next sampled call."""

    __slots__ = ("calls", "fallbacks", "left", "sampled", "thread")

    def __init__(self, left: int) -> None:
        self.calls = 0
        self.sampled = 0
        self.fallbacks = 0
        self.left = left
        self.thread = weakref.ref(threading.current_thread())

    @property
    def ended(self) -> bool:
        """Whether the thread that wrote here can write no more."""
        thread = self.thread()
        return thread is None or not thread.is_alive()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """Sums over all threads."""

    calls: int = 0
    sampled: int = 0
    fallbacks: int = 0

    def plus(self, slot: ThreadCounters) -> CallTotals:
        """Return the totals with a slot added."""
        return CallTotals(
            calls=self.calls + slot.calls,
            sampled=self.sampled + slot.sampled,
            fallbacks=self.fallbacks + slot.fallbacks,
        )


class Slots:
    """The slots of one guard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: list[ThreadCounters] = []
        self._ended = CallTotals()

    def add(self, left: int) -> ThreadCounters:
        """Return a new slot for the calling thread."""
        slot = ThreadCounters(left)
        with self._lock:
            if len(self._slots) % _FOLD_EVERY == _FOLD_EVERY - 1:
                self._fold()
            self._slots.append(slot)
        return slot

    def totals(self) -> CallTotals:
        """Return the sums as of now."""
        with self._lock:
            self._fold()
            found = self._ended
            for slot in self._slots:
                found = found.plus(slot)
        return found

    def __len__(self) -> int:
        return len(self._slots)

    def _fold(self) -> None:
        kept = []
        for slot in self._slots:
            if slot.ended:
                self._ended = self._ended.plus(slot)
            else:
                kept.append(slot)
        self._slots = kept


class EventCounts:
    """Named counts that are written seldom, under a lock: by checks, not by calls.

    A call on its way through the checks is a ticket. Its end is counted once: counts and open
    tickets change together, by one assignment, wherever the checker's thread may be killed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: tuple[dict[str, int], frozenset[object]] = ({}, frozenset())
        self._process = os.getpid()

    def add(self, name: str, count: int = 1) -> int:
        """Add to a count and return it."""
        with self._mine():
            counts = self._state[0]
            counts[name] = found = counts.get(name, 0) + count
        return found

    def submit(self, ticket: object) -> None:
        """Count a call as submitted; `settle` says what became of it."""
        with self._mine():
            counts, tickets = self._state
            self._state = (_more(counts, ("submitted",)), tickets | {ticket})

    def settle(self, ticket: object, outcome: str) -> None:
        """Count what became of a call, and that it is done; nothing where that is known."""
        with self._mine():
            counts, tickets = self._state
            if ticket in tickets:
                self._state = (_more(counts, (outcome, "done")), tickets - {ticket})

    def __getitem__(self, name: str) -> int:
        return self._state[0].get(name, 0)

    def items(self) -> dict[str, int]:
        """Return a copy of all counts."""
        with self._lock:
            return dict(self._state[0])

    def _mine(self) -> threading.Lock:
        """Return the lock; a fresh one in a forked child, where its owner may not exist."""
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        return self._lock


def _more(counts: dict[str, int], names: tuple[str, ...]) -> dict[str, int]:
    return counts | {name: counts.get(name, 0) + 1 for name in names}
