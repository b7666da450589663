"""APART001 reads a held result before the kernel may rightly write its memory again."""

from __future__ import annotations

from cuassay.checks.state.apart import Apart001
from cuassay.model.scenario import Call, ReadResult
from tests.support.fake_trial import scaled_add


def test_no_call_on_the_same_slot_comes_between_two_reads_of_a_result() -> None:
    """A kernel that is given its outputs writes them again then, by atomics with other bits."""
    for scenario in Apart001().propose(scaled_add()):
        reads = [
            place
            for place, step in enumerate(scenario.steps)
            if isinstance(step, ReadResult) and step.result == "first"
        ]
        between = scenario.steps[reads[0] : reads[1]]
        slots = [step.slot for step in between if isinstance(step, Call)]
        assert slots == ["b"]


def test_the_second_call_has_other_scalars_and_the_third_has_the_usual_ones() -> None:
    """A usual scalar, such as a smoothing of 0, can hide what a kernel does with it."""
    (scenario, *_) = Apart001().propose(scaled_add())
    first, second = scenario.cases
    assert isinstance(second.scalars["gain"], float)
    assert first.scalars["gain"] != second.scalars["gain"]
    called = [step.slot for step in scenario.steps if isinstance(step, Call)]
    assert called == ["a", "b", "a"]
