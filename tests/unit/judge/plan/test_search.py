"""The search: what it meets, that it climbs, when it ends, and that a seed repeats it."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuassay.catalog import registry
from cuassay.errors import CannotJudgeError
from cuassay.inputs.budget import budget_for
from cuassay.inputs.fills import kinds_for
from cuassay.inputs.geometry import elements, least_sizes, legal, tensor_inputs
from cuassay.inputs.planner import Planner
from cuassay.inputs.recipes import REACH, change, sample
from cuassay.judge.plan.search import Answer, SearchEffort, effort_for, search
from cuassay.judge.trial import JudgeTrial
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.problem import ConstAxis
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.waits import run_now
from tests.support.fake_trial import FakeTrial, gather, row_sum, scaled_add
from tests.support.judging import bench

EFFORT = SearchEffort(seconds=300.0, rounds=1, explore=150, climb=50, elements=1 << 15)
SHORT = SearchEffort(seconds=300.0, rounds=1, explore=20, climb=30, elements=1 << 12)


def trial(fake: FakeTrial, seed: int = 7) -> JudgeTrial:
    return bench(fake, fake.reference, seed=seed).trial


def planner(fake: FakeTrial) -> Planner:
    budget = budget_for(Profile.STANDARD, device=CPU)
    return Planner(problem=fake.problem, budget=budget, root_seed=5)


def asked(
    fake: FakeTrial, answer: Callable[[Case], Answer], effort: SearchEffort, seed: int = 7
) -> list[Case]:
    seen: list[Case] = []

    async def ask(case: Case) -> Answer:
        seen.append(case)
        return answer(case)

    assert run_now(search(trial(fake, seed), ask, effort=effort)) == len(seen)
    return seen


def passing(_: Case) -> Answer:
    return Answer(share=0.2, failed=False)


async def passed(case: Case) -> Answer:
    return passing(case)


@pytest.mark.parametrize(
    "fails",
    [
        lambda case: case.axes["cols"] % 128 == 64,
        lambda case: case.axes["cols"] % 128 > 64 and case.axes["rows"] >= 4,
        lambda case: case.fills["x"].kind == "cancelling",
        lambda case: float(case.fills["x"].parameters.get("scale", 1.0)) > 300.0,
        lambda case: case.scalars["gain"] > 3.0,
    ],
    ids=["cols mod 128 = 64", "partial tile", "one fill", "magnitude gate", "scalar"],
)
def test_planted_gates_are_met_and_end_the_search(fails: Callable[[Case], bool]) -> None:
    fake = scaled_add()
    seen = asked(fake, lambda case: Answer(share=0.2, failed=fails(case)), EFFORT)
    assert fails(seen[-1])
    assert not any(map(fails, seen[:-1]))


def test_climbing_reaches_shares_that_exploring_does_not() -> None:
    fake = scaled_add()

    def share(case: Case) -> float:
        scale = case.fills["x"].parameters.get("scale", 0.0)
        assert isinstance(scale, float | int)
        return case.axes["rows"] / 512 + min(scale, 1e4) / 1e4 + float(case.scalars["gain"]) / 4

    climbed = 0
    for seed in range(6):  # what Hypothesis draws also depends on the modules that are loaded
        seen = asked(fake, lambda case: Answer(share=share(case), failed=False), EFFORT, seed)
        climbed += max(map(share, seen)) > max(map(share, seen[: EFFORT.explore]))
    assert climbed > 0


def test_a_seed_repeats_the_search_and_another_changes_it() -> None:
    fake = row_sum()
    first = asked(fake, passing, SHORT)
    assert first == asked(fake, passing, SHORT)
    other: list[Case] = []

    async def ask(case: Case) -> Answer:
        other.append(case)
        return passing(case)

    run_now(search(trial(fake, seed=8), ask, effort=SHORT))
    assert other != first


def test_no_case_is_asked_twice_and_all_keep_to_the_budget() -> None:
    fake = gather()
    seen = asked(fake, passing, SHORT)
    assert len({repr(case) for case in seen}) == len(seen) >= SHORT.explore
    fixed = elements(fake.problem, least_sizes(fake.problem, fake.problem.workloads[0].axes))
    for case in seen:
        assert elements(fake.problem, case.axes) <= SHORT.elements + fixed
        assert legal(fake.problem, case.axes)


def test_weights_leave_sizes_to_search() -> None:
    fake = scaled_add()
    axes = (fake.problem.axes[0], ConstAxis(name="cols", value=1 << 14))
    workloads = tuple(
        dataclasses.replace(one, axes={"rows": 16, "cols": 1 << 14})
        for one in fake.problem.workloads
    )
    problem = dataclasses.replace(fake.problem, axes=axes, workloads=workloads)
    effort = dataclasses.replace(SHORT, elements=1 << 16)  # one row has 49,152
    seen = asked(FakeTrial(problem, fake.reference), passing, effort)
    assert len({case.axes["rows"] for case in seen}) > 1
    fixed = elements(problem, {"rows": 2, "cols": 1 << 14})
    assert all(elements(problem, case.axes) <= effort.elements + fixed for case in seen)


def test_a_problem_without_a_free_axis_is_searched_for_values() -> None:
    fake = scaled_add()
    axes = (ConstAxis(name="rows", value=4), ConstAxis(name="cols", value=8))
    workloads = tuple(dataclasses.replace(one, axes={}) for one in fake.problem.workloads)
    problem = dataclasses.replace(fake.problem, axes=axes, workloads=workloads)
    assert len(asked(FakeTrial(problem, fake.reference), passing, SHORT)) >= SHORT.explore


def test_what_is_no_larger_than_what_has_room_is_not_planned() -> None:
    fake = scaled_add()
    planned: list[Case] = []

    def has_room(case: Case, *, truth: bool = True) -> bool:
        planned.append(case)
        return case.axes["rows"] <= 64

    made = trial(fake)
    made.memory.holds = has_room  # type: ignore[method-assign]
    seen: list[Case] = []

    async def ask(case: Case) -> Answer:
        seen.append(case)
        return Answer(share=0.2, failed=False)

    run_now(search(made, ask, effort=EFFORT))
    assert seen
    assert all(case.axes["rows"] <= 64 for case in seen)
    assert 2 * len(planned) < len(seen)


def test_time_ends_the_search() -> None:
    effort = SearchEffort(seconds=0.5, rounds=1, explore=10_000, climb=0, elements=1 << 12)

    def slow(_: Case) -> Answer:
        time.sleep(0.02)
        return Answer(share=None, failed=False)

    assert len(asked(row_sum(), slow, effort)) < 100  # none where planning took the time


def test_a_search_ends_where_it_need_not_go_on() -> None:
    seen: list[Case] = []

    async def ask(case: Case) -> Answer:
        seen.append(case)
        return passing(case)

    going = search(trial(row_sum()), ask, effort=EFFORT, going=lambda: len(seen) < 7)
    assert run_now(going) == 7


def test_faults_of_the_judge_pass_through_untouched() -> None:
    async def ask(_: Case) -> Answer:
        raise CannotJudgeError("no device")

    with pytest.raises(CannotJudgeError, match="no device"):
        run_now(search(trial(row_sum()), ask, effort=SHORT))


def test_an_inconsistent_answer_breaks_nothing() -> None:
    shares = iter(range(10_000))
    seen = asked(row_sum(), lambda _: Answer(share=float(next(shares)), failed=False), SHORT)
    assert len(seen) > SHORT.explore


def test_infinite_and_missing_shares_are_no_target() -> None:
    shares = [float("inf"), None, float("nan")]
    count = iter(range(10_000))
    seen = asked(row_sum(), lambda _: Answer(share=shares[next(count) % 3], failed=False), SHORT)
    assert len(seen) == SHORT.explore


def test_quick_does_not_search() -> None:
    assert effort_for(Profile.QUICK, device=CPU) is None
    quick = bench(row_sum(), row_sum().reference, profile=Profile.QUICK).trial
    assert run_now(search(quick, passed)) == 0


def test_nothing_is_written_into_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", str(tmp_path / "kept"))
    run_now(search(trial(row_sum()), passed, effort=SHORT))
    assert {entry.name for entry in tmp_path.iterdir()} <= {"kept"}
    assert os.environ["HYPOTHESIS_STORAGE_DIRECTORY"].startswith(str(tmp_path))


@pytest.mark.parametrize("name", ["rmsnorm", "embedding_grad", "softmax_softcap", "cross_entropy"])
def test_recipes_of_the_catalogue_are_legal(name: str) -> None:
    problem = registry.get(name)
    budget = budget_for(Profile.STANDARD, device=CPU)
    made = Planner(problem=problem, budget=budget, root_seed=5)
    kinds = {spec.name: kinds_for(spec) for spec in tensor_inputs(problem)}
    cases = [sample(made, number, max_elements=1 << 20) for number in range(40)]
    found = [case for case in cases if case is not None]
    assert len(found) > 20
    for case in found:
        assert legal(problem, case.axes)
        assert all(fill.kind in kinds[name] for name, fill in case.fills.items())
        assert set(case.fills) == set(kinds)


def test_a_change_of_nothing_keeps_the_recipe() -> None:
    made = planner(scaled_add())
    case = sample(made, 3, max_elements=1 << 14)
    assert case is not None
    same = change(made, case, [(aspect, 0) for aspect in range(9)], max_elements=1 << 14)
    assert (same.axes, same.fills, same.scalars) == (case.axes, case.fills, case.scalars)


def test_changes_move_single_aspects_within_the_budget() -> None:
    made = planner(scaled_add())
    case = sample(made, 3, max_elements=1 << 14)
    assert case is not None
    for aspect in range(12):
        for amount in (-REACH, -3, 5, REACH):
            changed = change(made, case, [(aspect, amount)], max_elements=1 << 14)
            assert elements(made.problem, changed.axes) <= 1 << 14
            assert legal(made.problem, changed.axes)
            moved = sum(changed.axes[name] != size for name, size in case.axes.items())
            moved += sum(changed.fills[name] != fill for name, fill in case.fills.items())
            assert moved <= 1
