"""The parts of a guard one by one: configuration, sampling, breaker, screen, drift, counters."""

from __future__ import annotations

import threading

import pytest
import torch

import cuassay
from cuassay.errors import UnknownNameError, UsageError
from cuassay.oracle.compare.outputs import Bias
from cuassay.oracle.truth.types import TrustedBias
from cuassay_guard.calls.breaker import Breaker, State
from cuassay_guard.calls.counters import EventCounts
from cuassay_guard.calls.gate import Gate
from cuassay_guard.calls.sampling import CheckBudget, Sampler
from cuassay_guard.calls.signature import described, key_of
from cuassay_guard.calls.snapshot import SnapshotBudget, take
from cuassay_guard.calls.structure import flatten, portable, rebuild
from cuassay_guard.config import Enforcement, configured, mode
from cuassay_guard.sampled import screen
from cuassay_guard.sampled.drift import Drift, limit
from tests.support.guards import axpy_, double, honest, rmsnorm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": -0.1}, "sample is -0.1, expected a share from 0 to 1"),
        ({"sample": 2}, "sample is 2, expected a share"),
        ({"sample": "often"}, "sample is 'often', expected a share"),
        ({"sample": float("nan")}, "sample is nan"),
        ({"max_overhead": 0}, "max_overhead is 0, expected a share above 0"),
        ({"on_violation": "fall-back"}, "did you mean 'fallback'"),
        ({"mode": "enforced"}, "did you mean 'enforce'"),
        ({"oracle": "remote"}, "known: auto, process, local"),
        ({"samples": 0.1}, "did you mean 'sample'"),
        ({"deep_every": 0}, "deep_every is 0, expected a whole number of at least 1"),
        ({"deep_every": 1.5}, "deep_every is 1.5, expected a whole number"),
        ({"cooldown_s": -1}, "cooldown_s is -1"),
        ({"hooks": "pager"}, "hooks is 'pager', expected a list or tuple"),
        ({"hooks": [3]}, "expected functions that take a Violation"),
        ({"mutates": ["z"]}, "mutates names 'z', but the kernel takes"),
        ({"capsules": 3}, "expected a folder, a CapsulePolicy, or None"),
        ({"problem": "rmsnrm"}, "did you mean 'rmsnorm'"),
        ({"problem": 3}, "problem is 3"),
    ],
)
def test_a_bad_configuration_fails_at_construction(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as failure:
        cuassay.guard(honest, trusted=rmsnorm, **options)
    assert message in str(failure.value)


def test_a_trusted_operator_of_another_signature_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the trusted operator takes .* the kernel"):
        cuassay.guard(honest, trusted=double)
    with pytest.raises(UsageError, match="guard needs a trusted operator"):
        cuassay.guard(honest)
    with pytest.raises(UsageError, match="expected a function to guard"):
        cuassay.guard(3, trusted=rmsnorm)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="stands inside a function"):
        cuassay.guard(double, trusted=lambda x: x * 2, oracle="process")


def test_the_environment_overrides_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mode(None) is Enforcement.ENFORCE
    assert mode("observe") is Enforcement.OBSERVE
    monkeypatch.setenv("CUASSAY_GUARD", "off")
    assert configured({"mode": "enforce"}).mode is Enforcement.OFF
    monkeypatch.setenv("CUASSAY_GUARD", "on")
    with pytest.raises(UnknownNameError, match=r"\$CUASSAY_GUARD"):
        configured({})


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


def test_the_breaker_opens_probes_and_closes() -> None:
    now = [0.0]
    states: list[State] = []
    breaker = Breaker(
        open_after=2, cooldown_s=10, probes=2, changed=states.append, clock=lambda: now[0]
    )
    breaker.violation()
    assert breaker.state == "closed"
    breaker.violation()
    assert breaker.state == "open"
    breaker.clean()  # of a call sampled before it opened
    now[0] = 9.0
    assert breaker.state == "open"
    now[0] = 10.0
    assert breaker.state == "half-open"
    breaker.violation()
    now[0] = 29.0  # twice as long
    assert breaker.state == "open"
    now[0] = 30.0
    assert breaker.state == "half-open"
    breaker.clean()
    assert breaker.state == "half-open"
    breaker.clean()
    assert breaker.state == "closed"
    assert states == ["open", "half-open", "open", "half-open", "closed"]


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


def test_signatures_tell_what_a_launch_depends_on() -> None:
    x = torch.zeros(4, 8)
    same = key_of((torch.ones(4, 8), 1.5), {})
    assert key_of((x, 2.5), {}) == same
    others = [
        ((x.t(), 1.5), {}),
        ((x[:, ::2], 1.5), {}),
        ((x.half(), 1.5), {}),
        ((x, 1), {}),
        ((x,), {"eps": 1.5}),
        (([x], 1.5), {}),
        ((x, True), {}),
        ((x, False), {}),
    ]
    keys = {key_of(*one) for one in others}
    assert len(keys | {same}) == len(others) + 1
    assert described((x.t(), 1.5, "sum", None), {"k": [x]}) == (
        "float32[8, 4] stride (1, 8), float, 'sum', None, k: (float32[4, 8])"
    )


