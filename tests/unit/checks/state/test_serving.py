"""STATE001 over hundreds of calls: what shows late is found, what serves honestly is not."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from cuassay.checks.state.earlier_calls import State001
from cuassay.checks.state.serving import serving_scenarios
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import FindingClass
from cuassay.model.reports import Served
from cuassay.model.scenario import Allocate, ReadResult, Scenario
from cuassay.model.steps import Serve
from cuassay.model.trace import StepDone
from cuassay.model.verdict import Profile
from cuassay.sandbox.guest.callers import serving
from cuassay.sandbox.local import LocalRunner
from tests.support.fake_trial import Function, run_one, scaled_add

Tensor = torch.Tensor


def ring(size: int) -> Function:
    kept: dict[object, list[Tensor]] = {}
    turn = [0]

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        buffers = kept.setdefault(tuple(x.shape), [torch.empty_like(x) for _ in range(size)])
        turn[0] += 1
        return torch.add(x * gain, bias, out=buffers[turn[0] % size])

    return call


def arena(elements: int) -> Function:
    memory, used = torch.empty(elements), [0]

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if used[0] + x.numel() > elements:
            used[0] = 0
        y = memory[used[0] : used[0] + x.numel()].view(x.shape)
        used[0] += x.numel()
        return torch.add(x * gain, bias, out=y)

    return call


def memo(fingerprint: Callable[[Tensor], object]) -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        key = x.data_ptr(), tuple(x.shape), fingerprint(x), fingerprint(bias), gain
        if key not in kept:
            kept[key] = x * gain + bias
        return kept[key].clone()

    return call


def wrong_on_one_tensor_from(count: int) -> Function:
    last: list[object] = [None, 0]

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        last[1] = last[1] + 1 if last[0] == x.data_ptr() else 1  # type: ignore[operator]
        last[0] = x.data_ptr()
        return x * gain + bias if last[1] < count else x + bias  # type: ignore[operator]

    return call


def wrong_in_turns() -> Function:
    """Wrong once two tensors have come ten times in turn: as double buffers do."""
    seen: deque[int] = deque(maxlen=20)

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        seen.append(x.data_ptr())
        pair = list(seen)[:2]
        turns = len(seen) == 20 and pair[0] != pair[1] and list(seen) == pair * 10
        return x + bias if turns else x * gain + bias

    return call


def honest() -> Function:
    return lambda x, bias, gain: x * gain + bias


def workspace() -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        scratch = kept.setdefault(tuple(x.shape), torch.empty_like(x))
        torch.mul(x, gain, out=scratch)
        return scratch + bias

    return call


_LATE: dict[str, tuple[Callable[[], Function], Cause]] = {
    "ring of 3": (lambda: ring(3), Cause.OUTPUT_REUSED),
    "ring of 16": (lambda: ring(16), Cause.OUTPUT_REUSED),
    "ring of 64": (lambda: ring(64), Cause.OUTPUT_REUSED),
    "ring of 128": (lambda: ring(128), Cause.OUTPUT_REUSED),
    "arena": (lambda: arena(20_000), Cause.OUTPUT_REUSED),
    "sum": (lambda: memo(lambda t: float(t.sum())), Cause.STALE_ANSWER),
    "sum in float64": (lambda: memo(lambda t: float(t.double().sum())), Cause.STALE_ANSWER),
    "norm": (lambda: memo(lambda t: round(float(t.double().norm()), 4)), Cause.STALE_ANSWER),
    "absolute sum": (lambda: memo(lambda t: float(t.abs().sum())), Cause.STALE_ANSWER),
    "extremes": (lambda: memo(lambda t: (float(t.min()), float(t.max()))), Cause.STALE_ANSWER),
    "sum of one, all of the other": (
        lambda: memo(lambda t: float(t.sum()) if t.dim() > 1 else tuple(t.tolist())),
        Cause.STALE_ANSWER,
    ),
    "ends": (
        lambda: memo(lambda t: (*t.reshape(-1)[:2].tolist(), float(t.reshape(-1)[-1]))),
        Cause.STALE_ANSWER,
    ),
    "magnitudes": (lambda: memo(lambda t: tuple(t.abs().reshape(-1).tolist())), Cause.STALE_ANSWER),
    "one tensor": (lambda: wrong_on_one_tensor_from(6), Cause.CALL_HISTORY),
    "one tensor for long": (lambda: wrong_on_one_tensor_from(30), Cause.CALL_HISTORY),
    "turns": (wrong_in_turns, Cause.CALL_HISTORY),
}


def keyed_by_16_bits(by: Callable[[bytes], int]) -> Function:
    kept: dict[object, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        data = x.numpy().tobytes() + bias.numpy().tobytes()
        return kept.setdefault((x.shape, gain, by(data) & 0xFFFF), x * gain + bias).clone()

    return call


_LATE |= {
    "16 bits of a checksum": (lambda: keyed_by_16_bits(zlib.crc32), Cause.STALE_ANSWER),
    "16 bits of a hash": (
        lambda: keyed_by_16_bits(lambda d: int(hashlib.sha256(d).hexdigest()[:4], 16)),
        Cause.STALE_ANSWER,
    ),
}


def masked() -> Function:
    """Right to the last bit, whatever the order."""

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        y = x * gain + bias
        return torch.where(y > 0, y, -y.neg())

    return call


_HONEST: dict[str, Callable[[], Function]] = {
    "no state": honest,
    "workspace": workspace,  # of one thread, which is a condition
    "memo of all values": lambda: memo(lambda t: t.numpy().tobytes()),
    "two branches": masked,
}


def _findings(make: Callable[[], Function]) -> list[tuple[str, Cause | None]]:
    trial, check = scaled_add(), State001()
    found = []
    for scenario in serving_scenarios(trial):
        run = run_one(trial, make(), scenario)
        found += [
            (f.message, f.cause)
            for f in check.judge(trial, scenario, run).findings
            if not f.condition.startswith("threads:")
        ]
    return found


@pytest.mark.parametrize("name", _LATE)
def test_what_shows_late_is_found(name: str) -> None:
    make, cause = _LATE[name]
    found = _findings(make)
    assert found, name
    assert found[0][1] is cause, found


@pytest.mark.parametrize("name", _HONEST)
def test_what_serves_honestly_passes(name: str) -> None:
    assert not _findings(_HONEST[name])


class _Clock:
    """A clock that kernels alone move: no call is slow for what else this machine does."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=made, thread_time=made))
    return made


