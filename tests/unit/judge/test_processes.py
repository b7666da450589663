"""At `quick` scenarios share a process, and lose nothing of what a new one shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import torch

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.interface.inputs_used import Api003
from cuassay.checks.kernels.own_work import Ghost001
from cuassay.checks.needs import Group, Needs, Process, When
from cuassay.checks.state.earlier_calls import State001
from cuassay.judge.decide.examine import Examination
from cuassay.judge.memory import Memory
from cuassay.model.outcome import CheckReport, Failed, Inconclusive, Passed
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.local import LocalRunner
from tests.support.fake_trial import Function, scaled_add
from tests.support.judging import Bench, bench
from tests.unit.checks.state.test_earlier_calls import honest, strides_by_shape

Tensor = torch.Tensor


@dataclass(slots=True)
class Processes:
    """Runs scenarios on a kernel made anew for each process; `made` counts the processes."""

    of: Bench
    make: Callable[[], Function]
    asked: list[bool] = field(default_factory=list)
    made: int = 0
    call: Function | None = None

    async def run(self, scenario: Scenario) -> Run:
        """Run one scenario."""
        self.asked.append(scenario.fresh)
        if self.call is None or scenario.fresh:
            self.made, self.call = self.made + 1, self.make()
        runner = LocalRunner(self.call, self.of.trial.problem)
        return runner.run(scenario, self.of.trial.inputs, None)


def examined(
    make: Callable[[], Function], *checks: Check, profile: Profile = Profile.QUICK
) -> tuple[list[CheckReport], Processes]:
    """Return the reports of checks one after another, and what ran."""
    examination, processes = begun(make, profile=profile)
    return [run_now(examination.examine(check)).report for check in checks], processes


def begun(
    make: Callable[[], Function], *, profile: Profile = Profile.QUICK
) -> tuple[Examination, Processes]:
    """Return what examines a kernel, and what runs it."""
    of = bench(scaled_add(), make(), profile=profile)
    processes = Processes(of=of, make=make)
    examination = Examination(
        of.trial, run=processes.run, control=of.control, emit=lambda event: None
    )
    return examination, processes


def worn_out() -> Function:
    """Return a kernel that is right in its first calls of a process, as many as a scenario has."""
    calls = 0

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        nonlocal calls
        calls += 1
        return x * gain + bias + float(calls > 900)

    return call


def test_a_correct_kernel_needs_one_process_and_one_for_calls_as_a_server_makes_them() -> None:
    reports, ran = examined(honest, State001(), State001())
    assert all(isinstance(report.outcome, Passed) for report in reports)
    assert ran.made == 3
    assert sum(ran.asked) == 2


def graphs_while_there_is_room() -> Function:
    """Return a kernel that keeps one result a tensor after some calls, and none after many."""
    calls: dict[int, int] = {}
    kept: dict[int, Tensor] = {}

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        place = x.data_ptr()
        made = x * gain + bias
        if place not in kept:
            calls[place] = calls.get(place, 0) + 1
            if calls[place] <= 11 or sum(calls.values()) > 96:
                return made
            kept[place] = torch.empty_like(made)
        if kept[place].shape != made.shape:
            return made
        return kept[place].copy_(made)

    return call


def test_what_a_used_process_no_longer_does_is_seen_in_the_one_for_a_server() -> None:
    (report,), ran = examined(graphs_while_there_is_room, State001())
    assert isinstance(report.outcome, Failed)
    assert ran.made > 1


@pytest.mark.parametrize("profile", [Profile.STANDARD, Profile.DEEP])
def test_elsewhere_each_scenario_has_the_process_that_it_asks_for(profile: Profile) -> None:
    (report,), ran = examined(honest, State001(), profile=profile)
    assert isinstance(report.outcome, Passed)
    assert ran.made == report.scenarios == len(ran.asked)


def bias_ignored() -> Function:
    """Return a kernel that leaves an input out."""
    return lambda x, bias, gain: x * gain


def test_arguments_are_moved_in_one_process_where_all_answers_are_right() -> None:
    (report,), ran = examined(honest, Api003(), profile=Profile.STANDARD)
    assert isinstance(report.outcome, Passed)
    assert report.scenarios > 2
    assert ran.made == 1
    (report,), ran = examined(bias_ignored, Api003(), profile=Profile.STANDARD)
    assert isinstance(report.outcome, Failed)
    assert ran.made > 1


def test_what_only_a_new_process_shows_is_found() -> None:
    """In a used process the first call of the layout scenario is wrong: left to LAYOUT001."""
    (report,), ran = examined(strides_by_shape, State001())
    assert isinstance(report.outcome, Failed)
    assert any(
        "from transposed to contiguous" in finding.message for finding in report.outcome.findings
    )
    assert ran.made > 1


def test_what_a_new_process_does_not_show_is_no_finding() -> None:
    reports, ran = examined(worn_out, State001(), State001())
    assert [type(report.outcome) for report in reports] == [Passed, Passed]
    assert ran.made > 1


class _Grading(State001):
    """Its comparisons tell the precision that the kernel keeps."""

    grades = True


def test_comparisons_of_a_run_that_does_not_count_are_forgotten() -> None:
    examination, ran = begun(worn_out)
    seen = [run_now(examination.examine(_Grading())) for _ in range(2)]
    assert ran.made > 1
    graded = [comparison for one in seen for comparison in one.comparisons]
    assert graded
    assert all(comparison.passed for comparison in graded)


class _Own(State001):
    """What it does is the whole process's."""

    needs = Needs(process=Process.OWN, group=Group.NONE)


class _Late(State001):
    """So is this, and it takes a process that others used."""

    needs = Needs(process=Process.OWN, when=When.LATE, group=Group.NONE)


def test_a_check_that_changes_the_process_keeps_its_own() -> None:
    (report,), ran = examined(honest, _Own())
    assert isinstance(report.outcome, Passed)
    assert all(ran.asked)


def test_a_late_check_takes_the_process_at_hand_and_asks_again_where_it_finds_something() -> None:
    reports, ran = examined(honest, State001(), _Late())
    assert [type(report.outcome) for report in reports] == [Passed, Passed]
    assert ran.made == 3  # one more each for calls as a server makes them
    reports, ran = examined(worn_out, State001(), _Late())
    assert [type(report.outcome) for report in reports] == [Passed, Passed]
    assert ran.made > 1
    reports, ran = examined(strides_by_shape, _Late())
    assert isinstance(reports[0].outcome, Failed)


def test_what_has_no_kernels_is_not_asked_for_them_in_a_new_process() -> None:
    reports, ran = examined(honest, State001(), Ghost001())
    assert isinstance(reports[0].outcome, Passed)
    assert ran.made == 2


@pytest.mark.parametrize("gives_way", [True, False])
def test_planning_that_meets_our_own_bound_on_memory_is_done_again(
    gives_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, own = [0], State001.propose

    def propose(self: State001, trial: Trial) -> Iterator[Scenario]:
        asked[0] += 1
        if asked[0] < 3:
            raise torch.OutOfMemoryError("as much as was planned")
        yield from own(self, trial)

    monkeypatch.setattr(State001, "propose", propose)
    monkeypatch.setattr(Memory, "relieve", lambda self: gives_way)
    (report,), _ = examined(honest, State001())
    assert isinstance(report.outcome, Passed if gives_way else Inconclusive)
    assert asked == [3 if gives_way else 1]
