"""Which calls are sampled: gaps of the rate, and what checks may cost."""

from __future__ import annotations

from cuassay_guard.calls.sampling import CheckBudget, Sampler


def test_gaps_have_the_rate_and_rise_after_attention() -> None:
    sampler = Sampler(0.01, boost=16, boost_calls=10, seed=3)
    gaps = [sampler.gap() + 1 for _ in range(4000)]
    assert 90 < sum(gaps) / len(gaps) < 110
    assert len(set(gaps)) > 100  # no period
    sampler.heed()
    boosted = [sampler.gap() + 1 for _ in range(10)]
    assert sum(boosted) / 10 < 20
    assert sampler.rate == 0.01
    assert Sampler(0.0, boost=1, boost_calls=1).gap() > 10**15
    assert Sampler(1.0, boost=1, boost_calls=1).gap() == 0


def test_the_budget_follows_wall_time() -> None:
    now = [0.0]
    budget = CheckBudget(0.01, clock=lambda: now[0])
    assert budget.affordable
    budget.spend(1.25)
    assert not budget.affordable
    now[0] = 101.0
    assert budget.affordable
    assert CheckBudget(None).affordable
