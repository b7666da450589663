"""What lies around and inside guarded blocks, and which of them were written into.

A zone is filled with one of two patterns. In the first every aligned 2, 4 or 8 bytes are NaN,
in the second a number near 1: what a kernel reads beyond its tensors then shows in its
results, for they differ. Half of a pattern's bits are random and a secret of the process.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

MOST_AT_ONCE = 1 << 23  # bytes that are read or written as one: a busy GPU lets each wait its turn
_TILE = 1 << 16
_KEPT_BYTES, _KEPT_BLOCKS = 1 << 28, 512  # freed blocks that are watched
_REPORTED = 32


class Access(Protocol):
    """Reads and writes memory by address."""

    def read(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Yield the bytes of each (address, size), MOST_AT_ONCE of them at most, in order."""

    def write(self, places: Iterable[tuple[int, bytes]]) -> None:
        """Write bytes at each address; they are there when it returns."""

    def free(self, block: GuardedBlock) -> None:
        """Give the memory of a block back for good."""


@dataclass(slots=True, kw_only=True, eq=False)
class GuardedBlock:
    """One allocation: `size` bytes at `address` with `guard` bytes before and after them."""

    address: int
    size: int
    guard: int
    access: Access
    label: str = ""
    live: bool = True
    watched: bool = False  # freed, and its content holds the pattern
    pinned: bool = False  # made while a graph was captured: replays may write to it for ever
    keep: Any = None  # what owns the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Changed bytes of one zone: `first` is the distance to the block's nearest end.

    `zone` is before, after or freed (there `first` counts from the block's start).
    """

    zone: str
    label: str
    size: int
    first: int
    changed: int


def _pattern(high: bytes, low: range) -> bytes:
    """Return random 16-bit halves whose high byte is one of `high`, the low one in `low`."""
    drawn = secrets.token_bytes(8192)
    halves = zip(drawn[::2], drawn[1::2], strict=True)
    made = bytes(itertools.chain.from_iterable((low[a % len(low)], high[b & 1]) for a, b in halves))
    return made * (_TILE // len(made))


@dataclass(slots=True)
class ZoneLedger:
    """Every guarded block of the process, live or freed and kept, and the damage seen so far."""

    blocks: dict[int, GuardedBlock] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    _nan: bytes = field(default_factory=lambda: _pattern(b"\x7f\xff", range(0xF1, 0xFF)))
    _finite: bytes = field(default_factory=lambda: _pattern(b"\x3f\x3f", range(0x01, 0xFF)))
    _holds_nan: bool = True

    @property
    def pattern(self) -> bytes:
        """The pattern that zones hold at present."""
        return self._nan if self._holds_nan else self._finite

    def add(self, block: GuardedBlock) -> None:
        """Take over a block and fill its zones."""
        block.access.write(self._filled([block]))
        self.blocks[block.address] = block

    def freed(self, address: int) -> None:
        """Note that a block was freed: it is kept, and watched from the next turn on."""
        block = self.blocks.get(address)
        if block is not None:
            block.live = False

    def turn(self, *, nan: bool) -> None:
        """Look at every zone, then fill all of them with one of the two patterns.

        Nothing of the candidate may be running.
        """
        self.inspect()
        self._holds_nan = nan
        for block in self.blocks.values():
            block.watched = block.watched or not (block.live or block.pinned)
        for access, blocks in self._by_access():
            access.write(self._filled(blocks))
        # Give back the oldest freed blocks beyond the budget
        kept = [block for block in self.blocks.values() if not block.live and not block.pinned]
        total = sum(block.size for block in kept)
        for number, block in enumerate(kept):
            if total <= _KEPT_BYTES and len(kept) - number <= _KEPT_BLOCKS:
                return
            total -= block.size
            del self.blocks[block.address]
            block.access.free(block)

    def inspect(self) -> None:
        """Note which zones no longer hold the pattern, and repair them."""
        for access, blocks in self._by_access():
            zones = [(block, *zone) for block in blocks for zone in _zones(block)]
            found = access.read((block.address + start, size) for block, _, start, size in zones)
            broken = [
                (block.address + start, self._expected(zone, size))
                for (block, zone, start, size), got in zip(zones, found, strict=True)
                if not self._holds(block, zone, start=start, got=got)
            ]
            access.write(broken)

    def _by_access(self) -> Iterator[tuple[Access, list[GuardedBlock]]]:
        found: dict[int, tuple[Access, list[GuardedBlock]]] = {}
        for block in self.blocks.values():
            found.setdefault(id(block.access), (block.access, []))[1].append(block)
        yield from found.values()

    def _holds(self, block: GuardedBlock, zone: str, *, start: int, got: bytes) -> bool:
        """Whether a zone holds its pattern; what does not is noted."""
        size = len(got)
        want = self._expected(zone, size)
        if got == want:
            return True
        places = [place for place in range(size) if got[place] != want[place]]
        first = {"before": size - 1 - places[-1], "after": places[0], "freed": start + places[0]}
        if len(self.damage) < _REPORTED:
            self.damage.append(
                Damage(
                    zone=zone,
                    label=block.label,
                    size=block.size,
                    first=first[zone],
                    changed=len(places),
                )
            )
        return False

    def _expected(self, zone: str, size: int) -> bytes:
        if size <= _TILE:
            return self.pattern[-size:] if zone == "before" else self.pattern[:size]
        return _repeated(self.pattern, size)

    def _filled(self, blocks: Iterable[GuardedBlock]) -> Iterator[tuple[int, bytes]]:
        """Yield what every zone of these blocks is to hold, by address."""
        for block in blocks:
            for zone, start, size in _zones(block):
                yield block.address + start, self._expected(zone, size)


def _zones(block: GuardedBlock) -> Iterator[tuple[str, int, int]]:
    """Yield (zone, start relative to the block, bytes), in parts of MOST_AT_ONCE at most."""
    yield "before", -block.guard, block.guard
    yield "after", block.size, block.guard
    if block.watched:
        for start in range(0, block.size, MOST_AT_ONCE):
            yield "freed", start, min(MOST_AT_ONCE, block.size - start)


@functools.lru_cache(maxsize=4)
def _repeated(pattern: bytes, size: int) -> bytes:
    return (pattern * -(-size // len(pattern)))[:size]


def guard_bytes(size: int, *, least: int, multiple: int) -> int:
    """Return the bytes of one guard zone: as many as the block has, within bounds."""
    return -(-min(max(size, least), _TILE) // multiple) * multiple
