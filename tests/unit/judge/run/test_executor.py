"""Runs with processes of their own overlap when they are announced together, and only then."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cuassay.catalog import registry
from cuassay.checks.base import Run
from cuassay.checks.memory.sanitizer import Mem003
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.apart import Apart001
from cuassay.formats import load_candidate
from cuassay.formats.execute import load_reference
from cuassay.judge.decide.control import reference_candidate
from cuassay.judge.decide.examine import Examination
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU, CUDA
from cuassay.model.scenario import Allocate, Call, Scenario
from cuassay.model.steps import Mode, RecordLaunches
from cuassay.model.trace import (
    Claim,
    Exited,
    Finished,
    Garbled,
    Killed,
    ScenarioResult,
    StepDone,
    StepRaised,
    Termination,
)
from cuassay.model.verdict import Lane, Profile
from cuassay.sandbox.host import sanitizer
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import scaled_add
from tests.support.judging import bench

TOOLS = 4


class Tools:
    """Every run waits until `together` of them run; results carry the tool's name."""

    def __init__(self, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.meeting = threading.Barrier(together, timeout=300.0)
        self.prepared: list[str] = []
        monkeypatch.setattr(sanitizer, "run_below", self.run_below)

    def run_below(self, scenario: Scenario, **_: object) -> Ran:
        self.prepared.append(scenario.mode.value)
        self.meeting.wait()
        done = ScenarioResult(records=(), termination=Finished(), output_text=scenario.mode.value)
        return Ran(done, ())


def _ended(termination: Termination) -> ScenarioResult:
    return ScenarioResult(records=(), termination=termination)


@pytest.fixture
def trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )


@pytest.fixture
def executor(trial: JudgeTrial, nursery: Nursery) -> Any:
    candidate = reference_candidate(trial.problem)
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0, lazy=True) as made:
        yield made


def proposed(trial: JudgeTrial) -> list[Scenario]:
    return list(Mem003().propose(dataclasses.replace(trial, profile=Profile.STANDARD)))[:TOOLS]


_COMPILED = """
import torch

def norm(x, weight, eps):
    y = torch.empty_like(x)
    y[...] = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps) * weight
    return y

run = torch.compile(norm, backend="eager")
"""


