"""What the judge's PTX machine answers is asked for once, and so is that it gives no answer."""

from __future__ import annotations

import asyncio

import pytest
import torch

from cuassay.errors import CannotJudgeError
from cuassay.judge.run import machine
from cuassay.judge.run.budget import TimeBudget
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.machine import LaunchEvidence, MachineEvidence
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile

RECORDING = torch.arange(16, dtype=torch.uint8)


def scenario(label: str) -> Scenario:
    return Scenario(label=label, cases=(Case(label=label, axes={"n": 4}, seed=1),), steps=())


@pytest.fixture
def replayer(monkeypatch: pytest.MonkeyPatch) -> Replayer:
    nobody = Candidate(name="nobody", sources=(), entry_file="", entry_function="")
    monkeypatch.setattr(Replayer, "_machine", lambda self: None)
    return Replayer(nobody, "", profile=Profile.QUICK, host=HostNursery(None))


def test_a_machine_without_an_answer_is_asked_once(
    replayer: Replayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    async def silent(*given: object, **named: object) -> MachineEvidence:
        calls.append(given)
        raise CannotJudgeError("no end within 60 s")

    monkeypatch.setattr(machine, "ask", silent)
    for label in ("memory", "races"):
        with pytest.raises(CannotJudgeError, match="no end within 60 s"):
            replayer.execute(RECORDING, scenario(label))
    assert len(calls) == 1
    counted = replayer.count()
    assert (counted.made, counted.judged) == (2, 0)  # one launch at least of each call
    assert dict(counted.causes) == {"no end within 60 s": 2}


def test_a_wait_for_the_machine_ends_with_the_time_of_the_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def endless(*given: object, **named: object) -> MachineEvidence:
        await asyncio.sleep(600)
        raise AssertionError

    monkeypatch.setattr(Replayer, "_machine", lambda self: None)
    monkeypatch.setattr(machine, "ask", endless)
    nobody = Candidate(name="nobody", sources=(), entry_file="", entry_function="")
    budget = TimeBudget(0.05)
    replayer = Replayer(nobody, "", profile=Profile.QUICK, host=HostNursery(None), budget=budget)
    with pytest.raises(CannotJudgeError, match="of this trial are over"):
        replayer.execute(RECORDING, scenario("memory"))
    assert budget.is_spent


def test_an_answer_is_asked_for_once(replayer: Replayer, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    launch = LaunchEvidence(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), target="sm_90")

    async def answers(*given: object, **named: object) -> MachineEvidence:
        calls.append(given)
        return MachineEvidence(launches=(launch,))

    monkeypatch.setattr(machine, "ask", answers)
    for label in ("memory", "races"):
        assert replayer.execute(RECORDING, scenario(label)).judged == 1
    assert len(calls) == 1


def test_what_the_reference_launches_as_a_control_is_no_evidence_on_the_candidate(
    replayer: Replayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = LaunchEvidence(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), target="sm_90")
    answers = [MachineEvidence(launches=(launch,)), MachineEvidence()]

    async def answer(*given: object, **named: object) -> MachineEvidence:
        return answers.pop(0)

    monkeypatch.setattr(machine, "ask", answer)
    assert replayer.execute(RECORDING, scenario("sums")).made == 1
    assert replayer.execute(RECORDING + 1, scenario("sums")).made == 0
    assert replayer.launches([scenario("sums")])[:2] == (1, 1)
    assert [one.made for one in replayer.seen] == [1]
