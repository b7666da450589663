"""RACE001: wrong repeats are counted and weighed, pauses are named, honest ones pass."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.checks.gpu.chances import meets, unseen_bound, wilson
from cuassay.checks.gpu.load import Race001
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.outcome import Finding
from cuassay.model.reports import Repeats
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Load, Repeat
from cuassay.model.trace import ResultItem, ScenarioResult, StepDone
from cuassay.model.verdict import Profile
from tests.support.fake_trial import FakeTrial, Function, judged, run_one, scaled_add


def honest(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + bias


def flaky(every: int, *, wrong_by: float = 1.0) -> Function:
    calls = iter(range(1, 100_000))

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return honest(x, bias, gain) + wrong_by * (next(calls) % every == 0)

    return call


@dataclasses.dataclass(slots=True)
class Told:
    """A run whose Repeat steps a GPU's worker would have answered with this report."""

    run: object
    report: Repeats

    @property
    def result(self) -> ScenarioResult:
        real: ScenarioResult = self.run.result  # type: ignore[attr-defined]
        records = [
            dataclasses.replace(r, report=self.report)
            if index > 2 and isinstance(r, StepDone)
            else r
            for index, r in enumerate(real.records)
        ]
        return dataclasses.replace(real, records=tuple(records))

    def tensor(self, item: ResultItem) -> torch.Tensor:
        found: torch.Tensor = self.run.tensor(item)  # type: ignore[attr-defined]
        return found


def scenarios(trial: FakeTrial) -> dict[Load, Scenario]:
    found: dict[Load, Scenario] = {}
    for scenario in Race001().propose(trial):
        step = scenario.steps[3]
        assert isinstance(step, Repeat)
        found.setdefault(step.load, scenario)
    return found


def test_every_load_is_tried_and_pauses_in_several_variants() -> None:
    for profile, variants, calls in (
        (Profile.QUICK, 2, 64),
        (Profile.STANDARD, 6, 400),
        (Profile.DEEP, 32, 5000),
    ):
        trial = dataclasses.replace(scaled_add(), profile=profile)
        found = scenarios(trial)
        assert set(found) == set(Load)
        steps = [s for s in found[Load.DELAYS].steps if isinstance(s, Repeat)]
        assert len({step.seed for step in steps}) == len(steps) == variants
        assert sum(step.count for step in steps) >= calls


def test_production_sizes_are_scaled_down_and_promised_ones_are_kept() -> None:
    for declared, sizes in ((True, {"rows": 512, "cols": 1024}), (False, {"rows": 16, "cols": 32})):
        trial = scaled_add(declared=declared)
        usual = trial.cases("numeric")[0]
        large = dataclasses.replace(usual, axes={"rows": 8192, "cols": 16384})
        few = dataclasses.replace(usual, axes={"rows": 16, "cols": 32})
        bounds = [dataclasses.replace(a, maximum=1 << 20) for a in trial.problem.var_axes()]
        if declared:
            trial.problem = dataclasses.replace(trial.problem, axes=tuple(bounds))
        trial.plans["numeric"] = (few, large)
        scenario = scenarios(trial)[Load.NONE]
        found = dict(scenario.cases[0].axes)
        assert found == sizes


@pytest.mark.parametrize("load", [Load.NONE, Load.BANDWIDTH])
def test_wrong_repeats_are_counted_with_their_interval(load: Load) -> None:
    trial = scaled_add()
    scenario = scenarios(trial)[load]
    (finding,) = judged(Race001(), trial, scenario, run_one(trial, flaky(9), scenario))
    assert finding.message.startswith("7 of 64 calls with ")
    low, high = wilson(7, 64)
    often = dict(finding.details)["how often"]
    assert f"95 % interval {low:.2%} to {high:.2%} a launch" in often
    assert judged(Race001(), trial, scenario, run_one(trial, honest, scenario)) == []


