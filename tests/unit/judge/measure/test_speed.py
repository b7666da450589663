"""The reference's time is asked again in a new process only where the old one did not go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuassay.checks.gpu.timing import timed
from cuassay.judge import extras
from cuassay.judge.measure import speed
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Time
from cuassay.model.trace import (
    Finished,
    Killed,
    ScenarioResult,
    StepDone,
    Termination,
    done_steps,
)
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import scaled_add
from tests.support.judging import bench

CALLS = (1, 17)  # of the shorter and the longer row
QUIET, NOISY = (0.0, 1e-4, 0.0, 17e-4), (0.0, 9e-4, 0.0, 2e-4)  # idle, calls; twice


def ran(times_s: Sequence[float], termination: Termination) -> Ran:
    """Return a run whose Time steps took so long by the judge's clock."""
    records = tuple(StepDone(index=n, duration_s=one) for n, one in enumerate(times_s))
    return Ran(ScenarioResult(records=records, termination=termination), ())


@pytest.mark.parametrize(
    ("first", "fresh"),
    [
        (ran(NOISY, Finished()), False),
        (ran(QUIET[:2], Killed(index=2, signal=9)), True),
    ],
    ids=["noise hid it", "its process died"],
)
def test_a_time_that_noise_hid_is_asked_of_the_same_process(
    first: Ran, fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = bench(scaled_add(), lambda x, bias, gain: x * gain + bias).trial
    steps = [
        Time(slot="a", count=count, idle=idle, result="" if idle else "r")
        for count in CALLS
        for idle in (True, False)
    ]
    scenario = Scenario(label="timed", cases=tuple(trial.cases("small")[:1]), steps=tuple(steps))
    monkeypatch.setattr(speed, "timed", lambda trial: scenario)
    answers: Iterator[Ran] = iter([first, ran(QUIET, Finished())])
    asked: list[bool] = []

    def reference(one: Scenario) -> Any:
        asked.append(one.fresh)
        return next(answers)

    found = speed.measure_speed(trial, lambda one: ran(QUIET, Finished()), reference, compiled=None)
    assert found is not None
    assert found.eager_us == found.candidate_us == pytest.approx(100.0)
    assert asked == [False, fresh]


def test_calls_that_a_check_timed_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = bench(scaled_add(), lambda x, bias, gain: x * gain + bias).trial
    steps = [
        Time(slot="a", count=count, idle=idle, result="" if idle else "r")
        for count in CALLS
        for idle in (True, False)
    ]
    scenario = Scenario(label="timed", cases=tuple(trial.cases("small")[:1]), steps=tuple(steps))
    monkeypatch.setattr(speed, "timed", lambda trial: scenario)
    asked: list[Scenario] = []

    def candidate(one: Scenario) -> Any:
        asked.append(one)
        return ran(QUIET, Finished())

    for known, times in ((QUIET, 0), (NOISY, 1)):
        found = speed.measure_speed(
            trial,
            candidate,
            lambda one: ran(QUIET, Finished()),
            compiled=None,
            known=(scenario, ran(known, Finished()).result),
        )
        assert found is not None
        assert found.candidate_us == pytest.approx(100.0)
        assert len(asked) == times


def test_the_reference_is_timed_by_the_calls_that_a_check_has_timed() -> None:
    """What is learned after the check may plan other cases."""
    trial = bench(scaled_add(), lambda x, bias, gain: x * gain + bias).trial
    planned = timed(trial)
    case = next(c for c in trial.cases("small") if dict(c.axes) != dict(planned.cases[0].axes))
    asked: list[Scenario] = []

    def reference(one: Scenario) -> Any:
        asked.append(one)
        return quiet_run(one)

    earlier = replace(planned, cases=(case,))
    known = (earlier, quiet_run(earlier).result)
    found = speed.measure_speed(trial, reference, reference, compiled=None, known=known)
    assert found is not None
    assert found.axes == dict(case.axes)
    assert asked == [earlier]


def quiet_run(scenario: Scenario) -> Ran:
    """Return a run in which each call took 100 us."""
    times = [
        1e-4 * step.count if isinstance(step, Time) and not step.idle else 0.0
        for step in scenario.steps
    ]
    return ran(times, Finished())


def timed_here(**given: Any) -> tuple[Any, list[str]]:
    """Return what takes the reference's time in a trial at quick, and what was begun for it."""
    begun: list[str] = []
    trial = bench(scaled_add(**given), lambda x, bias, gain: x * gain + bias).trial
    of: Any = SimpleNamespace(trial=trial, quick=True, on_gpu=False, device=trial.device)

    def begin() -> Any:
        begun.append("process")
        return lambda scenario: ran(QUIET, Finished())

    reference: Any = SimpleNamespace(begin=begin)
    return extras._reference_as_written(of, reference), begun


def test_the_reference_is_timed_in_the_judge_at_quick() -> None:
    run, begun = timed_here()
    trial = bench(scaled_add(), lambda x, bias, gain: x * gain + bias).trial
    asked = timed(trial)
    seen = run(asked)
    assert begun == []
    assert isinstance(seen.result.termination, Finished)
    assert all(isinstance(record, StepDone) for record in seen.result.records)
    times = [one for _, one in done_steps(asked, seen.result, Time)]
    assert all(one.duration_s > 0 for one in times)


def test_a_slow_reference_has_a_process_that_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_HERE_S", 0.0)
    assert timed_here()[1] == ["process"]


def test_a_reference_that_finds_no_memory_beside_truths_has_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def takes_s(trial: object) -> float:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(speed, "takes_s", takes_s)
    assert timed_here()[1] == ["process"]


def test_what_does_not_go_on_in_the_judge_is_asked_of_a_process() -> None:
    run, begun = timed_here()
    trial = bench(scaled_add(), lambda x, bias, gain: x * gain + bias).trial
    run(replace(timed(trial), fresh=True))
    assert begun == ["process"]
