"""Steps that bring about production conditions, as far as a CPU can execute them."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.checks.follow import case_of_step
from cuassay.checks.gpu.timing import Perf001, per_call_s, timed
from cuassay.model import serial
from cuassay.model.case import Case
from cuassay.model.outcome import FindingClass
from cuassay.model.reports import Repeats
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario, Step
from cuassay.model.step import Held
from cuassay.model.steps import (
    Capture,
    Misuse,
    Overwrite,
    ReadSlices,
    Repeat,
    Replay,
    StreamCall,
    Time,
    Together,
)
from cuassay.model.trace import StepDone, StepRaised
from cuassay.sandbox.guest.callers.streams import _odd_one
from cuassay.sandbox.local import LocalRunner
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import scaled_add


def honest(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + bias


def run(function: object, steps: tuple[Step, ...]) -> Ran:
    trial = scaled_add()
    case = trial.cases("small")[0]
    scenario = Scenario(label="steps", cases=(case,), steps=steps)
    runner = LocalRunner(function, trial.problem)  # type: ignore[arg-type]
    return runner.run(scenario, trial.inputs, None)


def record(found: Ran, index: int) -> StepDone:
    done = found.result.records[index]
    assert isinstance(done, StepDone), done
    return done


def test_repeats_are_counted_and_each_result_is_sent_once() -> None:
    calls = iter(range(100))

    def flaky(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return honest(x, bias, gain) + (next(calls) % 4 == 3)

    found = run(flaky, (Allocate(slot="a", case=0), Repeat(slot="a", count=40)))
    done = record(found, 1)
    assert done.report == Repeats(calls=40, counts=(30, 10))
    assert len(done.items) == 2
    usual, odd = (found.tensor(item) for item in done.items)
    assert torch.equal(usual + 1.0, odd)


def test_calls_from_threads_keep_the_round_that_differs() -> None:
    steps = (
        Allocate(slot="a", case=0),
        Allocate(slot="b", case=0),
        Together(slots=("a", "b"), results=("ra", "rb"), threads=True, rounds=5),
        ReadResult(result="ra"),
        ReadResult(result="rb"),
    )
    found = run(honest, steps)
    one, other = (found.tensor(record(found, index).items[0]) for index in (3, 4))
    assert torch.equal(one, other)
    same: list[tuple[str, object]] = [("y", torch.ones(2))]
    odd: list[tuple[str, object]] = [("y", torch.zeros(2))]
    assert _odd_one([same, odd, same]) is odd
    assert _odd_one([same, same]) == same


def test_what_a_thread_raises_is_the_steps_exception() -> None:
    def refuses(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        raise ValueError("no threads here")

    steps = (
        Allocate(slot="a", case=0),
        Together(slots=("a",), results=("r",), threads=True),
    )
    last = run(refuses, steps).result.records[-1]
    assert isinstance(last, StepRaised)
    assert last.message == "no threads here"


@pytest.mark.parametrize("make", [torch.Tensor.contiguous, torch.Tensor.t])
def test_a_caller_overwrites_what_it_got(make: object) -> None:
    kept: list[torch.Tensor] = []

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        kept.append(make(torch.ones(3, 4, dtype=torch.int32)))  # type: ignore[operator]
        return kept[-1]

    run(call, (Allocate(slot="a", case=0), Call(slot="a", result="r"), Overwrite(result="r")))
    assert bool((kept[0] == -1).all())


def test_a_call_with_nothing_for_a_tensor_is_made_and_forgotten() -> None:
    seen: list[tuple[bool, ...]] = []

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        seen.append((x is None, bias is None, gain is None))
        return x * gain + bias

    record(run(call, (Allocate(slot="a", case=0), Misuse(slot="a", name="bias"))), 1)
    assert seen == [(False, True, False)]


def test_an_expanded_result_is_left_alone() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return torch.ones(1).expand(5)

    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), Overwrite(result="r"))
    record(run(call, steps), 2)


def test_slices_are_read_along_an_axis() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return torch.arange(12.0).reshape(3, 4)

    read = ReadSlices(result="r", axis=1, places=(0, 3))
    found = run(call, (Allocate(slot="a", case=0), Call(slot="a", result="r"), read))
    assert found.tensor(record(found, 2).items[0]).tolist() == [[0, 3], [4, 7], [8, 11]]
    far = dataclasses.replace(read, places=(4,))
    found = run(call, (Allocate(slot="a", case=0), Call(slot="a", result="r"), far))
    assert record(found, 2).items[0].buffer == -1


def test_the_follower_knows_which_case_each_result_belongs_to() -> None:
    held = Held()
    steps: tuple[Step, ...] = (
        Allocate(slot="a", case=0),
        StreamCall(slot="a", result="s", case=1),
        Capture(slot="a", graph="g"),
        Replay(graph="g", result="p"),
        Time(slot="a", count=3, result="t"),
        Time(slot="a", count=3, result="idle", idle=True),
    )
    assert [step.follow(held) for step in steps] == [0, 1, 1, 1, 1, 1]
    assert held.results == {"s": (1, 1), "p": (1, 2), "t": (1, 3)}
    cases = (Case(label="zero", axes={}), Case(label="one", axes={}))
    scenario = Scenario(label="x", cases=cases, steps=steps)
    assert case_of_step(scenario, 3) == cases[1]
    assert serial.loads(Scenario, serial.dumps(scenario)) == scenario


def test_timed_calls_that_return_an_old_answer_are_found() -> None:
    trial = scaled_add()
    seen: list[int] = []

    def lazy(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        seen.append(1)
        return honest(x, bias, gain) if len(seen) < 4 else torch.zeros_like(x)

    scenario = timed(trial)
    for function, expected in ((honest, []), (lazy, [FindingClass.WRONG])):
        done = LocalRunner(function, trial.problem).run(scenario, trial.inputs, None)
        found = Perf001().judge(trial, scenario, done).findings
        assert [finding.finding_class for finding in found] == expected


def test_a_call_takes_what_longer_rows_take_more() -> None:
    trial = scaled_add()
    scenario = timed(trial)
    done = LocalRunner(honest, trial.problem).run(scenario, trial.inputs, None)

    def spent(step: Step, found: StepDone | StepRaised) -> StepDone | StepRaised:
        if not isinstance(step, Time) or not isinstance(found, StepDone):
            return found
        each_s = 0.1 if step.idle else 0.6
        return dataclasses.replace(found, duration_s=1.0 + each_s * step.count)

    pairs = zip(scenario.steps, done.result.records, strict=True)
    result = dataclasses.replace(done.result, records=tuple(spent(*pair) for pair in pairs))
    assert per_call_s(scenario, result) == pytest.approx(0.5)