def test_a_plain_call_that_is_wrong_is_a_race_where_repeats_are_right() -> None:
    trial = scaled_add()
    scenario = scenarios(trial)[Load.NONE]
    calls = iter(range(1000))

    def first_wrong(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return honest(x, bias, gain) + (next(calls) in (0, 5))

    (finding,) = judged(Race001(), trial, scenario, run_one(trial, first_wrong, scenario))
    assert finding.message.startswith("1 of 64 calls")
    always = run_one(trial, lambda x, bias, gain: x * gain, scenario)
    assert judged(Race001(), trial, scenario, always) == []


def test_differences_within_the_budget_are_no_race() -> None:
    trial = scaled_add()
    scenario = scenarios(trial)[Load.NONE]
    run = run_one(trial, flaky(3, wrong_by=1e-7), scenario)
    assert judged(Race001(), trial, scenario, run) == []


def test_kernels_whose_ptx_is_not_known_leave_nothing_to_check() -> None:
    trial = scaled_add()
    scenario = scenarios(trial)[Load.DELAYS]
    run = run_one(trial, honest, scenario)  # a CPU has no PTX
    with pytest.raises(NothingToCheckError, match="no kernel of its own"):
        judged(Race001(), trial, scenario, run)
    told = Told(run=run, report=Repeats(calls=0, counts=(), refused="PTXASError: no pauses here"))
    with pytest.raises(CannotJudgeError, match="no pauses here"):
        judged(Race001(), trial, scenario, told)


def _paused(trial: FakeTrial, function: Function) -> tuple[Scenario, Told]:
    """Return the scenario of pauses and a run in which each variant made calls."""
    scenario = scenarios(trial)[Load.DELAYS]
    plain = [
        dataclasses.replace(s, load=Load.NONE) if isinstance(s, Repeat) else s
        for s in scenario.steps
    ]
    run = run_one(trial, function, dataclasses.replace(scenario, steps=tuple(plain)))
    done = run.result.records[3]
    assert isinstance(done, StepDone)
    assert isinstance(done.report, Repeats)
    pauses = {"row_sum": 7, "other\x1b[31m": 2}
    return scenario, Told(run=run, report=dataclasses.replace(done.report, pauses=pauses))


def test_a_race_that_pauses_bring_out_names_the_kernels() -> None:
    trial = scaled_add()
    scenario, run = _paused(trial, flaky(4))
    found: list[Finding] = judged(Race001(), trial, scenario, run)
    assert "random pauses in its kernels" in found[0].message
    assert dict(found[0].details)["pauses"] == "'row_sum' at 7 places, 'other[31m' at 2 places"


def test_a_pass_says_what_the_launches_are_worth() -> None:
    trial = scaled_add()
    passed = []
    for load, scenario in scenarios(trial).items():
        if load is not Load.DELAYS:
            passed.append((scenario, run_one(trial, honest, scenario).result))
    text = Race001().remark(passed)
    assert text == "192 launches under 3 loads: 99 % sure to meet a fault of one launch in 42"
    scenario, run = _paused(trial, honest)
    text = Race001().remark([*passed, (scenario, run.result)])
    assert text.startswith("256 launches under 4 loads, 64 of them with random pauses in 'row_sum'")
    assert Race001().remark([]) == ""


def test_chances() -> None:
    # R. G. Newcombe, "Two-sided confidence intervals", Statist. Med. 17 (1998), table I
    for hits, trials, bounds in ((81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605))):
        assert wilson(hits, trials) == pytest.approx(bounds, abs=5e-5)
    assert wilson(0, 50)[0] == 0.0
    assert wilson(50, 50)[1] == 1.0
    assert unseen_bound(300, confidence=0.95) == pytest.approx(3.0 / 300, rel=0.01)
    assert unseen_bound(0) == 1.0
    assert meets(unseen_bound(400), 400) == pytest.approx(0.99)
    assert meets(1.0, 0) == 0.0
    with pytest.raises(ValueError, match="3 hits in 2 trials"):
        wilson(3, 2)
