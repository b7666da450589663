"""The sequential tests: their stated rate holds, and they see what they should."""

from __future__ import annotations

import random

import pytest

from cuassay_loops.sequential import BAND, RARE, Exceedance, Group, Lean, Monitor, Pair
from cuassay_loops.train.losses import LossBand


def _pair(*, bias: float = 0.0, deviation: float = 0.001, finite: bool = True) -> Pair:
    return Pair(
        ratio=1.0,
        cosine=1.0,
        bias=bias,
        deviation=deviation,
        noise_bias=0.0,
        noise_deviation=0.001,
        finite=finite,
    )


def _crosses(runs: int, *, limit: float, step: object) -> int:
    return sum(bool(step(random.Random(run), limit)) for run in range(runs))  # type: ignore[operator]


def test_a_kernel_at_the_edge_of_the_null_leaves_as_rarely_as_stated() -> None:
    """At alpha 5 %, 400 runs of the least favourable kernel: at most 5 % and some luck."""
    log20 = 2.995732

    def exceeding(source: random.Random, limit: float) -> bool:
        bet = Exceedance()
        wealth = []
        for _ in range(150):
            bet.update(source.random() < RARE)
            wealth.append(bet.log_wealth)
        return max(wealth) >= limit

    def leaning(source: random.Random, limit: float) -> bool:
        bet = Lean()
        wealth = []
        for _ in range(150):
            bet.update(source.gauss(0.0, 1.0) * source.choice((0.3, 1.0, 4.0)))
            wealth.append(bet.log_wealth)
        return max(wealth) >= limit

    assert _crosses(400, limit=log20, step=exceeding) <= 33  # 20 + 3 standard deviations
    assert _crosses(400, limit=log20, step=leaning) <= 33


def test_a_deviation_beyond_the_band_leaves_in_seven_steps() -> None:
    monitor = Monitor({"w": Group(name="w", floor=0.0, lean=0.0)})
    steps = [s for s in range(20) if monitor.update(s, {"w": _pair(deviation=BAND * 0.0011)})]
    assert steps[0] <= 7
    assert monitor.left[0].how == "deviation"


def test_a_small_constant_bias_within_the_band_is_seen_in_the_end() -> None:
    source = random.Random(1)
    monitor = Monitor({"w": Group(name="w", floor=0.0, lean=6e-5)})
    steps = [
        step
        for step in range(300)
        if monitor.update(step, {"w": _pair(bias=-0.0006 + source.gauss(0, 2e-4))})
    ]
    assert steps
    assert monitor.left[0].how == "bias"


def test_a_bias_within_the_allowed_lean_is_never_seen() -> None:
    source = random.Random(1)
    monitor = Monitor({"w": Group(name="w", floor=0.0, lean=6e-5)})
    assert not any(
        monitor.update(step, {"w": _pair(bias=5e-5 + source.gauss(0, 2e-4))}) for step in range(500)
    )


def test_a_kernel_that_fails_late_is_seen() -> None:
    monitor = Monitor({"w": Group(name="w", floor=0.0, lean=0.0)})
    for step in range(400):
        assert not monitor.update(step, {"w": _pair()})
    late = [s for s in range(400, 425) if monitor.update(s, {"w": _pair(deviation=0.1)})]
    assert late
    assert late[0] < 420


def test_what_is_not_finite_leaves_at_once() -> None:
    monitor = Monitor({"w": Group(name="w", floor=0.0, lean=0.0)})
    assert monitor.update(0, {"w": _pair(finite=False)})
    assert (monitor.left[0].step, monitor.left[0].how) == (0, "not finite")


@pytest.mark.parametrize(("candidate", "step"), [(2.0, None), (2.6, True), (float("nan"), True)])
def test_the_loss_leaves_where_it_differs_more_than_trusted_from_trusted(
    candidate: float, step: bool | None
) -> None:
    band = LossBand()
    for number in range(60):
        band.update(number, 2.0, noise=2.0 + 0.01 * (-1) ** number, candidate=candidate)
    assert (band.step is not None) == bool(step)
