"""Growth of error with length: fit, projection, judgement."""

from __future__ import annotations

import pytest

from cuassay.model.outcome import GrowthPoint
from cuassay.oracle.growth import fit, judge_growth

_LENGTHS = (256, 1024, 4096, 16384)


def _points(exponent: float, start: float, trusted: float = 1.7e-3) -> list[GrowthPoint]:
    return [
        GrowthPoint(length=n, error=start * (n / 256) ** exponent, trusted=trusted)
        for n in _LENGTHS
    ]


def test_fit_recovers_the_exponent_and_projects_to_the_target() -> None:
    growth = fit(_points(0.5, 0.002), axis="tokens", target=1_000_000, output="y")
    assert growth.exponent == pytest.approx(0.5)
    assert growth.trusted_exponent == pytest.approx(0.0)
    assert growth.projected == pytest.approx(0.002 * (1_000_000 / 256) ** 0.5)


def test_growing_error_fails() -> None:
    found = judge_growth(fit(_points(0.5, 0.002), axis="tokens", target=1_000_000, output="y"))
    assert found is not None
    assert found.share > 1
    assert "tokens" in found.group


@pytest.mark.parametrize("exponent", [-0.4, 0.0, 0.1])
def test_error_at_the_rounding_floor_passes(exponent: float) -> None:
    found = judge_growth(fit(_points(exponent, 1.5e-3), axis="n", target=1_000_000, output="y"))
    assert found is not None
    assert found.share <= 1


def test_error_that_grows_as_the_trusted_one_passes() -> None:
    points = [GrowthPoint(length=n, error=1e-7 * n**0.5, trusted=2e-7 * n**0.5) for n in _LENGTHS]
    found = judge_growth(fit(points, axis="n", target=10**6, output="y"))
    assert found is not None
    assert found.share < 1


def test_large_error_that_does_not_grow_fails() -> None:
    found = judge_growth(fit(_points(0.05, 7e-3), axis="n", target=10**6, output="y"))
    assert found is not None
    assert found.share > 1


def test_small_now_but_harmful_at_the_target_fails() -> None:
    points = [
        GrowthPoint(length=n, error=1.0e-3 * (n / 256) ** 0.18, trusted=1.7e-3) for n in _LENGTHS
    ]
    found = judge_growth(fit(points, axis="n", target=10**8, output="y"))
    assert found is not None
    assert found.share > 1


def test_two_lengths_decide_nothing_and_one_is_an_error() -> None:
    assert judge_growth(fit(_points(0.5, 0.1)[:2], axis="n", target=10**6, output="y")) is None
    with pytest.raises(ValueError, match="two lengths or more"):
        fit(_points(0.5, 0.1)[:1], axis="n", target=10**6, output="y")


def test_an_exact_candidate_passes() -> None:
    points = [GrowthPoint(length=n, error=0.0, trusted=1e-3) for n in _LENGTHS]
    found = judge_growth(fit(points, axis="n", target=10**6, output="y"))
    assert found is not None
    assert found.share < 1
    exact = [GrowthPoint(length=n, error=0.0, trusted=0.0) for n in _LENGTHS]
    assert judge_growth(fit(exact, axis="n", target=10**6, output="y")) is None


def test_a_reference_that_grows_too_is_not_projected() -> None:
    # three lengths give exponents 0.17 apart by luck: a factor of 4 over 4000 lengths
    points = [
        GrowthPoint(length=n, error=2e-3 * (n / 16) ** 0.77, trusted=3e-3 * (n / 16) ** 0.60)
        for n in (16, 64, 256)
    ]
    found = judge_growth(fit(points, axis="tokens", target=10**6, output="y"))
    assert found is not None
    assert found.share < 1


def test_an_error_far_above_a_growing_trusted_one_fails() -> None:
    points = [
        GrowthPoint(length=n, error=8e-3 * (n / 16) ** 0.9, trusted=2e-3 * (n / 16) ** 0.5)
        for n in (16, 64, 256)
    ]
    found = judge_growth(fit(points, axis="tokens", target=10**6, output="y"))
    assert found is not None
    assert found.share > 1
