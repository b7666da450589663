"""Tests that may be looked at after every step: their false-alarm rate holds for the whole run.

Each is a test martingale (Ville 1939; Ramdas et al. 2023, arXiv 2210.01948): a wealth that starts
at 1 and whose expectation no correct kernel can raise, so that it ever reaches 1/alpha with
probability alpha at most, whenever one looks and however often.

Exceedance. At the same state a correct kernel's deviation exceeds the band (BAND times that of
trusted from trusted) in at most one step of twenty, whatever came before. A bet of STAKE on
"it exceeds" at those odds multiplies the wealth by 1 + STAKE * (1/RARE - 1) where it does and by
1 - STAKE where it does not.

Lean. A correct kernel's signed bias is symmetric and unimodal about some value within +-LEAN.
Then for x the bias beyond LEAN in units of the noise, clipped at +-CLIP (which keeps the sign at
least as likely negative as positive), exp(l x - l^2 x^2 / 2) has expectation at most 1 for every
l > 0 (de la Pena 1999, doi 10.1214/aop/1022677261: cosh(z) <= exp(z^2 / 2)), and so has its mean
over a half-normal l, which is closed: the self-normalised mixture below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

ALPHA = 1e-4  # false-alarm rate of one cell of the matrix
BAND = 2.0  # deviations of trusted from trusted that the band allows
RARE, STAKE = 0.05, 0.5
LEAN = 2.0**-14  # signed bias that 16-bit kernels may have, as the judgement rule allows
CLIP = 3.0
OPENED = (0, 50, 100, 200, 400, 800, 1600)  # steps at which bets on a lean open
_TESTS = 3  # a group: exceedance, lean up, lean down
_MEMORY = 0.8  # of the running mean of the noise


@dataclass(slots=True)
class Exceedance:
    """Wealth of the bet that a deviation exceeds its band more often than RARE.

    A new bet of 1/(t (t + 1)) opens at step t, so that a kernel that fails late is seen as well;
    the stakes of all bets add up to 1.
    """

    steps: int = 0
    log_wealth: float = -math.inf

    def update(self, exceeds: bool) -> None:
        """Take one step into account."""
        self.steps += 1
        opened = -math.log(self.steps * (self.steps + 1.0))
        gain = math.log1p(STAKE * (1.0 / RARE - 1.0) if exceeds else -STAKE)
        self.log_wealth = _log_sum(self.log_wealth, opened) + gain


@dataclass(slots=True)
class _Mixture:
    """One self-normalised mixture: sums of x and x^2 since it was opened."""

    log_stake: float
    total: float = 0.0
    squares: float = 0.0

    @property
    def log_wealth(self) -> float:
        """Log of the mixture over l half-normal with scale 1, times the stake."""
        wide = 1.0 + self.squares
        height = self.total / math.sqrt(wide)
        share = math.erfc(-height / math.sqrt(2.0))  # 2 Phi(height)
        if share <= 0.0:
            return -math.inf
        return self.log_stake + 0.5 * height * height - 0.5 * math.log(wide) + math.log(share)


@dataclass(slots=True)
class Lean:
    """Wealth of the bet that a bias lies above the allowed lean; new bets open at OPENED."""

    steps: int = 0
    bets: list[_Mixture] = field(default_factory=list)

    def update(self, excess: float) -> None:
        """Take one step into account: the bias beyond the lean in units of the noise."""
        if self.steps in OPENED:
            opened = len(self.bets) + 1.0
            self.bets.append(_Mixture(log_stake=-math.log(opened * (opened + 1.0))))
        self.steps += 1
        x = max(-CLIP, min(CLIP, excess))
        for bet in self.bets:
            bet.total += x
            bet.squares += x * x

    @property
    def log_wealth(self) -> float:
        """Log of what all bets hold together."""
        found = -math.inf
        for bet in self.bets:
            found = _log_sum(found, bet.log_wealth)
        return found


def _log_sum(first: float, second: float) -> float:
    """Return log(exp(first) + exp(second))."""
    high, low = max(first, second), min(first, second)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One group's gradients at one state: the candidate's and the noise twin's to the trusted one.

    `ratio` of norms, `cosine`, `bias` (projection on the trusted gradient less one), `deviation`
    (norm of the difference over the trusted norm); `finite` is False where the candidate's is
    not and the trusted one is.
    """

    ratio: float
    cosine: float
    bias: float
    deviation: float
    noise_bias: float
    noise_deviation: float
    finite: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Where and how a group left the band."""

    group: str
    step: int
    how: str  # deviation | bias | not finite
    pair: Pair
    evidence: float  # log10 of the wealth
    allowed: float


@dataclass(slots=True)
class Group:
    """The tests of one group: a parameter's gradient, or one hot row of the embedding's."""

    name: str
    floor: float  # deviation that no band is narrower than
    lean: float
    exceedance: Exceedance = field(default_factory=Exceedance)
    above: Lean = field(default_factory=Lean)
    below: Lean = field(default_factory=Lean)
    scale: float = 0.0
    allowed: float = 0.0

    def update(self, pair: Pair) -> None:
        """Take one step into account."""
        previous = self.scale
        self.scale = (
            _MEMORY * previous + (1.0 - _MEMORY) * pair.noise_deviation
            if previous
            else pair.noise_deviation
        )
        self.allowed = max(BAND * max(self.scale, pair.noise_deviation), self.floor)
        self.exceedance.update(pair.deviation > self.allowed)
        unit = max(self.scale, pair.noise_deviation, self.floor / BAND)
        self.above.update((pair.bias - self.lean) / unit)
        self.below.update((-pair.bias - self.lean) / unit)

    @property
    def evidence(self) -> tuple[float, str]:
        """Log of the largest wealth, and which test holds it."""
        lean = max(self.above.log_wealth, self.below.log_wealth)
        if self.exceedance.log_wealth >= lean:
            return self.exceedance.log_wealth, "deviation"
        return lean, "bias"


class Monitor:
    """Watches every group of a run. `left` is the first to leave, with those of the same step."""

    def __init__(self, groups: Mapping[str, Group], *, alpha: float = ALPHA) -> None:
        self.groups = dict(groups)
        self.limit = math.log(_TESTS * max(len(self.groups), 1) / alpha)
        self.left: list[Left] = []

    @property
    def needed(self) -> float:
        """Log10 of the wealth at which a group leaves."""
        return self.limit / math.log(10.0)

    def update(self, step: int, pairs: Mapping[str, Pair]) -> bool:
        """Take one step into account; return whether some group has left the band."""
        if self.left:
            return True
        for name, pair in pairs.items():
            group = self.groups[name]
            if not pair.finite:
                self._leaves(group, step, pair, how="not finite", evidence=self.limit)
                continue
            group.update(pair)
            evidence, how = group.evidence
            if evidence >= self.limit:
                self._leaves(group, step, pair, how=how, evidence=evidence)
        return bool(self.left)

    def _leaves(self, group: Group, step: int, pair: Pair, *, how: str, evidence: float) -> None:
        self.left.append(
            Left(
                group=group.name,
                step=step,
                how=how,
                pair=pair,
                evidence=evidence / math.log(10.0),
                allowed=group.allowed,
            )
        )

    def strongest(self) -> tuple[str, float]:
        """Return the group with the most evidence so far and its log10."""
        found = [(group.evidence[0], name) for name, group in self.groups.items()]
        evidence, name = max(found, default=(0.0, ""))
        return name, evidence / math.log(10.0)
