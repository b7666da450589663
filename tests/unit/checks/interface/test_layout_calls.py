"""The calls of a layout scenario that are not plain."""

from __future__ import annotations

from cuassay.checks.interface.layout_calls import reads_by_result, tried_calls
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import Arrange, CallInto, Layout

_SCENARIO = Scenario(
    label="s",
    cases=(),
    steps=(
        Allocate(slot="a", case=0),
        Call(slot="a", result="plain"),
        ReadResult(result="plain"),
        Arrange(slot="b", layouts={"x": Layout.STEPPED}),
        Call(slot="b", result="r0"),
        ReadResult(result="r0"),
        CallInto(slot="b", result="r1", into={"y": "x"}),
        ReadResult(result="r1"),
    ),
)


def test_plain_calls_are_passed_over_and_the_others_have_words() -> None:
    stepped, into = tried_calls(_SCENARIO)
    assert (stepped.words, stepped.apart) == ("x sliced with step 2", "")
    assert (stepped.arranged, stepped.call, stepped.read) == (3, 4, 5)
    assert into.words == "y in the memory of x"
    assert into.apart == "outputs must not share memory with inputs"
    assert (into.arranged, into.call, into.read) == (6, 6, 7)


def test_one_tensor_for_two_inputs_has_words() -> None:
    arrange = Arrange(slot="b", same={"up": "gate"})
    steps = (arrange, Call(slot="b", result="r"), ReadResult(result="r"))
    (one,) = tried_calls(Scenario(label="s", cases=(), steps=steps))
    assert one.words == "one tensor as gate and up"
    assert one.apart == "inputs must not share memory with one another"


def test_each_result_is_read_once() -> None:
    assert reads_by_result(_SCENARIO) == {"plain": 2, "r0": 5, "r1": 7}
