"""Records of a scenario's steps, beside the steps that they are of."""

from __future__ import annotations

from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.trace import Finished, ScenarioResult, StepDone, StepRaised, done_steps


def test_steps_of_a_kind_that_ended_come_with_their_own_records() -> None:
    scenario = Scenario(
        label="two calls",
        cases=(),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="first"),
            Call(slot="a", result="second"),
            ReadResult(result="first"),
            Call(slot="a", result="third"),
        ),
    )
    records = (
        StepDone(index=0),
        StepDone(index=1, digest="d"),
        StepRaised(index=2, exception="ValueError", message="no"),
        StepDone(index=3),
    )  # the process ended before the third call
    result = ScenarioResult(records=records, termination=Finished())
    assert [(s.result, r.digest) for s, r in done_steps(scenario, result, Call)] == [("first", "d")]
    assert [s.result for s, _ in done_steps(scenario, result, ReadResult)] == ["first"]
