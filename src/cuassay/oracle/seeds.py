"""Projection accumulated over seeds: a small constant bias surfaces after 32 of them.

Each case gives a sum of e * w / s over the whole output. The sums of K seeds are added and
divided by the norm of all weights, less the room for a systematic rounding of 4 u |truth|, and
by the trusted runs' own accumulated projections: what one seed's noise hides grows as K, the
noise as sqrt(K).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuassay.oracle.compare.groups import LIMIT_P, Statistic
from cuassay.oracle.compare.outputs import Bias, Comparison


@dataclass(slots=True)
class Projections:
    """Projections of one kind on one output, added up over calls, with those of trusted runs."""

    calls: int = 0
    projection: float = 0.0
    norm2: float = 0.0
    room: float = 0.0
    copies: float = 0.0
    draws: list[float] = field(default_factory=list)
    known: list[float] = field(default_factory=list)
    members: list[float] = field(default_factory=list)

    def add(self, bias: Bias, *, repeated: bool) -> None:
        """Take one call. `repeated`: the same values may come back with every call."""
        trusted = bias.trusted
        self.calls += 1
        self.projection += bias.projection
        self.norm2 += trusted.norm2
        self.room += trusted.room
        if repeated:
            self.copies += trusted.copies
        else:
            self.copies = max(self.copies, trusted.copies)
        _add(self.draws, trusted.draws)
        _add(self.known, trusted.known)
        _add(self.members, trusted.members)

    def score(self) -> float:
        """Return P of everything added so far, 0 where there is no weight."""
        if self.norm2 <= 0:
            return 0.0
        norm = math.sqrt(self.norm2)
        draws, known = (
            [(v / norm) ** 2 for v in part] for part in ((*self.draws, *self.members), self.known)
        )
        noise = 1.0 + (sum(draws) / len(draws) if draws else 0.0)
        spread = noise * (1.0 + self.copies) + max(known, default=0.0)
        return max(0.0, abs(self.projection) - self.room) / norm / math.sqrt(spread)


class SeedAccumulator:
    """Adds up comparisons of one output on different seeds (same problem, any shapes)."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], Projections] = {}
        self._outputs: set[str] = set()
        self._seeds = 0

    def add(self, comparison: Comparison) -> None:
        """Take one comparison. Those without projections (exact outputs) are ignored."""
        self._outputs.add(comparison.output)
        self._seeds += 1
        for bias in comparison.bias:
            running = self._running.setdefault((comparison.output, bias.kind), Projections())
            if math.isfinite(bias.projection):  # others are judged case by case
                running.add(bias, repeated=True)

    def result(self) -> Statistic:
        """Return the worst accumulated projection; value 0 where nothing was added."""
        best, place = 0.0, ("", "gain")
        for key, running in self._running.items():
            score = running.score()
            if score >= best:
                best, place = score, key
        seeds = self._seeds // max(len(self._outputs), 1)
        group = f"{place[1]} of output '{place[0]}' over {seeds} seeds"
        return Statistic(name="P", value=best, limit=LIMIT_P, group=group)


def _add(total: list[float], values: Sequence[float]) -> None:
    """Add by place; cases with fewer draws add to the first ones."""
    total.extend([0.0] * (len(values) - len(total)))
    for index, value in enumerate(values):
        total[index] += value
