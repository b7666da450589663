"""Where the parts of a collective meet: in the order in which each rank calls them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cuassay.ranks.collectives import Kind, Operation

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Meeting(Generic[T]):
    """One collective: the parts that ranks have begun, each with what the caller keeps of it."""

    parts: list[tuple[Operation, T]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether every rank that it needs has begun."""
        first = self.parts[0][0]
        return len(self.parts) == (2 if first.goes_alone else len(first.members))

    @property
    def in_order(self) -> list[tuple[Operation, T]]:
        """The parts by rank, a SEND before its RECV."""
        return sorted(self.parts, key=lambda one: (one[0].kind is Kind.RECV, one[0].rank))

    @property
    def absent(self) -> list[int]:
        """The ranks of the world that have not begun it."""
        first = self.parts[0][0]
        if first.goes_alone:
            return [] if self.is_full else [first.members[first.root]]
        come = {operation.rank for operation, _ in self.parts}
        return [one for place, one in enumerate(first.members) if place not in come]


class Meetings(Generic[T]):
    """The collectives that have begun and are not full."""

    def __init__(self) -> None:
        self._open: dict[object, Meeting[T]] = {}
        self._count: dict[object, int] = defaultdict(int)

    def join(self, operation: Operation, what: T) -> Meeting[T]:
        """Add a rank's part and return the meeting that it belongs to."""
        way: object = "group"
        if operation.goes_alone:
            sends = operation.kind is Kind.SEND
            ends = (operation.rank, operation.root) if sends else (operation.root, operation.rank)
            way = (*ends, operation.tag)
        # Of one group each rank calls collectives, and messages of one way, in one order.
        counted = (operation.group, way, operation.rank, operation.kind is Kind.RECV)
        self._count[counted] += 1
        key = (operation.group, way, self._count[counted])
        meeting = self._open.setdefault(key, Meeting())
        meeting.parts.append((operation, what))
        if meeting.is_full:
            del self._open[key]
        return meeting

    @property
    def waiting(self) -> list[Meeting[T]]:
        """What is not full."""
        return list(self._open.values())


def waiting_words(operation: Operation, absent: Sequence[int]) -> str:
    """Return in which collective a rank waits, and for which ranks."""
    named = " and ".join(f"rank {one}" for one in absent) or "the others"
    return f"waits in {operation.words} for {named}"
