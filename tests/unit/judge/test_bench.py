"""How a trial opens the processes of its candidate."""

from __future__ import annotations

from typing import Any

import pytest

from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate
from cuassay.model.verdict import Lane, Profile
from cuassay.sandbox.host.nursery import Nursery
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, load


@pytest.mark.parametrize(
    ("profile", "beside", "serves_all"),
    [(Profile.QUICK, 0, True), (Profile.QUICK, 1, False), (Profile.STANDARD, 0, False)],
)
def test_one_process_serves_every_scenario_where_quick_checks_run_in_one_lane(
    profile: Profile, beside: int, serves_all: bool, nursery: Nursery
) -> None:
    opened: list[tuple[Lane, bool]] = []

    def start(trial: JudgeTrial, candidate: Candidate, **given: Any) -> Executor:
        opened.append((given["lane"], given["all_queues"]))
        return Executor(trial, candidate, **given)

    with Gate(nursery=nursery, beside=beside) as gate:
        found = gate.judge(
            load("rmsnorm"),
            HERE / "honest" / "rmsnorm_float64.py",
            profile=profile,
            seed=3,
            only=("API002",),
            start=start,
        )
    assert found.accepted, str(found)
    assert {all_queues for lane, all_queues in opened if lane is Lane.CANDIDATE} == {serves_all}
    assert not any(all_queues for lane, all_queues in opened if lane is not Lane.CANDIDATE)
