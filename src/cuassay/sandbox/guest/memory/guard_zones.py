"""What lies around and inside guarded blocks, and which of them were written into.

A zone is filled with one of two patterns. In the first every aligned 2, 4 or 8 bytes are NaN,
in the second a number near 1: what a kernel reads beyond its tensors then shows in its
results, for they differ. Half of a pattern's bits are random and a secret of the process.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

_TILE = 1 << 16
_KEPT_BYTES, _KEPT_BLOCKS = 1 << 28, 512  # freed blocks that are watched
_REPORTED = 32


class Access(Protocol):
    """Reads and writes memory by address."""

    def read(self, address: int, size: int) -> bytes:
        """Return the bytes at an address."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address."""

    def free(self, block: Block) -> None:
        """Give the memory of a block back for good."""


@dataclass(slots=True, kw_only=True, eq=False)
class Block:
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
class Ledger:
    """Every guarded block of the process, live or freed and kept, and the damage seen so far."""

    blocks: dict[int, Block] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    _nan: bytes = field(default_factory=lambda: _pattern(b"\x7f\xff", range(0xF1, 0xFF)))
    _finite: bytes = field(default_factory=lambda: _pattern(b"\x3f\x3f", range(0x01, 0xFF)))
    _holds_nan: bool = True

    @property
    def pattern(self) -> bytes:
        """The pattern that zones hold at present."""
        return self._nan if self._holds_nan else self._finite

    def add(self, block: Block) -> None:
        """Take over a block and fill its zones."""
        self._fill_zones(block)
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
        for block in list(self.blocks.values()):
            self._fill_zones(block)
            if not block.live and not block.pinned:
                block.watched = True
                for start, size in _tiles(block.size):
                    block.access.write(block.address + start, self.pattern[:size])
        self._release()

    def inspect(self) -> None:
        """Note which zones no longer hold the pattern, and repair them."""
        for block in list(self.blocks.values()):
            for zone, start, size in _zones(block):
                self._compare(block, zone, start=start, size=size)

    def _compare(self, block: Block, zone: str, *, start: int, size: int) -> None:
        address = block.address + start
        want = self._expected(zone, size)
        got = block.access.read(address, size)
        if got == want:
            return
        places = [place for place in range(size) if got[place] != want[place]]
        first = {"before": size - 1 - places[-1], "after": places[0], "freed": start + places[0]}
        block.access.write(address, want)
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

    def _expected(self, zone: str, size: int) -> bytes:
        return self.pattern[-size:] if zone == "before" else self.pattern[:size]

    def _fill_zones(self, block: Block) -> None:
        block.access.write(block.address - block.guard, self._expected("before", block.guard))
        block.access.write(block.address + block.size, self._expected("after", block.guard))

    def _release(self) -> None:
        """Give back the oldest freed blocks beyond the budget."""
        kept = [block for block in self.blocks.values() if not block.live and not block.pinned]
        total = sum(block.size for block in kept)
        for number, block in enumerate(kept):
            if total <= _KEPT_BYTES and len(kept) - number <= _KEPT_BLOCKS:
                return
            total -= block.size
            del self.blocks[block.address]
            block.access.free(block)


def _zones(block: Block) -> Iterator[tuple[str, int, int]]:
    """Yield (zone, start relative to the block, bytes), in parts no longer than the pattern."""
    yield "before", -block.guard, block.guard
    yield "after", block.size, block.guard
    if block.watched:
        for start, size in _tiles(block.size):
            yield "freed", start, size


def _tiles(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, _TILE):
        yield start, min(_TILE, size - start)


def guard_bytes(size: int, *, least: int, multiple: int) -> int:
    """Return the bytes of one guard zone: as many as the block has, within bounds."""
    return -(-min(max(size, least), _TILE) // multiple) * multiple