def test_what_a_compiler_traces_keeps_its_code_in_the_first_process_of_a_candidate(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    """Its files have to be there before anything is imported that notes what expressions are."""
    place = tmp_path / "kernel.py"
    place.write_text(f"# {secrets.token_hex(8)}, which no process has built yet\n{_COMPILED}")
    candidate = load_candidate(str(place), trial.problem)
    called = single_call(trial.cases("small")[0], label="plain")
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as runner:
        ran = runner(called)
    assert [one for one in ran.result.records if isinstance(one, StepRaised)] == []
    assert ran.result.termination == Finished()


def test_nothing_is_quiet_while_a_run_that_was_begun_is_at_work(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, scenarios = Tools(2, monkeypatch), proposed(trial)[:1]

    async def look() -> list[bool]:
        found = [executor.is_quiet]
        executor.ahead(scenarios)
        while not tools.prepared:
            await asyncio.sleep(0.01)
        found.append(executor.is_quiet)
        await asyncio.to_thread(tools.meeting.wait)
        await executor._begun[0][1]
        return [*found, executor.is_quiet]

    assert asyncio.run(look()) == [True, False, True]


def test_announced_runs_overlap_and_each_gets_its_own_result(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, scenarios = Tools(TOOLS, monkeypatch), proposed(trial)
    assert len(scenarios) == TOOLS

    async def ask() -> list[str]:
        executor.ahead(scenarios)
        return [(await executor.run(one)).result.output_text for one in reversed(scenarios)]

    names = [scenario.mode.value for scenario in scenarios]
    assert asyncio.run(ask()) == names[::-1]
    assert sorted(tools.prepared) == sorted(names)


def test_a_run_that_nobody_announced_happens_when_it_is_asked_for(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tools(1, monkeypatch)
    first = proposed(trial)[0]
    assert executor(first).result.output_text == first.mode.value


def test_a_result_is_used_once_and_what_nobody_asks_for_comes_to_its_end(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, scenarios = Tools(1, monkeypatch), proposed(trial)

    async def ask() -> None:
        executor.ahead(scenarios)
        await executor.run(scenarios[0])
        await executor.run(scenarios[0])
        await executor.settle()

    asyncio.run(ask())
    assert tools.prepared.count(scenarios[0].mode.value) == 2
    assert len(tools.prepared) == TOOLS + 1


def test_a_process_apart_that_nobody_asks_for_is_ended(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = dataclasses.replace(proposed(trial)[0], mode=Mode.APART)
    ended: list[str] = []

    async def bare(scenario: Scenario) -> Ran:
        try:
            await asyncio.sleep(3600.0)
        except asyncio.CancelledError:
            ended.append(scenario.label)
            raise
        raise AssertionError

    monkeypatch.setattr(executor._unwatched, "bare", bare)

    async def begin() -> None:
        executor.ahead([apart])
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        await executor.settle()

    asyncio.run(begin())
    assert ended == [apart.label]


def test_a_run_that_fails_says_so_when_it_is_asked_for(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(scenario: Scenario, **_: object) -> Ran:
        raise OSError(f"no space for {scenario.mode.value}")

    monkeypatch.setattr(sanitizer, "run_below", fails)
    scenarios = proposed(trial)

    async def ask() -> None:
        executor.ahead(scenarios)
        try:
            await executor.run(scenarios[1])
        finally:
            await executor.settle()

    with pytest.raises(OSError, match="no space for racecheck"):
        asyncio.run(ask())


def test_the_examination_announces_what_may_run_side_by_side() -> None:
    fake = scaled_add()
    made = bench(fake, fake.reference)
    trial = dataclasses.replace(made.trial, device=CUDA)
    seen: list[Sequence[Scenario]] = []

    async def stop(scenario: Scenario) -> Ran:
        raise KeyboardInterrupt

    examination = Examination(
        trial, run=stop, control=made.control, emit=lambda event: None, ahead=seen.append
    )
    check = Mem003()
    check.missing = lambda: ""  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(examination.examine(check))
    assert [scenario.mode.value for scenario in seen[0]] == [
        "memcheck",
        "racecheck",
        "synccheck",
        "initcheck",
    ]


def test_a_process_apart_that_was_begun_gives_the_run_that_is_asked_for_later(
    trial: JudgeTrial, executor: Executor
) -> None:
    check = Apart001()
    (early,) = check.propose(trial)

    async def ask() -> bool:
        executor.ahead([early])
        assert len(executor._begun) == 1
        (asked,) = check.propose(trial)
        return not check.judge(trial, asked, await executor.run(asked)).findings

    assert asyncio.run(ask())
    assert not executor._begun


def _raised(message: str, claim: Claim | None = None) -> ScenarioResult:
    raised = StepRaised(index=1, exception="AcceleratorError", message=message, claim=claim)
    return ScenarioResult(records=(raised,), termination=Finished())


@pytest.mark.parametrize(
    ("result", "refused"),
    [
        (_raised("CUDA error: too many resources requested for launch"), True),
        (_raised("CUDA error: OS call failed or operation not supported on this OS"), True),
        (_raised("no room", Claim.NO_MEMORY), True),
        (_ended(Garbled(index=0, what="while it was loaded: CUDA error: out of memory")), True),
        (_raised("index 7 is out of bounds"), False),
        (_ended(Killed(index=2, signal=11)), False),
        (_ended(Exited(index=2, exit_code=1)), False),
        (_ended(Garbled(index=0, what="a result that is not described")), False),
    ],
    ids=["launch", "system", "memory", "loaded", "raises", "crashes", "exits", "garbled"],
)
@pytest.mark.parametrize("again", [True, False], ids=["once", "always"])
def test_a_process_apart_that_is_refused_resources_beside_others_is_asked_again_at_its_turn(
    trial: JudgeTrial,
    executor: Executor,
    monkeypatch: pytest.MonkeyPatch,
    *,
    result: ScenarioResult,
    refused: bool,
    again: bool,
) -> None:
    """What fails at its turn too is the kernel's, and so is any other end, at its first time."""
    failed, fine = Ran(result, ()), Ran(_ended(Finished()), ())
    later = fine if again else failed
    asked: list[Scenario] = []

    async def bare(scenario: Scenario) -> Ran:
        asked.append(scenario)
        return failed if len(asked) == 1 else later

    monkeypatch.setattr(executor._unwatched, "bare", bare)
    (scenario,) = Apart001().propose(trial)

    async def ask() -> Run:
        executor.ahead([scenario])
        return await executor.run(scenario)

    assert asyncio.run(ask()) is (fine if refused and again else failed)
    assert len(asked) == (2 if refused else 1)


def test_a_process_apart_that_was_asked_at_its_turn_is_asked_once(
    trial: JudgeTrial, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Ran(_raised("CUDA error: too many resources requested for launch"), ())
    asked: list[Scenario] = []

    async def bare(scenario: Scenario) -> Ran:
        asked.append(scenario)
        return failed

    monkeypatch.setattr(executor._unwatched, "bare", bare)
    (scenario,) = Apart001().propose(trial)
    assert asyncio.run(executor.run(scenario)) is failed
    assert len(asked) == 1


@pytest.mark.parametrize(("lane", "asked"), [(Lane.CANDIDATE, 2), (Lane.REFERENCE, 1)])
def test_only_a_candidate_that_launches_nothing_is_asked_again_in_a_new_process(
    trial: JudgeTrial, nursery: Nursery, lane: Lane, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's own kernels are not recorded: of a reference there is mostly nothing to record."""
    nothing = ScenarioResult(
        records=(StepDone(index=0, facts=(("launches", "0"),)),), termination=Finished()
    )
    seen: list[bool] = []

    async def execute(*_: object, fresh: bool = False, **__: object) -> Ran:
        seen.append(fresh)
        return Ran(nothing, ())

    candidate = reference_candidate(trial.problem)
    steps = (RecordLaunches(on_gpu=True),)
    scenario = Scenario(label="launches", cases=trial.cases("small")[:1], steps=steps)
    with Executor(
        trial, candidate, device=CPU, nursery=nursery, spares=0, lazy=True, lane=lane
    ) as made:
        monkeypatch.setattr(made.pool, "execute", execute)
        made(scenario)
    assert seen == [False, True][:asked]


def test_a_fault_of_the_gpu_counts_though_it_may_not_come_again(
    trial: JudgeTrial, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether an access beyond memory is a fault depends on what lies there."""
    text = "Triton Error [CUDA]: an illegal memory access was encountered"
    raised = StepRaised(index=0, exception="RuntimeError", message=text, traceback="")
    done = StepDone(index=0, facts=())
    ends = [ScenarioResult(records=(record,), termination=Finished()) for record in (done, raised)]

    async def execute(*_: object, **__: object) -> Ran:
        return Ran(ends.pop(), ())

    async def unable(*_: object, **__: object) -> None:
        return None

    candidate = reference_candidate(trial.problem)
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"))
    scenario = Scenario(label="plain", cases=trial.cases("small")[:1], steps=steps)
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0, lazy=True) as made:
        monkeypatch.setattr(made, "_device", CUDA)
        monkeypatch.setattr(made._unwatched, "apart_for", unable)
        monkeypatch.setattr(made.pool, "execute", execute)
        assert made(scenario).result.records == (raised,)
    assert len(ends) == 1