def test_structures_come_back_and_say_what_travels() -> None:
    x, y = torch.zeros(2), torch.ones(3)
    value = [x, (1, 2.5, None, "s"), {"a": y, "b": [float("inf"), torch.float16]}]
    tensors, template = flatten(value)
    again = rebuild(template, tensors)
    assert again[0] is x
    assert again[2]["a"] is y
    assert again[1] == (1, 2.5, None, "s")
    assert again[2]["b"] == [float("inf"), torch.float16]
    assert portable(template)
    assert not portable(flatten([x, object()])[1])


def test_a_call_is_settled_once() -> None:
    tally, ticket, other = EventCounts(), object(), object()
    tally.submit(ticket)
    tally.submit(other)
    tally.settle(ticket, "checked")
    tally.settle(ticket, "lost")
    tally.add("checked")
    assert tally.items() == {"submitted": 2, "checked": 2, "done": 1}
    tally.settle(other, "lost")
    assert (tally["lost"], tally["done"]) == (1, 2)


def test_snapshots_stay_within_their_memory_and_survive_changes() -> None:
    memory = SnapshotBudget(100)
    x = torch.ones(4)
    snapshot = take((x,), {}, memory)
    assert snapshot is not None
    assert memory.used_bytes == 16
    assert take((torch.ones(64),), {}, memory) is None
    x.zero_()
    assert snapshot.finish(torch.ones(2), [])
    assert memory.used_bytes == 24
    assert snapshot.tensors[0].tolist() == [1, 1, 1, 1]
    assert not snapshot.finish(torch.ones(64), [])
    snapshot.release()
    snapshot.release()
    assert memory.used_bytes == 0
    with torch.inference_mode():
        inferred = torch.ones(3)
    kept = take((inferred,), {}, memory)
    assert kept is not None
    assert not kept.tensors[0].is_inference()


def test_the_screen_sees_what_differs_and_learns_what_was_accepted() -> None:
    want = torch.randn(8, 32, generator=torch.Generator().manual_seed(1)).bfloat16()
    allowance = screen.Allowance()
    same = screen.screened(want, want).tolist()
    assert same == [0.0] * len(screen.STATISTICS)
    assert allowance.beyond([same]) == ""
    near = want.clone()
    near[0, 0] = torch.nextafter(want[0, 0], torch.tensor(torch.inf, dtype=torch.bfloat16))
    one = screen.screened(near, want).tolist()
    assert 0.4 < one[1] <= 1.01  # one spacing
    assert allowance.beyond([one]) == "element"
    allowance.accept([one])
    assert allowance.beyond([one]) == ""
    row = want.clone()
    row[3] *= 1.05
    assert allowance.beyond([screen.screened(row, want).tolist()]) != ""
    odd = want.clone()
    odd[0, 0] = torch.nan
    numbers = screen.screened(odd, want).tolist()
    assert numbers[0] == 1
    allowance.accept([numbers])
    assert allowance.beyond([numbers]) == "class"  # never learnt
    places = torch.arange(8)
    assert screen.screened(places.flip(0), places).tolist()[0] == 8


def test_sketches_see_new_magnitudes_and_hot_indices() -> None:
    plain = screen.input_sketch([torch.ones(4), torch.arange(64)]).tolist()
    assert plain == [1.0, 0.0, pytest.approx(1 / 64), 1.0, 0.0]  # then the largest of each
    odd = screen.input_sketch([torch.tensor([3.0, torch.nan]), torch.zeros(64).long()]).tolist()
    assert odd == [3.0, 1.0, 1.0, 3.0, 0.0]
    seen = screen.Range()
    assert not seen.leaves(plain[:3])
    assert not seen.leaves([1.5, 0, 1 / 64])
    assert seen.leaves([4.0, 0, 1 / 64])
    assert not seen.leaves([5.0, 0, 1 / 64])
    assert seen.leaves([1.0, 1, 1 / 64])


def _bias(projection: float) -> Bias:
    trusted = TrustedBias(draws=(0.0,), known=(0.0,), norm2=1.0, room=0.0)
    return Bias(kind="gain", projection=projection, trusted=trusted)


def test_drift_finds_a_constant_sign_and_no_rounding() -> None:
    drifting, calls = Drift(), 0
    while drifting.add("y", [_bias(1.0)]) is None:
        calls += 1
    assert 30 <= calls <= 60  # K = limit(K)^2
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(40_000, generator=generator).tolist()
    fair = Drift()
    assert not any(fair.add("y", [_bias(value)]) for value in noise)
    assert limit(1) < 9
    assert limit(10**6) < 8
    assert fair.new(1)
    assert not fair.new(1)


def test_written_parameters_are_known_by_name() -> None:
    guarded = cuassay.guard(axpy_, trusted=axpy_, mutates=["x"], sample=0)
    assert guarded.kernel is axpy_
