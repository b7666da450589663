"""CONFIG001: configurations that fail are named; those of one kernel that all fail are not."""

from __future__ import annotations

import importlib

import pytest
import torch

from cuassay.checks.base import Run
from cuassay.checks.kernels.configurations import Config001
from cuassay.errors import NothingToCheckError
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from tests.support.autotuned import tuned
from tests.support.fake_trial import FakeTrial, Function, run_one, scaled_add

pytest.importorskip("triton")


def examined(call: Function) -> tuple[list[Finding], Scenario, Run]:
    trial = standard()
    scenario = next(Config001().propose(trial))
    run = run_one(trial, call, scenario)
    return list(Config001().judge(trial, scenario, run).findings), scenario, run


def standard() -> FakeTrial:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    return trial


def test_each_configuration_that_fails_is_named() -> None:
    (finding,), _, _ = examined(tuned(wrong=(32, 128)))
    assert finding.message.startswith("wrong with 2 of 4 configurations of the autotuner")
    assert "BLOCK: 32" in finding.message
    assert "BLOCK: 128" in finding.message
    assert "BLOCK: 16" in dict(finding.details)["right with"]


def test_a_configuration_that_leaves_elements_unwritten_is_named() -> None:
    (finding,), _, _ = examined(tuned(wrong=(64,), left=float("nan")))
    assert "BLOCK: 64" in finding.message


def test_right_configurations_pass_and_are_counted() -> None:
    found, scenario, run = examined(tuned())
    assert found == []
    assert Config001().remark([(scenario, run.result)]).startswith("4 of 4 configurations")


def test_what_the_device_refuses_is_left_out() -> None:
    found, scenario, run = examined(tuned(refused=(64,)))
    assert found == []
    said = Config001().remark([(scenario, run.result)])
    assert said.startswith("3 of 4 configurations, 1 refused by the device")


def test_where_all_fail_the_configurations_are_not_to_blame() -> None:
    assert examined(tuned(wrong=(16, 32, 64, 128)))[0] == []


def test_without_an_autotuner_there_is_nothing_to_check() -> None:
    with pytest.raises(NothingToCheckError):
        examined(lambda x, bias, gain: x * gain + bias)


def test_an_autotuner_behind_a_kept_answer_is_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuassay.build.tuned.choices", lambda: 1)
    trial = standard()
    scenario = next(Config001().propose(trial))
    run = run_one(trial, lambda x, bias, gain: x * gain + bias, scenario)
    (finding,) = Config001().judge(trial, scenario, run).findings
    assert finding.finding_class is FindingClass.UNSAFE
    assert finding.condition.startswith("configurations: ")
    assert "1 autotuner was not asked" in finding.message


def test_triton_is_left_as_it_was() -> None:
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    before = autotuner.run
    examined(tuned())
    assert autotuner.run is before


def test_quick_walks_through_them_at_a_listed_size() -> None:
    trial = scaled_add()
    assert not Config001().skip(trial)
    (scenario,) = Config001().propose(trial)
    listed = [dict(workload.axes) for workload in trial.problem.workloads]
    small = dict(trial.cases("small")[0].axes)
    assert dict(scenario.cases[0].axes) in [*listed, small]
    run = run_one(trial, tuned(wrong=(128,)), scenario)
    (finding,) = Config001().judge(trial, scenario, run).findings
    assert "wrong with 1 of 4" in finding.message


def test_a_first_call_that_keeps_what_trial_runs_left_is_wrong() -> None:
    seen: list[int] = []

    def also(x: torch.Tensor, y: torch.Tensor, block: int) -> None:
        seen.append(block)
        if len(seen) > 6:  # after four configurations and the two that are tuned over
            y.add_(x)

    (finding,), _, _ = examined(tuned(also=also))
    assert finding.message.startswith("the first call of a size is wrong: y keeps")
    assert "_copy" in finding.message
    assert finding.cause is Cause.AUTOTUNER
