"""The gate counts the calls of all threads, and gives each sample to one of them."""

from __future__ import annotations

import threading

from cuassay_guard.calls.gate import Gate
from cuassay_guard.calls.sampling import Sampler


def test_a_gate_counts_calls_and_not_who_asks_for_their_number() -> None:
    gate = Gate(5)
    for _ in range(3):
        gate.draw()
        assert gate.calls == gate.calls
    assert gate.calls == 3
    assert gate.skip(1) == 1  # five calls pass, whoever asked how many there were
    assert gate.skip(1) == 0
    assert gate.calls == 5
    assert gate.claim(gate.draw(), lambda: 7)
    assert [gate.claim(gate.draw(), lambda: 1) for _ in range(8)] == [False] * 7 + [True]
    assert gate.skip(3) == -2  # one call was to pass
    gate.arm(1)
    assert gate.skip(1) == 0


def test_calls_of_many_threads_are_sampled_at_the_rate_and_never_twice() -> None:
    sampler = Sampler(0.01, boost=1, boost_calls=1, seed=5)
    gate = Gate(sampler.gap())
    claimed: list[int] = []

    def work() -> None:
        for _ in range(5000):
            number = gate.draw()
            if number >= gate.due and gate.claim(number, sampler.gap):
                claimed.append(number)
                assert gate.calls > 0  # draws numbers meanwhile

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gate.calls == 40_000
    assert len(set(claimed)) == len(claimed)
    assert 320 < len(claimed) < 480  # 400 are expected, with a standard deviation of 20
