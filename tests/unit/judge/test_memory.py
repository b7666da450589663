"""Which scenarios are small beside what a trial plans to take."""

from __future__ import annotations

import pytest

from cuassay.catalog import registry
from cuassay.contract.memory import Need
from cuassay.formats.execute import load_reference
from cuassay.judge import memory
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile


@pytest.fixture
def trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )


@pytest.mark.parametrize(("judge", "light"), [(600, True), (700, False)])
def test_a_history_of_many_cases_holds_their_inputs_and_one_truth(
    trial: JudgeTrial, monkeypatch: pytest.MonkeyPatch, judge: int, light: bool
) -> None:
    """Eight truths at a time would take more than the quarter that a scenario beside others has."""

    class Room:
        bytes = 4000

        def is_small(self, *_: object, share: int, of_bytes: int) -> bool:
            return False

        def need(self, *_: object) -> Need:
            return Need(judge=judge, plain=0, worker=100, kept=40)

    monkeypatch.setattr(trial.memory, "room", Room())
    cases = [Case(label="", axes={}, seed=number) for number in range(8)]
    assert trial.memory.is_light(cases) is light


def test_without_a_plan_a_light_scenario_is_small_beside_what_the_gpu_has(
    trial: JudgeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = trial.cases("small")[:1]
    trial.memory.room.limit_gib = None
    assert trial.memory.is_light(cases)  # a CPU: nothing is planned by its memory
    trial.memory._on_gpu = True
    for total, light in ((80 << 30, True), (1 << 10, False)):
        monkeypatch.setattr(memory, "total_bytes", lambda device, total=total: total)
        assert trial.memory.is_light(cases) is light
