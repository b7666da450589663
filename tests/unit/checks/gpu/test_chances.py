"""What a number of launches says of a rare fault, against published values."""

from __future__ import annotations

import pytest

from cuassay.checks.gpu.chances import meets, unseen_bound, wilson


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (1, 20, 0.0089, 0.2361)],
)
def test_wilsons_interval(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson(hits, trials) == pytest.approx((low, high), abs=1e-3)


def test_an_interval_without_trials_is_refused() -> None:
    for hits, trials in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="expected 0 <= hits <= trials"):
            wilson(hits, trials)


def test_a_fault_is_met_as_often_as_its_chance_says() -> None:
    assert meets(0.5, 2) == pytest.approx(0.75)
    assert meets(1e-12, 10) == pytest.approx(1e-11)
    assert (meets(1.0, 1), meets(1.0, 0), meets(0.3, 0)) == (1.0, 0.0, 0.0)


def test_the_rule_of_three() -> None:
    assert unseen_bound(1000, confidence=0.95) == pytest.approx(3 / 1000, rel=0.01)
    assert unseen_bound(1000) == pytest.approx(4.6 / 1000, rel=0.01)
    assert unseen_bound(0) == 1.0
    # What the bound leaves unseen is met by so many launches with the confidence.
    assert meets(unseen_bound(70), 70) == pytest.approx(0.99)
