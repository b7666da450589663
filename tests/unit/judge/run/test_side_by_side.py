"""Runs below the tools overlap when they are announced together, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from cuassay.catalog import registry
from cuassay.checks.memory.sanitizer import Mem003
from cuassay.checks.state.apart import Apart001
from cuassay.formats.execute import load_reference
from cuassay.judge.decide.control import reference_candidate
from cuassay.judge.decide.examine import Examination
from cuassay.judge.run.runner import Runner
from cuassay.judge.run.side_by_side import SideBySide
from cuassay.judge.trial import JudgeTrial
from cuassay.model.scenario import Scenario
from cuassay.model.trace import Finished, ScenarioResult
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import scaled_add

TOOLS = 4


class Tools:
    """Every run waits until `together` of them run; results carry the tool's name."""

    def __init__(self, together: int) -> None:
        self.meeting = threading.Barrier(together, timeout=300.0)
        self.prepared: list[str] = []

    def start(self, scenario: Scenario) -> Callable[[], Ran]:
        assert threading.current_thread() is threading.main_thread()
        self.prepared.append(scenario.mode.value)

        def run() -> Ran:
            self.meeting.wait()
            done = ScenarioResult(
                records=(), termination=Finished(), output_text=scenario.mode.value
            )
            return Ran(done, ())

        return run


def proposed() -> list[Scenario]:
    trial = scaled_add()
    trial.profile = Profile.STANDARD
    found = list(Mem003().propose(trial))
    return found[:TOOLS]


def test_announced_runs_overlap_and_each_gets_its_own_result() -> None:
    tools, scenarios = Tools(TOOLS), proposed()
    assert len(scenarios) == TOOLS
    runs = SideBySide(tools.start)
    runs.ahead(scenarios)
    for scenario in reversed(scenarios):
        assert runs.result(scenario).result.output_text == scenario.mode.value
    assert sorted(tools.prepared) == sorted(scenario.mode.value for scenario in scenarios)
    runs.close()


def test_a_run_that_nobody_announced_happens_when_it_is_asked_for() -> None:
    tools, scenarios = Tools(1), proposed()
    runs = SideBySide(tools.start)
    assert runs.result(scenarios[0]).result.output_text == scenarios[0].mode.value
    runs.close()


def test_a_result_is_used_once_and_none_outlives_the_trial() -> None:
    tools, scenarios = Tools(1), proposed()
    runs = SideBySide(tools.start)
    runs.ahead(scenarios)
    runs.result(scenarios[0])
    runs.result(scenarios[0])
    assert tools.prepared.count(scenarios[0].mode.value) == 2
    before = threading.active_count()
    runs.close()
    assert threading.active_count() <= before
    runs.close()


def test_a_run_that_fails_says_so_when_it_is_asked_for() -> None:
    def start(scenario: Scenario) -> Callable[[], Ran]:
        def run() -> Ran:
            raise OSError(f"no space for {scenario.mode.value}")

        return run

    runs, scenarios = SideBySide(start), proposed()
    runs.ahead(scenarios)
    with pytest.raises(OSError, match="no space for racecheck"):
        runs.result(scenarios[1])
    runs.close()


def test_the_examination_announces_what_may_run_side_by_side() -> None:
    trial = scaled_add()
    trial.profile, trial.device = Profile.STANDARD, "cuda"
    seen: list[Sequence[Scenario]] = []

    def stop(scenario: Scenario) -> Ran:
        raise KeyboardInterrupt

    class Nobody:
        @staticmethod
        def findings(check: object, scenario: object) -> tuple[()]:
            return ()

    examination = Examination(
        trial,  # type: ignore[arg-type]
        run=stop,
        control=Nobody(),  # type: ignore[arg-type]
        emit=lambda event: None,
        name=lambda finding: finding,
        ahead=seen.append,
    )
    check = Mem003()
    check.missing = lambda: ""  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        examination.examine(check)
    assert [scenario.mode.value for scenario in seen[0]] == [
        "memcheck",
        "racecheck",
        "synccheck",
        "initcheck",
    ]


def test_a_process_apart_that_was_begun_gives_the_run_that_is_asked_for_later(
    nursery: Nursery,
) -> None:
    problem = registry.get("rmsnorm")
    trial = JudgeTrial(
        problem, load_reference(problem), profile=Profile.QUICK, device="cpu", root_seed=3
    )
    candidate = reference_candidate(problem)
    check = Apart001()
    (early,) = check.propose(trial)
    with Runner(trial, candidate, device="cpu", nursery=nursery, spares=0) as runner:
        runner.ahead([early])
        assert len(runner._tools._running) == 1
        (asked,) = check.propose(trial)
        assert not check.judge(trial, asked, runner(asked)).findings
        assert not runner._tools._running
