"""Whether errors grow by one power of a length, and are not merely large or one jump."""

from __future__ import annotations

import math

import pytest

from cuassay.diagnosis.growth import fitted_exponent, grows_steadily, is_growth
from cuassay.model.outcome import Growth, GrowthPoint

_LENGTHS = (64, 256, 1024, 4096)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    exponent, spread = fitted_exponent([(n, 3e-6 * n**power) for n in _LENGTHS])
    assert exponent == pytest.approx(power)
    assert spread == pytest.approx(0.0, abs=1e-6)
    assert is_growth([(n, 3e-6 * n**power) for n in _LENGTHS]) is (power >= 0.5)


def test_a_power_with_noise_is_one_and_a_jump_is_none() -> None:
    noisy = [(n, 1e-6 * n**0.8 * f) for n, f in zip(_LENGTHS, (1.1, 0.9, 1.05, 0.95), strict=True)]
    assert is_growth(noisy)
    assert not is_growth([(n, 1e-6 if n < 4096 else 1.0) for n in _LENGTHS])
    assert not is_growth([(n, 1e-6 * (1 + k % 2)) for k, n in enumerate(_LENGTHS)])


def test_too_few_points_say_nothing() -> None:
    assert fitted_exponent([(64, 1.0), (128, 2.0)]) == (0.0, math.inf)
    assert fitted_exponent([(64, 1.0)] * 4) == (0.0, math.inf)  # one length alone


def test_points_that_cannot_be_drawn_are_left_out() -> None:
    def growth(*errors: float) -> Growth:
        points = tuple(
            GrowthPoint(length=n, error=error, trusted=1e-7)
            for n, error in zip((16, *_LENGTHS), errors, strict=True)
        )
        return Growth(
            axis="n", points=points, exponent=0.5, target=1, projected=1.0, trusted_exponent=0.0
        )

    assert grows_steadily(growth(0.0, 8.0, 16.0, 32.0, 64.0))
    assert not grows_steadily(growth(math.inf, 0.0, math.nan, 32.0, 64.0))