def tunes_each_shape(most: int, clock: _Clock) -> Function:
    known: dict[object, bool] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if x.shape not in known:
            clock.now_s += 0.03
            known[x.shape] = True
            while len(known) > most:
                known.pop(next(iter(known)))
        return x * gain + bias

    return call


@pytest.mark.parametrize(("most", "is_slow"), [(4, True), (64, False)])
def test_what_is_made_again_where_shapes_come_in_turn_is_a_condition(
    most: int, is_slow: bool, clock: _Clock
) -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    scenario = next(s for s in serving_scenarios(trial) if s.label == "many shapes in turn")
    assert len({tuple(case.axes.items()) for case in scenario.cases}) == 12
    run = run_one(trial, tunes_each_shape(most, clock), scenario)
    found = State001().judge(trial, scenario, run).findings
    if not is_slow:
        assert not found
        return
    (finding,) = found
    assert finding.finding_class is FindingClass.UNSAFE
    assert finding.condition.startswith("shapes: few in turn; a call takes ")


def test_shapes_do_not_come_in_turn_at_quick() -> None:
    assert "many shapes in turn" not in {s.label for s in serving_scenarios(scaled_add())}


def test_a_slow_kernel_is_called_as_often_as_fits(clock: _Clock) -> None:
    trial = scaled_add()
    scenario = next(iter(serving_scenarios(trial)))

    def slow(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        clock.now_s += 0.02
        return x * gain + bias

    run = run_one(trial, slow, scenario)
    made = [r.report.calls for r in run.result.records
            if isinstance(r, StepDone) and isinstance(r.report, Served)]  # fmt: skip
    assert len(made) == 4
    assert all(2 <= calls < 20 for calls in made)
    assert not State001().judge(trial, scenario, run).findings
    assert State001().remark([(scenario, run.result)]) == f"{sum(made)} calls in a row"


def test_no_call_begins_once_enough_is_held() -> None:
    trial = scaled_add()
    case = trial.cases("small")[0]
    serve = Serve(slots=("a",), count=64, result="r", most_bytes=1)
    steps = (Allocate(slot="a", case=0), serve, ReadResult(result=serve.name(63)))
    scenario = Scenario(label="held", cases=(case,), steps=steps)
    done = LocalRunner(lambda x, bias, gain: x * gain + bias, trial.problem).run(
        scenario, trial.inputs, None
    )
    record = done.result.records[1]
    assert isinstance(record, StepDone)
    assert record.report == Served(calls=1)
    assert isinstance(done.result.records[2], StepDone)


def test_the_tensors_of_a_turn_have_the_same_sums_and_ends() -> None:
    trial = scaled_add()
    base, ordered, *_, signed = next(iter(serving_scenarios(trial))).cases
    values = [trial.inputs(case)["x"] for case in (base, ordered, signed)]
    first, second, third = (v for v in values if isinstance(v, Tensor))
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)
    assert float(first.sum()) == float(second.sum())
    assert torch.equal(first.abs(), third.abs())
    for other in (second, third):
        assert torch.equal(first.reshape(-1)[:4], other.reshape(-1)[:4])
        assert torch.equal(first.reshape(-1)[-4:], other.reshape(-1)[-4:])
