"""Steps that call more than once: which case each of their results belongs to."""

from __future__ import annotations

from cuassay.model.step import Held
from cuassay.model.steps import Backward, CallRanks, Serve, StreamCall


def _held(**slots: int) -> Held:
    return Held(slots=dict(slots))


def test_a_server_takes_its_slots_in_turn() -> None:
    held = _held(a=3, b=5)
    step = Serve(slots=("a", "b"), count=3, result="r")
    assert step.turn == 2
    assert step.follow(held) == 3
    assert held.results == {"r.0": (3, 1), "r.1": (5, 2), "r.2": (3, 3)}


def test_refilled_tensors_hold_the_values_of_the_slot_that_was_copied() -> None:
    held = _held(a=0, even=7, odd=8)
    step = Serve(slots=("a",), count=3, result="r", values=("even", "odd", "gone"))
    assert step.turn == 3
    # Nothing is copied out of a slot that holds nothing: the values stay.
    assert step.follow(held) == 8
    assert [held.case_of(step.name(number)) for number in range(3)] == [7, 8, 8]


def test_ranks_note_each_call_of_each_group() -> None:
    held = _held(a=1, b=2)
    step = CallRanks(slots=(("a", "b"), ("b",)), results=(("p", "q"), ("r",)))
    assert step.follow(held) == 2
    assert {name: case for name, (case, _) in held.results.items()} == {"p": 1, "q": 2, "r": 2}


def test_a_backward_pass_of_an_empty_slot_holds_nothing() -> None:
    held = Held()
    step = Backward(slot="a", result="d", outputs="o", wanted=("x",), seed=1)
    assert step.follow(held) is None
    assert held.results == {}


def test_a_call_on_a_stream_fills_its_slot_where_it_copies_a_case() -> None:
    assert StreamCall(slot="a", result="r").fills is None
    assert StreamCall(slot="a", result="r", case=4).fills == ("a", 4)
