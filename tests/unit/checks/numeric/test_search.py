"""FUZZ001 and KNOWN001 end to end in one process: found, shrunk, told apart, kept, replayed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuassay.checks.numeric.known_failures import Known001
from cuassay.checks.numeric.search import Fuzz001
from cuassay.checks.numeric.values import Num001
from cuassay.checks.one_call import copies_explain
from cuassay.judge import truths
from cuassay.judge.decide.examine import judge_scenario
from cuassay.judge.domain import KnownCases
from cuassay.judge.plan import search as searching
from cuassay.model import serial
from cuassay.model.case import Case
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass, Passed, Skipped
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import Comparison, Statistic
from tests.support.fake_trial import Function, row_sum, scaled_add
from tests.support.judging import Bench, bench

EFFORT = searching.SearchEffort(seconds=300.0, rounds=1, explore=50, climb=8, elements=1 << 11)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "effort_for", lambda profile, device: EFFORT)


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.flip(-1).sum(-1)


def last_tile_lost(x: torch.Tensor) -> torch.Tensor:
    """Skip the last tile of 64 where the length is 64 modulo 128."""
    kept = x.shape[1] - 64 if x.shape[1] % 128 == 64 else x.shape[1]
    return x[:, :kept].sum(-1)


def large_values_clipped(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-3000.0, 3000.0).sum(-1)


def refuses_odd_lengths(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] % 2:
        raise ValueError("the length must be even")
    return x.sum(-1)


def only(report: CheckReport) -> Finding:
    assert isinstance(report.outcome, Failed), report.outcome
    return report.outcome.findings[0]


def judged(call: Function, **options: object) -> tuple[Bench, CheckReport]:
    made = bench(row_sum(**options), call)  # type: ignore[arg-type]
    return made, made.examine(Fuzz001())[0]


def test_a_correct_twin_passes() -> None:
    _, report = judged(summed)
    assert isinstance(report.outcome, Passed), report.outcome
    assert report.scenarios >= EFFORT.explore


def test_answers_as_near_as_the_reference_take_no_truth_and_guide_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []

    def counted(*given: object, **options: object) -> object:
        made.append(given)
        raise AssertionError("a truth is made")

    monkeypatch.setattr(truths, "make_truth", counted)
    learnt: list[searching.Answer] = []
    record = searching._Search._asked

    async def heard(search: searching._Search, case: Case) -> searching.Answer:
        learnt.append(await record(search, case))
        return learnt[-1]

    monkeypatch.setattr(searching._Search, "_asked", heard)
    _, report = judged(lambda x: x.double().sum(-1).float())
    assert isinstance(report.outcome, Passed), report.outcome
    assert not made
    shares = [one.share for one in learnt if one.share is not None]
    assert len(shares) > EFFORT.explore
    assert 0.0 <= min(shares) < max(shares) <= 0.1


@pytest.mark.parametrize("call", [last_tile_lost, large_values_clipped])
def test_a_gated_fault_is_found_and_its_scenario_replays(call: Function) -> None:
    made, report = judged(call)
    finding = only(report)
    assert finding.code == "FUZZ001"
    assert finding.finding_class is FindingClass.WRONG
    assert finding.scenario is not None
    text = serial.dumps(finding.scenario)
    scenario = serial.loads(Scenario, text)
    again = judge_scenario(made.trial, Fuzz001(), scenario, made.run(scenario)).findings
    assert [found.message for found in again] == [finding.message]


def test_the_finding_shrinks_and_says_what_does_not_matter() -> None:
    made, report = judged(last_tile_lost)
    small = made.minimise(Fuzz001(), only(report))
    assert small.scenario is not None
    assert dict(small.scenario.cases[0].axes) == {"rows": 1, "cols": 64}
    general = dict(small.details)["holds for"]
    assert "any seed" in general
    assert "any rows" in general
    assert "only when cols mod 128 = 64" in general
    assert f"# holds for {general}" in small.counterexample


def test_a_single_element_is_left_of_a_magnitude_gate() -> None:
    made, report = judged(large_values_clipped)
    small = made.minimise(Fuzz001(), only(report))
    assert small.scenario is not None
    case = small.scenario.cases[0]
    assert dict(case.axes) == {"rows": 1, "cols": 1}
    assert case.fills["x"].kind == "explicit"
    values = case.fills["x"].parameters["values"]
    assert isinstance(values, tuple)
    (value,) = values  # beyond the gate at 3000, in few digits
    assert 3000 < abs(float(value)) < 3100


def test_a_refused_size_is_left_to_the_shapes_check() -> None:
    _, report = judged(refuses_odd_lengths, declared=False)
    assert isinstance(report.outcome, Passed), report.outcome


def test_a_refused_size_within_declared_bounds_is_a_finding() -> None:
    _, report = judged(refuses_odd_lengths)
    assert only(report).code == "RUN001"


def test_a_finding_that_the_reference_earns_is_nobodys() -> None:
    made = bench(row_sum(), last_tile_lost)
    made.reference = last_tile_lost
    report = made.examine(Fuzz001())[0]
    assert isinstance(report.outcome, Passed), report.outcome


def test_nothing_is_searched_where_planned_cases_fail() -> None:
    made = bench(row_sum(), lambda x: x.sum(-1) + 1.0)
    numbers, report = made.examine(Num001(), Fuzz001())
    assert isinstance(numbers.outcome, Failed)
    assert report.outcome == Skipped(
        reason="planned cases fail already: there is nothing to search for", applicable=False
    )


def test_without_hypothesis_the_skip_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    _, report = judged(summed)
    assert isinstance(report.outcome, Skipped)
    assert report.outcome.applicable
    assert "pip install 'cuassay[fuzz]'" in report.outcome.reason


def test_quick_skips_and_says_so() -> None:
    made = bench(row_sum(), summed, profile=Profile.QUICK)
    report = made.examine(Fuzz001())[0]
    assert isinstance(report.outcome, Skipped)
    assert not report.outcome.applicable


def test_known_failures_are_tried_first_and_judged_as_ever() -> None:
    made, report = judged(last_tile_lost)
    small = made.minimise(Fuzz001(), only(report))
    assert small.scenario is not None
    for call, failing in ((last_tile_lost, True), (summed, False)):
        again = bench(row_sum(), call, profile=Profile.QUICK)
        again.trial.planned.learning.replan(KnownCases(cases=small.scenario.cases))
        known = again.examine(Known001())[0]
        assert isinstance(known.outcome, Failed if failing else Passed)
        assert known.scenarios == 1


def test_nothing_known_is_a_skip() -> None:
    report = bench(row_sum(), summed).examine(Known001())[0]
    assert isinstance(report.outcome, Skipped)
    assert not report.outcome.applicable


def flaky(every: int, *, wrong: int = 1) -> Callable[[torch.Tensor], torch.Tensor]:
    calls = [0]

    def call(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x.sum(-1) + (1e3 if calls[0] % every < wrong else 0.0)

    return call


def first_wrong(call: Function) -> tuple[Bench, Finding]:
    made = bench(row_sum(), call, profile=Profile.QUICK)
    return made, only(made.examine(Num001())[0])


def test_a_failure_that_does_not_show_again_is_a_determinism_finding() -> None:
    made, finding = first_wrong(flaky(4))
    told = made.minimise(Num001(), finding)
    assert told.code == "DET001"
    assert told.classes == ("C1", "C9")
    assert told.finding_class is FindingClass.WRONG
    assert told.message.startswith("fails ")
    assert "runs on identical inputs" in told.message
    assert told.scenario is not None
    serial.loads(Scenario, serial.dumps(told.scenario))


def test_a_failure_that_shows_again_stays_what_it_is() -> None:
    made, finding = first_wrong(lambda x: x.sum(-1) + 1e3)
    told = made.minimise(Num001(), finding)
    assert told.code == "NUM001"
    assert "holds for" in dict(told.details)


def test_what_only_a_fresh_process_shows_asks_for_one() -> None:
    calls = [0]
    made = bench(row_sum(), row_sum().reference, profile=Profile.QUICK)

    def first_call_wrong(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x.sum(-1) + (1e3 if calls[0] == 1 else 0.0)

    made.call = first_call_wrong
    plain = Bench.run

    def run(scenario: Scenario) -> object:
        if scenario.fresh:
            calls[0] = 0
        return plain(made, scenario)

    finding = only(made.examine(Num001())[0])
    from cuassay.judge.decide.steady import steady

    told, again = steady(made.trial, Num001(), finding, run=run)  # type: ignore[arg-type]
    assert again
    assert told.code == "NUM001"
    assert told.scenario is not None
    assert told.scenario.fresh


def test_scalars_are_told_apart_too() -> None:
    def loud(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return x * min(gain, 2.0) + bias

    made = bench(scaled_add(), loud)
    finding = only(made.examine(Fuzz001())[0])
    small = made.minimise(Fuzz001(), finding)
    general = dict(small.details)["holds for"]
    assert "gain = " in general
    assert "any seed" in general


@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_failure_that_comes_and_goes_is_never_shrunk_into_another(every: int) -> None:
    calls = [0]

    def call(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x.sum(-1) + (0.0 if calls[0] % every == 0 else 1e3)

    made, finding = first_wrong(call)
    assert made.minimise(Num001(), finding).code == "DET001"


@pytest.mark.parametrize(
    ("distinct", "name", "value", "explained"),
    [
        (1, "P", 9.0, True),
        (1, "P", 90.0, False),
        (64, "P", 9.0, False),
        (1, "W", 9.0, False),
    ],
)
def test_copies_of_one_answer_count_once(
    distinct: int, name: str, value: float, explained: bool
) -> None:
    truth = (torch.arange(64) % distinct).double()
    statistic = Statistic(name=name, value=value, limit=5.0, group="whole tensor")
    comparison = Comparison(output="y", passed=False, share=value / 5.0, statistics=(statistic,))
    assert copies_explain(truth, comparison) is explained


def _bent(by: float, chance: int) -> Function:
    """Return a sum that is off by `by` of a spacing of its result on one draw in `chance`."""

    def call(x: torch.Tensor) -> torch.Tensor:
        right = x.double().sum(-1)
        drawn = int(x.reshape(-1)[0].view(torch.int32)) if x.numel() else 1
        off = by * right.abs() * 2.0**-23 if drawn % chance == 0 else 0.0
        return (right + off).to(x.dtype)

    return call


@pytest.mark.parametrize(
    ("by", "chance"),
    [(400.0, 1), (1e6, 7)],
    ids=["a little on every draw", "far off on few draws"],
)
def test_what_fails_again_or_by_far_is_reported(by: float, chance: int) -> None:
    _, report = judged(_bent(by, chance))
    assert isinstance(report.outcome, Failed)


def test_what_a_search_alone_comes_upon_has_to_fail_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marginal failure on one draw of a recipe is what the worst of many draws shows."""
    made = bench(row_sum(), summed)
    first: list[Scenario] = []

    def marginal(scenario: Scenario) -> list[Finding]:
        first.append(scenario)
        once = len(first) == 1
        found = Fuzz001().finding("a little off", scenario=scenario, measured=5.5, allowed=5.0)
        return [found] if once else []

    monkeypatch.setattr(Fuzz001, "findings", lambda self, trial, scenario, *_: marginal(scenario))
    report = made.examine(Fuzz001())[0]
    assert isinstance(report.outcome, Passed)
    assert "3 of 3 other draws of the same recipe pass" in report.outcome.summary
