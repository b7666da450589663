"""The reference as a candidate: how often it runs, and in which processes."""

from __future__ import annotations

from cuassay.checks.base import Run
from cuassay.checks.judgement import Judgement
from cuassay.checks.numeric.values import Num001
from cuassay.judge.decide.control import Control
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.waits import run_now
from tests.support.fake_trial import scaled_add
from tests.support.judging import bench
from tests.unit.checks.gpu.test_graphs import honest


def test_the_spread_of_a_reference_takes_no_new_process_for_each_run() -> None:
    fake = scaled_add()
    made = bench(fake, honest, profile=Profile.QUICK)
    asked: list[Scenario] = []

    async def run(scenario: Scenario) -> Run:
        asked.append(scenario)
        return made.run(scenario)

    control = Control(made.trial, run, lambda check, scenario, run: Judgement())
    (scenario, *_) = Num001().propose(made.trial)
    new = type(scenario)(
        label=scenario.label, cases=scenario.cases, steps=scenario.steps, fresh=True
    )
    assert run_now(control.spread(Num001(), new)) == 0.0
    assert len(asked) > 1
    assert not any(one.fresh for one in asked)
