"""Which bytes of global memory a launch touched, and whether two such sets conflict.

The races' records of a launch say of each granule who wrote it last, and who read or updated it
since. Nobody is interested in who here: a byte that was written conflicts with every other access
to it, whatever came before the write.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxsan.addresses import reached
from ptxsan.runtime.races import PLAIN_READS, STRONG_WRITES

if TYPE_CHECKING:
    from ptxsan.launch import Buffer, Launch
    from ptxsan.program import Program
    from ptxsan.records import LaunchState

Ranges = NDArray[np.int64]  # (n, 2): first byte and the byte behind, disjoint and ascending
NOTHING: Ranges = np.zeros((0, 2), np.int64)
_PIECE = 1 << 20  # granules looked at at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accesses:
    """The bytes of one buffer that an operation touched, by kinds of access.

    `updates` are atomics and strong writes, `glances` strong reads: neither races with its like.
    """

    writes: Ranges = field(default_factory=lambda: NOTHING)
    reads: Ranges = field(default_factory=lambda: NOTHING)
    updates: Ranges = field(default_factory=lambda: NOTHING)
    glances: Ranges = field(default_factory=lambda: NOTHING)

    def conflict(self, other: Accesses) -> tuple[int, str, str] | None:
        """Return a byte at which two operations race: its offset, and what each of them does."""
        pairs = (
            ("writes", "writes"), ("writes", "reads"), ("reads", "writes"), ("writes", "updates"),
            ("updates", "writes"), ("writes", "glances"), ("glances", "writes"),
            ("updates", "reads"), ("reads", "updates"),
        )  # fmt: skip
        for mine, theirs in pairs:
            found = first_common(getattr(self, mine), getattr(other, theirs))
            if found is not None:
                return found, _VERBS[mine], _VERBS[theirs]
        return None

    def covers(self, other: Accesses) -> bool:
        """Whether whatever races with `other` races with this as well."""
        return (
            contains(self.writes, other.writes)
            and contains(merged(self.writes, self.reads), other.reads)
            and contains(merged(self.writes, self.updates), other.updates)
            and contains(merged(self.writes, self.glances), other.glances)
        )


_VERBS = {"writes": "writes", "reads": "reads", "updates": "updates", "glances": "reads"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Touched:
    """What a launch did to one buffer, or (`buffer` is None) to a variable of its module."""

    name: str
    buffer: Buffer | None
    accesses: Accesses


def span(start: int, end: int) -> Ranges:
    """Return one range of bytes."""
    return np.array([[start, end]], np.int64) if start < end else NOTHING


def rows(start: int, width: int, count: int, pitch: int) -> Ranges:
    """Return `count` rows of `width` bytes that are `pitch` bytes apart."""
    if count == 1 or pitch == width:
        return span(start, start + width * count)
    firsts = start + pitch * np.arange(count, dtype=np.int64)
    return np.stack([firsts, firsts + width], axis=1)


def merged(first: Ranges, second: Ranges) -> Ranges:
    """Return the bytes of either."""
    if not len(first) or not len(second):
        return first if len(first) else second
    both = np.concatenate([first, second])
    both = both[np.argsort(both[:, 0], kind="stable")]
    ends = np.maximum.accumulate(both[:, 1])
    opens = np.concatenate([[True], both[1:, 0] > ends[:-1]])
    closes = np.concatenate([np.flatnonzero(opens)[1:] - 1, [len(both) - 1]])
    return np.stack([both[opens, 0], ends[closes]], axis=1)


def first_common(first: Ranges, second: Ranges) -> int | None:
    """Return the first byte of the first range of `first` that `second` touches; None if none."""
    if not len(first) or not len(second):
        return None
    place = np.searchsorted(second[:, 1], first[:, 0], side="right")
    inside = place < len(second)
    starts = second[np.minimum(place, len(second) - 1), 0]
    hits = np.flatnonzero(inside & (starts < first[:, 1]))
    if not hits.size:
        return None
    return int(max(first[hits[0], 0], starts[hits[0]]))


def contains(outer: Ranges, inner: Ranges) -> bool:
    """Whether each range of `inner` lies in one of `outer`."""
    if not len(inner):
        return True
    if not len(outer):
        return False
    place = np.searchsorted(outer[:, 0], inner[:, 0], side="right") - 1
    return bool((place >= 0).all() and (outer[np.maximum(place, 0), 1] >= inner[:, 1]).all())


def touched(program: Program, launch: Launch, state: LaunchState) -> tuple[Touched, ...]:
    """Return what a launch that has run touched, of all memory that its arguments lead to."""
    reachable = {id(one) for one in reached(launch)}
    granule = program.granule["global"]
    found = []
    for one in state.allocations:
        if one.buffer is not None and id(one.buffer) not in reachable:
            continue
        count = -(-one.data.size // granule)
        records = one.meta.reshape(-1, 2)[:count]
        size = int(one.data.size)
        parts: dict[str, list[Ranges]] = {name: [] for name in _VERBS}
        for start in range(0, len(records), _PIECE):
            last, others = records[start : start + _PIECE].T
            if not last.any() and not others.any():
                continue
            atomic = others & np.uint64(STRONG_WRITES) != 0
            plain = others & np.uint64(PLAIN_READS) != 0
            masks = {
                "writes": last != 0, "reads": plain, "updates": atomic,
                "glances": (others != 0) & ~atomic & ~plain,
            }  # fmt: skip
            for name, mask in masks.items():
                edges = np.flatnonzero(
                    np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
                )
                parts[name].append((edges.reshape(-1, 2).astype(np.int64) + start) * granule)
        if not any(map(any, (map(len, each) for each in parts.values()))):
            accesses = None
        else:
            whole = {
                name: np.minimum(functools.reduce(merged, each, NOTHING), size)
                for name, each in parts.items()
            }
            accesses = Accesses(**whole)
        if accesses is not None:
            found.append(Touched(name=one.name, buffer=one.buffer, accesses=accesses))
    return tuple(found)
