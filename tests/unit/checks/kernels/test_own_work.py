"""GHOST001: kernels that never run, always fail or are not needed; silence where unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch

from cuassay.checks.base import Run
from cuassay.checks.kernels.own_work import Ghost001
from cuassay.checks.needs import Process
from cuassay.judge.decide.examine import Examination
from cuassay.judge.decide.verdict import condition_key
from cuassay.model.conditions import CONDITIONS
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Call, Scenario
from cuassay.model.steps import Disarm, ReadLaunches
from cuassay.model.trace import (
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    StepRecord,
)
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.waits import run_now
from tests.support.fake_trial import FakeTrial, run_one, scaled_add
from tests.support.judging import bench

Facts = Mapping[str, str]
Tensor = torch.Tensor
ONCE, TWICE = {"launched add": "2"}, {"launched add": "3"}


class Told:
    """A run whose reads of launches say what the test gives them."""

    def __init__(self, run: Run, scenario: Scenario, told: Sequence[Facts]) -> None:
        left = iter(told)
        records: list[StepRecord] = []
        for step, record in zip(scenario.steps, run.result.records, strict=True):
            if isinstance(step, ReadLaunches) and isinstance(record, StepDone):
                facts = tuple(next(left).items())
                record = StepDone(index=record.index, facts=facts)
            records.append(record)
        self._run, self._records = run, tuple(records)

    @property
    def result(self) -> ScenarioResult:
        return ScenarioResult(records=self._records, termination=self._run.result.termination)

    def tensor(self, item: ResultItem) -> Tensor:
        return self._run.tensor(item)


def judged(
    *told: Facts, trial: FakeTrial | None = None, without: object = "same", wrong: bool = False
) -> list[Finding]:
    """Return the findings where the last call, without kernels, gives `without`."""
    trial = trial or scaled_add()
    (scenario,) = Ghost001().propose(trial)
    calls: list[int] = []
    last = sum(type(step).__name__ == "Call" for step in scenario.steps)

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        calls.append(1)
        if len(calls) >= last - 1 and without == "raises":
            raise AttributeError("no handle")
        y = x * gain + bias
        if len(calls) >= last - 1 and without == "nothing":
            return torch.full_like(y, float("nan"))
        if len(calls) == last and without == "what memory held":
            return torch.zeros_like(y)
        return y + 1.0 if wrong else y

    run = Told(run_one(trial, call, scenario), scenario, told)
    return list(Ghost001().judge(trial, scenario, run).findings)


def test_a_kernel_whose_result_is_needed_is_silent() -> None:
    assert judged(ONCE, TWICE, without="nothing") == []


def test_an_answer_that_the_memory_happened_to_hold_is_silent() -> None:
    assert judged(ONCE, TWICE, without="what memory held") == []


def test_a_candidate_without_kernels_of_its_own_is_silent() -> None:
    assert judged({}, {}) == []


def test_an_answer_that_needs_no_kernel_is_advice_that_can_bind() -> None:
    (found,) = judged(ONCE, TWICE)
    assert found.finding_class is FindingClass.ADVICE
    assert found.severity is Severity.MEDIUM
    assert "right without 'add'" in found.message
    assert condition_key(found) == "own-kernels"
    assert condition_key(found) in CONDITIONS


def test_a_kernel_that_is_never_launched_is_named() -> None:
    (found,) = judged({"launched add": "0"}, {"launched add": "0"})
    assert "'add' is defined and never launched" in found.message


def test_a_kernel_whose_every_launch_raises_is_named_with_the_reason() -> None:
    facts = {"launched add": "2", "raised add": "2", "reason add": "CompilationError: at 3"}
    (found,) = judged(facts, facts)
    assert "every launch of 'add' raises (CompilationError: at 3)" in found.message


def test_a_kernel_that_fails_once_and_then_runs_is_silent() -> None:
    before = {"launched add": "3", "raised add": "1"}
    assert judged(before, {**before, "launched add": "4"}, without="nothing") == []


def test_one_kernel_that_runs_speaks_for_the_others() -> None:
    facts = {"launched add": "2", "launched helper": "0"}
    assert judged(facts, {**facts, "launched add": "3"}, without="nothing") == []


def test_launches_that_may_be_unseen_say_nothing() -> None:
    facts = {"unseen": "torch.compile", "launched add": "0"}
    assert judged(facts, facts) == []


def test_a_last_call_that_asked_for_no_launch_proves_nothing() -> None:
    assert judged(ONCE, ONCE) == []  # replayed from a graph, or kept


def test_a_candidate_that_raises_without_its_kernels_needs_them() -> None:
    assert judged(ONCE, TWICE, without="raises") == []


def test_wrong_answers_are_left_to_the_numbers() -> None:
    assert judged({"launched add": "0"}, {"launched add": "0"}, wrong=True) == []


def test_a_case_that_cannot_decide_says_nothing_of_needed_kernels() -> None:
    trial = scaled_add()
    trial.ill_conditioned = "a test"
    assert judged(ONCE, TWICE, trial=trial) == []


@pytest.mark.parametrize("count", ["-1", "1e3", "", "9" * 50, "nan", "²"])
def test_counts_that_are_none_are_left_out(count: str) -> None:
    assert judged({"launched add": count}, {"launched add": count}) == []


def test_made_up_names_are_cut_and_cleaned() -> None:
    facts = {f"launched {'k' * 3000}\n\x1b[31m{n}": "0" for n in range(9)}
    (found,) = judged(facts, facts)
    assert len(found.message) < 1000
    assert found.message.isprintable()


def test_kernels_are_armed_again_and_nothing_else_runs_in_that_process() -> None:
    (scenario,) = Ghost001().propose(scaled_add())
    switches = [step.active for step in scenario.steps if isinstance(step, Disarm)]
    assert switches == [False, True, False]
    assert scenario.fresh
    assert Ghost001().needs.process is Process.OWN


def test_a_run_that_broke_off_says_nothing() -> None:
    trial = scaled_add()
    (scenario,) = Ghost001().propose(trial)
    broken = run_one(trial, lambda x, bias, gain: 1 / 0, scenario)
    assert any(isinstance(record, StepRaised) for record in broken.result.records)
    told = Told(broken, scenario, [{"launched add": "0"}, {"launched add": "0"}])
    findings = Ghost001().judge(trial, scenario, told).findings
    assert not findings


@pytest.mark.parametrize(("offset", "processes"), [(0.0, [False]), (1.0, [False, True])])
def test_what_is_wrong_without_kernels_alone_needs_no_new_process(
    offset: float, processes: list[bool]
) -> None:
    """The answers of calls whose kernels do nothing are wrong by design."""
    calls: list[int] = []
    new: list[bool] = []

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        calls.append(1)
        without = (len(calls) - 1) % count >= count - 2
        y = x * gain + bias + offset
        return torch.full_like(y, float("nan")) if without else y

    made = bench(scaled_add(), call, profile=Profile.QUICK)
    (scenario,) = Ghost001().propose(made.trial)
    count = sum(isinstance(step, Call) for step in scenario.steps)

    async def run(asked: Scenario) -> Run:
        new.append(asked.fresh)
        return Told(made.run(asked), asked, (ONCE, TWICE))

    examination = Examination(made.trial, run=run, control=made.control, emit=lambda event: None)
    examined = run_now(examination.examine(Ghost001()))
    assert not examined.report.advice
    assert new == processes
