"""Counts of what happens to calls that are checked."""

from __future__ import annotations

from cuassay_guard.calls.fork import ForkLock


class EventCounts:
    """Named counts that are written seldom, under a lock: by checks, not by calls.

    A call on its way through the checks is a ticket. Its end is counted once: counts and open
    tickets change together, by one assignment, wherever the checker's thread may be killed.
    """

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._state: tuple[dict[str, int], frozenset[object]] = ({}, frozenset())

    def add(self, name: str, count: int = 1) -> int:
        """Add to a count and return it."""
        with self._lock.mine():
            counts = self._state[0]
            counts[name] = found = counts.get(name, 0) + count
        return found

    def submit(self, ticket: object) -> None:
        """Count a call as submitted; `settle` says what became of it."""
        with self._lock.mine():
            counts, tickets = self._state
            self._state = (_more(counts, ("submitted",)), tickets | {ticket})

    def settle(self, ticket: object, outcome: str) -> None:
        """Count what became of a call, and that it is done; nothing where that is known."""
        with self._lock.mine():
            counts, tickets = self._state
            if ticket in tickets:
                self._state = (_more(counts, (outcome, "done")), tickets - {ticket})

    def __getitem__(self, name: str) -> int:
        return self._state[0].get(name, 0)

    def items(self) -> dict[str, int]:
        """Return a copy of all counts."""
        with self._lock.mine():
            return dict(self._state[0])


def _more(counts: dict[str, int], names: tuple[str, ...]) -> dict[str, int]:
    return counts | {name: counts.get(name, 0) + 1 for name in names}
