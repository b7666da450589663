"""What a program's streams did to memory, and which of it nothing orders."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from ptxsan.footprints import Accesses
from ptxsan.host.order import Operation, Order

_MOST = 256  # operations that are kept for one buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a program is: file and line, or ("", 0)."""

    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """An operation that touched memory: what it is called, and where the program issued it.

    `speaks_to_host`: what it updates by atomics and strong writes is meant for the host as well.
    """

    what: str
    place: Place
    operation: Operation
    speaks_to_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two operations that nothing orders and that touch a byte of a buffer, one of them to write.

    `offset` is the byte's; `did` and `before` say what the later and the earlier one do there.
    """

    buffer: Hashable
    offset: int
    later: Deed
    earlier: Deed
    did: str
    before: str


@dataclass(slots=True)
class Journal:
    """What was done to each buffer and may still be under way for somebody."""

    order: Order
    _kept: dict[Hashable, list[tuple[Deed, Accesses]]] = field(default_factory=dict)
    dropped: bool = False  # whether something was forgotten that might have mattered

    def enter(self, buffer: Hashable, deed: Deed, accesses: Accesses) -> Clash | None:
        """Keep what an operation did to a buffer; return what it clashes with, if anything."""
        kept = self._kept.setdefault(buffer, [])
        clash, left = None, []
        for earlier, theirs in kept:
            one = earlier.operation
            if self.order.host_knows(one.timeline, one.time):
                continue  # whatever is issued from now on comes after it
            if clash is None and not deed.operation.is_after(one.timeline, one.time):
                found = accesses.conflict(theirs)
                if found is not None:
                    clash = Clash(
                        buffer=buffer, offset=found[0], later=deed, earlier=earlier, did=found[1],
                        before=found[2],
                    )  # fmt: skip
            same = one.timeline == deed.operation.timeline
            if not (same and accesses.covers(theirs)):
                left.append((earlier, theirs))
        left.append((deed, accesses))
        if len(left) > _MOST:
            left, self.dropped = left[-_MOST:], True
        self._kept[buffer] = left
        return clash

    def forget(self, buffer: Hashable) -> None:
        """Forget a buffer: its addresses are nobody's from now on."""
        self._kept.pop(buffer, None)

    def pending(
        self, known: Callable[[int, int], bool]
    ) -> Iterator[tuple[Hashable, Deed, Accesses]]:
        """Yield what was done to buffers by operations that `known` (timeline, time) denies."""
        for buffer, entries in self._kept.items():
            for deed, accesses in entries:
                if not known(deed.operation.timeline, deed.operation.time):
                    yield buffer, deed, accesses
