"""Shapes in turn are as many as the profile asks for, each another one; `quick` asks for none."""

from __future__ import annotations

from cuassay.checks.state.shapes_in_turn import shapes_in_turn
from cuassay.model.steps import Serve
from cuassay.model.verdict import Profile
from tests.support.fake_trial import scaled_add


def test_each_turn_calls_every_shape_and_then_one_comes_again() -> None:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    (scenario,) = shapes_in_turn(trial, trial.cases("small")[0])
    count = trial.effort.shapes_in_turn
    assert len({tuple(case.axes.items()) for case in scenario.cases}) == count == 12
    turns, again = (step for step in scenario.steps if isinstance(step, Serve))
    assert (len(turns.slots), turns.count) == (count, 3 * count)
    assert again.slots == turns.slots[:1]


def test_shapes_do_not_come_in_turn_at_quick() -> None:
    trial = scaled_add()
    assert not list(shapes_in_turn(trial, trial.cases("small")[0]))
