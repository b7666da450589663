"""What a scenario says of itself."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.model.scenario import Allocate, Call, Scenario, Step
from cuassay.model.steps import Capture, Load, Repeat, Replay, StreamCall, Together

_PLAIN: tuple[Step, ...] = (
    Allocate(slot="a", case=0),
    Call(slot="a", result="r", stream="side"),
    Capture(slot="a", graph="g"),
    Replay(graph="g", result="p"),
)


@pytest.mark.parametrize(
    "step",
    [
        StreamCall(slot="a", result="s"),
        Together(slots=("a",), results=("t",)),
        Repeat(slot="a", count=3, load=Load.BANDWIDTH),
    ],
)
def test_streams_that_meet_on_the_gpu_make_a_scenario_concurrent(step: Step) -> None:
    plain = Scenario(label="x", cases=(), steps=_PLAIN)
    assert not plain.is_concurrent
    assert dataclasses.replace(plain, steps=(*_PLAIN, step)).is_concurrent
    assert dataclasses.replace(plain, busy=True).is_concurrent
