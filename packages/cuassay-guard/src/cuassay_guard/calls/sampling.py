"""Which calls are checked: at random gaps, within a time budget, more often when it matters."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable

_NEVER = 2**62
_BURST_S = 0.25  # checks may take this long before the share of wall time is looked at


class Sampler:
    """Draws the gaps between sampled calls of one guard.

    Gaps are geometric with mean 1/rate, so that no period of the caller's own can hide from
    them. The rate is `boost` times larger for `boost_calls` sampled calls after `heed()`.
    """

    def __init__(
        self, rate: float, *, boost: float, boost_calls: int, seed: int | None = None
    ) -> None:
        self._rate, self._boost, self._calls = rate, boost, boost_calls
        self._boosted = 0
        # Its own generator: drawing must not move the user's.
        self._random = random.Random(seed)

    @property
    def rate(self) -> float:
        """The share of calls that is sampled now."""
        return min(1.0, self._rate * self._boost) if self._boosted > 0 else self._rate

    def gap(self) -> int:
        """Return how many calls to let pass before the next sampled one."""
        rate = self.rate
        self._boosted = max(0, self._boosted - 1)
        if rate <= 0:
            return _NEVER
        if rate >= 1:
            return 0
        return int(math.log(1.0 - self._random.random()) / math.log1p(-rate))

    def heed(self) -> None:
        """Sample more from the next gap on: something is unusual."""
        self._boosted = self._calls

    def chance(self, share: float) -> bool:
        """Return True with probability `share`."""
        return self._random.random() < share


class CheckBudget:
    """A bucket of seconds that fills with wall time and that checks are paid from."""

    def __init__(
        self, share: float | None, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._share, self._clock = share, clock
        self._lock = threading.Lock()
        self._start = clock()
        self.spent_s = 0.0

    @property
    def affordable(self) -> bool:
        """Whether another check fits."""
        if self._share is None:
            return True
        allowed = _BURST_S + self._share * (self._clock() - self._start)
        return self.spent_s < allowed

    def spend(self, seconds: float) -> None:
        """Take what a check has cost."""
        with self._lock:
            self.spent_s += seconds
