"""Every step says what it does, what it sends, and what slots and results hold after it."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from cuassay.model import scenario, steps
from cuassay.model.scenario import Allocate, Call, Poison, ReadResult, Step
from cuassay.model.step import Held, StepBase
from cuassay.model.steps import Backward, Capture, Replay, StreamCall, Together


def _members(union: object) -> list[type[StepBase]]:
    return [
        k for part in get_args(union) for k in ([part] if not get_args(part) else get_args(part))
    ]


@pytest.mark.parametrize("kind", _members(Step), ids=lambda kind: kind.__name__)
def test_a_step_is_defined_in_its_class(kind: type[StepBase]) -> None:
    assert issubclass(kind, StepBase)
    assert kind.words
    assert dataclasses.fields(kind) is not None  # type: ignore[arg-type]


def test_the_union_holds_every_step_that_is_defined() -> None:
    defined = {
        kind
        for module in (scenario, steps)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, StepBase)
        and kind.__module__ != StepBase.__module__
    }
    assert defined == set(_members(Step))


def test_slots_results_and_graphs_are_followed() -> None:
    held = Held()
    for step, case in (
        (Call(slot="a", result="early"), None),
        (Allocate(slot="a", case=2), 2),
        (Call(slot="a", result="r"), 2),
        (StreamCall(slot="b", result="s", case=1), 1),
        (Together(slots=("b", "a"), results=("x", "y")), 1),
        (Capture(slot="b", graph="g"), 1),
        (Replay(graph="g", result="p"), 1),
        (Backward(slot="a", result="d", outputs="o", wanted=("x",), seed=1), 2),
        (ReadResult(result="o"), 2),
    ):
        assert step.follow(held) == case, step
    assert held.results == {
        "r": (2, 1),
        "s": (1, 2),
        "x": (1, 3),
        "y": (2, 4),
        "p": (1, 5),
        "d": (2, 6),
        "o": (2, 6),
    }


def test_what_the_judge_hands_over_is_said_by_the_step() -> None:
    assert Allocate(slot="a", case=3).fills == ("a", 3)
    assert StreamCall(slot="a", result="r").fills is None
    assert Call(slot="a", result="r", poison=Poison.RIGHT).wants_answers == "a"
    assert Call(slot="a", result="r").wants_answers == ""
