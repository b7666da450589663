"""A trial is frozen data: its cases and seeds follow from the root seed, and plans are kept."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.verdict import Profile


def _open(root_seed: int) -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=root_seed
    )


def test_nobody_changes_a_trial() -> None:
    trial = _open(7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        trial.root_seed = 8  # type: ignore[misc]


def test_seeds_and_cases_follow_from_the_root_seed_alone() -> None:
    first, again, other = _open(7), _open(7), _open(8)
    assert first.seed("a", 1) == again.seed("a", 1)
    assert first.seed("a", 1) != first.seed("a", 2)
    assert first.cases("shapes") == again.cases("shapes")
    assert first.cases("shapes") != other.cases("shapes")


@pytest.mark.parametrize(("budget_s", "check_s"), [(None, 16.0), (120.0, 16.0), (60.0, 12.0)])
def test_a_check_has_a_part_of_the_time_of_a_trial(budget_s: float | None, check_s: float) -> None:
    problem = registry.get("rmsnorm")
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7,
        budget_s=budget_s,
    )  # fmt: skip
    assert trial.check_s == check_s
    assert trial.for_check(4.0).allowance.allows(4.0 * check_s)


def test_calls_at_once_count_one_run_of_the_reference_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = _open(7)
    monkeypatch.setattr(type(trial.memory.room), "run_s", lambda *_: 0.5)
    cases = trial.cases("small")[:1] * 9
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    plain = Scenario(label="one by one", cases=cases, steps=steps)
    once = dataclasses.replace(plain, at_once=True)
    assert trial.scenario_s(once) == 4.5
    assert trial.scenario_s(plain) > 3 * 4.5


def test_plans_are_made_once() -> None:
    trial = _open(7)
    assert trial.cases("small") is trial.cases("small")


def test_every_planned_case_is_legal_and_has_room() -> None:
    trial = _open(7)
    least = {axis.name: axis.minimum for axis in trial.problem.var_axes()}
    for case in (*trial.cases("small"), *trial.cases("shapes")):
        assert trial.has_room(case)
        assert all(case.axes[name] >= size for name, size in least.items()) or not case.in_domain
