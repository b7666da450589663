"""What a number of launches says about a fault that shows now and then.

References: E. B. Wilson, "Probable inference, the law of succession, and statistical
inference", JASA 22 (1927); the rule of three and its kin, from (1 - p)^n = 1 - confidence.
"""

from __future__ import annotations

from math import expm1, log, log1p, sqrt

_Z95 = 1.959964  # of a two-sided 95 % interval of the normal distribution


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return Wilson's score interval of the chance behind `hits` of `trials`, at 95 %.

    Raises ValueError for no trials or more hits than trials.
    """
    if trials < 1 or not 0 <= hits <= trials:
        raise ValueError(
            f"{hits} hits in {trials} trials; expected 0 <= hits <= trials, trials > 0"
        )
    share, weight = hits / trials, _Z95 * _Z95 / trials
    middle = share + weight / 2
    spread = _Z95 * sqrt(share * (1 - share) / trials + weight / (4 * trials))
    low, high = (middle - spread) / (1 + weight), (middle + spread) / (1 + weight)
    return max(0.0, low if hits else 0.0), min(1.0, high if hits < trials else 1.0)


def meets(chance: float, launches: int) -> float:
    """Return with what probability a fault of `chance` a launch shows in so many launches."""
    if chance >= 1.0:
        return 1.0 if launches else 0.0
    return -expm1(launches * log1p(-chance))


def unseen_bound(launches: int, *, confidence: float = 0.99) -> float:
    """Return the largest chance a launch of a fault that `launches` calls missed, at `confidence`.

    3 / n at 95 % (the rule of three), 4.6 / n at 99 %; 1 where nothing was launched.
    """
    if launches < 1:
        return 1.0
    return -expm1(log(1.0 - confidence) / launches)
