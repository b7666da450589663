"""The loss as a witness: a candidate leaves the band when it differs more than trusted runs do."""

from __future__ import annotations

import math

from cuassay_loops.train.losses import LossBand


def _left(candidate: list[float], noise: list[float], trusted: float = 2.0) -> int | None:
    band = LossBand()
    for step, (one, other) in enumerate(zip(candidate, noise, strict=True)):
        band.update(step, trusted, noise=trusted + other, candidate=trusted + one)
    return band.step


def test_a_difference_as_small_as_noise_stays_inside() -> None:
    assert _left([0.03] * 200, [0.01] * 200) is None
    assert _left([0.005] * 200, [0.0] * 200) is None  # half a percent of the loss is no difference


def test_a_lasting_difference_is_told_after_some_steps() -> None:
    step = _left([0.2] * 50, [0.001] * 50)
    assert step is not None
    assert 0 <= step < 5


def test_one_outlier_is_smoothed() -> None:
    assert _left([0.0] * 10 + [0.08] + [0.0] * 50, [0.0] * 61) is None


def test_a_loss_that_is_not_finite_is_told_at_once_unless_trusted_is_not_either() -> None:
    assert _left([0.0, math.nan, 0.0], [0.0] * 3) == 1
    assert _left([0.0, math.inf], [0.0] * 2) == 1
    band = LossBand()
    band.update(0, math.nan, noise=math.nan, candidate=math.nan)
    assert band.step is None


def test_the_first_step_outside_is_kept() -> None:
    assert _left([0.0] * 3 + [5.0] + [0.0] * 20 + [9.0], [0.0] * 25) == 3
