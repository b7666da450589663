"""Errors of one sign, added up over calls: a test that may be looked at after every call.

Each judged call gives the oracle's projections: the sum of error * weight / scale over an
output, with weight the truth (gain) or 1 (bias), and the same of the trusted runs. Over K
distinct calls a bias grows as K and rounding as sqrt(K). The limit is Robbins' normal mixture
boundary (Annals of Mathematical Statistics 41, 1970), with rho = 1 call:

    |S| / sqrt(V) <= sqrt((1 + 1/K) (ln(1 + K) + 2 ln(1/alpha)))

which an unbiased sum ever crosses with probability at most alpha, however often it is looked
at. Equal inputs err alike and would add up: a call counts once for each distinct input.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from cuassay.oracle.compare.outputs import Bias
from cuassay.oracle.seeds import Projections

ALPHA = 1e-8
_LEAST = 8  # distinct calls before anything is said
_REMEMBERED = 4096  # fingerprints of inputs seen


def limit(calls: int, *, alpha: float = ALPHA) -> float:
    """Return the boundary after `calls` distinct calls."""
    return math.sqrt((1 + 1 / calls) * (math.log(1 + calls) + 2 * math.log(1 / alpha)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifting:
    """A projection that crossed the boundary."""

    output: str
    kind: str  # gain | bias
    score: float
    limit: float
    calls: int


class Drift:
    """Adds up the projections of one signature of one kernel."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Projections] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()

    def add(self, output: str, biases: Sequence[Bias]) -> Drifting | None:
        """Take one call's projections of one output; return what drifts, if anything."""
        worst: Drifting | None = None
        for bias in biases:
            if not math.isfinite(bias.projection):
                continue
            total = self._sums.setdefault((output, bias.kind), Projections())
            total.add(bias, repeated=False)  # only distinct inputs come here
            found = Drifting(
                output=output,
                kind=bias.kind,
                score=total.score(),
                limit=limit(total.calls),
                calls=total.calls,
            )
            crossed = total.calls >= _LEAST and found.score > found.limit
            if crossed and (worst is None or found.score > worst.score):
                worst = found
        return worst

    def new(self, fingerprint: int) -> bool:
        """Whether inputs were not seen lately; remembers them."""
        fresh = fingerprint not in self._seen
        self._seen[fingerprint] = None
        self._seen.move_to_end(fingerprint)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return fresh

    def reset(self) -> None:
        """Start over: what was added up has been reported."""
        self._sums.clear()
