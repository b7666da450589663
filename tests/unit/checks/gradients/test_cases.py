"""Which backward passes are tried, and how each reads in words."""

from __future__ import annotations

import pytest

from cuassay.checks.gradients.cases import (
    float_inputs,
    float_outputs,
    scenarios,
    subsets,
    tried_in,
)
from cuassay.model.profile import Profile
from cuassay.model.scenario import ReadResult
from cuassay.model.steps import Upstream, Use
from tests.support.fake_trial import scaled_add


@pytest.mark.parametrize(
    ("count", "found"),
    [
        (1, []),
        (2, ["a", "b"]),
        (3, ["a", "b", "c", "ab", "ac", "bc"]),
        (4, ["a", "b", "c", "d", "bcd", "acd", "abd", "abc"]),
    ],
)
def test_each_input_alone_comes_first_and_all_of_them_never(count: int, found: list[str]) -> None:
    assert ["".join(one) for one in subsets("abcd"[:count])] == found


def test_only_numbers_that_have_gradients_are_differentiated() -> None:
    made = scaled_add().problem
    assert float_inputs(made) == ("x", "bias")
    assert float_outputs(made) == ("y",)


def test_a_scenario_begins_with_the_plain_pass_and_repeats_it() -> None:
    (plain, other) = list(scenarios(scaled_add()))
    tried = tried_in(plain)
    assert [one.words for one in tried[:3]] == ["", "", "the same call made again"]
    assert [one.again for one in tried[:3]] == [False, False, True]
    assert {one.step.upstream for one in tried} == set(Upstream)
    assert {one.step.use for one in tried} == set(Use)
    assert {one.step.wanted for one in tried} == {("x", "bias"), ("x",), ("bias",)}
    # Outputs are read of the plain pass and of the call without one alone.
    assert [one.reads[1] >= 0 for one in tried] == [True, True] + [False] * (len(tried) - 2)
    for one in tried:
        step = plain.steps[one.reads[0]]
        assert isinstance(step, ReadResult)
        assert step.result == one.step.result
    assert len(tried_in(other)) == 3
    assert other.cases[0].scalars["gain"] != plain.cases[0].scalars["gain"]


def test_more_effort_recomputes_each_subset_too() -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    tried = tried_in(next(scenarios(trial)))
    uses = [one.step.use for one in tried if one.step.wanted == ("x",)]
    assert uses == [Use.ONCE, Use.CHECKPOINT]
    words = [one.words for one in tried if one.step.wanted == ("x",)]
    assert words == [
        "gradients of x alone",
        "gradients of x alone, activations recomputed (checkpoint)",
    ]
