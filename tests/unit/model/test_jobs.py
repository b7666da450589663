"""Jobs: what ends a trial early, and that each travels as one line."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from cuassay.model import serial
from cuassay.model.device import CPU
from cuassay.model.jobs import (
    QUICK_S,
    ExecuteJob,
    Job,
    LoopJob,
    Stop,
    TacticsJob,
    TrialJob,
)
from cuassay.model.profile import Profile


@pytest.mark.parametrize(
    ("profile", "fail_fast", "stop"),
    [
        (Profile.QUICK, None, Stop.GROSS),
        (Profile.STANDARD, None, Stop.NEVER),
        (Profile.DEEP, None, Stop.NEVER),
        (Profile.QUICK, True, Stop.FIRST),
        (Profile.DEEP, True, Stop.FIRST),
        (Profile.QUICK, False, Stop.NEVER),
    ],
)
def test_a_quick_trial_alone_ends_at_a_gross_fault_unasked(
    profile: Profile, fail_fast: bool | None, stop: Stop
) -> None:
    job = TrialJob(problem="p", candidate="k.py", profile=profile, fail_fast=fail_fast)
    assert job.stop is stop


def test_a_job_comes_back_from_its_line_as_it_was() -> None:
    jobs: tuple[Job, ...] = (
        TrialJob(problem="p", candidate="k.py", device=CPU, seed=7, require=("race",), budget_s=3),
        TacticsJob(problem="p", candidate="k.py", sizes=({"rows": 3}, {"rows": 4})),
        ExecuteJob(problem="p", candidate="k.py", axes={"rows": 2}, against="other.py"),
    )
    for job in jobs:
        line = serial.dumps(job)
        assert "\n" not in line
        assert serial.loads(type(job), line) == job


def test_every_job_names_its_problem_and_may_fix_the_seed() -> None:
    kinds = [kind for kind in get_args(Job) if dataclasses.is_dataclass(kind)]
    assert set(get_args(LoopJob)) < set(kinds)
    for kind in kinds:
        names = {field.name for field in dataclasses.fields(kind)}
        assert {"problem", "device", "seed", "strict", "within"} <= names, kind


@pytest.mark.parametrize(
    ("profile", "budget_s", "expected_s"),
    [
        (Profile.QUICK, None, 60.0),
        (Profile.STANDARD, None, 60.0),
        (Profile.QUICK, 20.0, 20.0),
        (Profile.STANDARD, 500.0, 60.0),
    ],
)
def test_a_trial_that_is_stopped_at_a_time_ends_by_itself_before(
    profile: Profile, budget_s: float | None, expected_s: float
) -> None:
    job = TrialJob(problem="p", candidate="k.py", profile=profile, budget_s=budget_s)
    assert job.to_end_within(90.0).budget_s == expected_s
    assert TrialJob(problem="p", candidate="k.py").to_end_within(1800.0).budget_s == 1200.0
    quick = TrialJob(problem="p", candidate="k.py", profile=Profile.QUICK)
    assert quick.to_end_within(1800.0).budget_s == QUICK_S
