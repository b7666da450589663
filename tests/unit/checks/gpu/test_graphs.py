"""GRAPH001's scalars, with graphs played by callables that keep what they were captured with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from cuassay.checks.base import Run
from cuassay.checks.gpu.graphs import Graph001
from cuassay.checks.judgement import Judgement
from cuassay.judge.decide.control import Control
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Call, Scenario
from cuassay.model.steps import Capture, Replay
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import FakeTrial, Function, judged, row_sum, run_one, scaled_add
from tests.support.judging import bench


def honest(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + bias


def frozen() -> Function:
    """Return a callable that stays with the first scalar it is called with, as a graph does."""
    kept: list[float] = []

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        kept.append(gain)
        return honest(x, bias, kept[0])

    return call


def scalars_of(trial: FakeTrial) -> Scenario | None:
    found = [s for s in Graph001().propose(trial) if "scalars" in s.label]
    return found[0] if found else None


def played(trial: FakeTrial, scenario: Scenario, function: Function) -> Ran:
    """Run a scenario with plain calls in the place of captures and replays."""
    graphs: Mapping[str, str] = {s.graph: s.slot for s in scenario.steps if isinstance(s, Capture)}
    steps = [
        Call(slot=step.slot, result="captured")
        if isinstance(step, Capture)
        else Call(slot=graphs[step.graph], result=step.result)
        if isinstance(step, Replay)
        else step
        for step in scenario.steps
    ]
    run = run_one(trial, function, dataclasses.replace(scenario, steps=tuple(steps)))
    return Ran(run.result, run._tensors)  # type: ignore[attr-defined]


def found(function: Function) -> list[Finding]:
    trial = scaled_add()
    scenario = scalars_of(trial)
    assert scenario is not None
    return judged(Graph001(), trial, scenario, played(trial, scenario, function))


def test_a_replay_that_keeps_its_scalars_is_a_condition() -> None:
    (finding,) = found(frozen())
    assert finding.message == "a replayed graph keeps the scalars of its capture (gain)"
    assert finding.finding_class is FindingClass.UNSAFE
    assert finding.severity is Severity.LOW
    assert finding.condition.startswith("graph-scalars: gain as at capture")


def test_scalars_that_a_replay_follows_are_no_news() -> None:
    assert found(honest) == []


def test_a_plain_call_that_is_wrong_is_left_to_others() -> None:
    assert found(lambda x, bias, gain: x * gain) == []


def test_without_scalars_nothing_is_proposed() -> None:
    assert scalars_of(row_sum()) is None


def test_the_condition_is_stated_although_the_reference_keeps_its_scalars_too() -> None:
    fake = scaled_add()
    made = bench(fake, honest, profile=Profile.STANDARD)
    scenario = scalars_of(fake)
    assert scenario is not None
    (finding,) = found(frozen())

    async def run(asked: Scenario) -> Run:
        return made.run(asked)

    other = dataclasses.replace(finding, condition="graphs: not captured in CUDA graphs")
    for said, shared in ((finding, False), (other, True)):
        control = Control(made.trial, run, lambda *_, said=said: Judgement(findings=(said,)))
        assert run_now(control.shares(Graph001(), scenario, [said])) is shared
