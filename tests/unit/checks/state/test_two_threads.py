"""Calls from two threads: as many rounds as are wished, or as fit into a second."""

from __future__ import annotations

import pytest

from cuassay.checks.state.two_threads import calls_from_two_threads
from cuassay.model.scenario import ReadResult
from cuassay.model.steps import Together
from tests.support.fake_trial import scaled_add


@pytest.mark.parametrize(("call_s", "rounds"), [(0.0, None), (0.25, 4), (5.0, 2)])
def test_rounds_are_those_that_fit(
    call_s: float, rounds: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = scaled_add()
    monkeypatch.setattr(type(trial), "scenario_s", lambda self, scenario: call_s)
    scenario = calls_from_two_threads(trial, trial.cases("small")[0])
    (together,) = (step for step in scenario.steps if isinstance(step, Together))
    assert together.rounds == (trial.effort.together_calls if rounds is None else rounds)
    reads = [step.result for step in scenario.steps if isinstance(step, ReadResult)]
    assert reads == ["alone0", "alone1", *together.results]
    assert scenario.cases[0].seed != scenario.cases[1].seed
