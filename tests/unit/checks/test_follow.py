"""Which case each step of a scenario works on."""

from __future__ import annotations

from cuassay.checks.follow import case_of_step, followed, lies_elsewhere
from cuassay.model.case import Case
from cuassay.model.reports import Laid, Returned
from cuassay.model.scenario import Allocate, Call, ReadResult, Refill, Release, Scenario
from cuassay.model.trace import StepDone

_CASES = (Case(label="one", axes={}), Case(label="two", axes={}))
_SCENARIO = Scenario(
    label="s",
    cases=_CASES,
    steps=(
        Allocate(slot="a", case=0),
        Call(slot="a", result="r"),
        Refill(slot="a", case=1),
        Call(slot="a", result="q"),
        ReadResult(result="r"),
        Release(name="r"),
    ),
)


def test_a_result_belongs_to_the_case_it_was_called_on() -> None:
    found = [case_of_step(_SCENARIO, index) for index in range(6)]
    assert found == [_CASES[0], _CASES[0], _CASES[1], _CASES[1], _CASES[0], None]


def test_each_step_is_told_with_what_is_held_after_it() -> None:
    results = [(index, sorted(held.results)) for index, _, held in followed(_SCENARIO)]
    assert results[1] == (1, ["r"])
    assert results[3] == (3, ["q", "r"])


def test_a_tensor_lies_elsewhere_where_its_layout_could_not_be_had() -> None:
    assert lies_elsewhere(StepDone(index=0, report=Laid(impossible={"x": "one axis"})))
    assert not lies_elsewhere(StepDone(index=0, report=Laid(impossible={})))
    assert not lies_elsewhere(StepDone(index=0, report=Returned(container="")))
    assert not lies_elsewhere(StepDone(index=0))
