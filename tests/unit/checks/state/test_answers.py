"""Reads of a run, whether their bits are the same, and the inputs that two cases differ in."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import torch

from cuassay.checks.state.answers import (
    moved_names,
    placed,
    reads_of,
    reseeded,
    same_bits,
    truth_moved,
)
from cuassay.model.case import Case, Fill
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from tests.support.fake_trial import run_one, scaled_add
from tests.zoo.manifest import load


def test_reads_come_in_order_with_the_case_and_the_call_that_they_are_of() -> None:
    trial = scaled_add()
    first = trial.cases("small")[0]
    other = reseeded(first, label="other", seed=first.seed + 1)
    scenario = Scenario(
        label="two calls",
        cases=(first, other),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="r"),
            Allocate(slot="b", case=1),
            Call(slot="b", result="s"),
            ReadResult(result="s"),
            ReadResult(result="r"),
            ReadResult(result="r"),
        ),
    )
    run = run_one(trial, trial.reference, scenario)
    late, early, again = reads_of(scenario, run)
    assert [(one.result, one.call) for one in (late, early)] == [("s", 2), ("r", 1)]
    assert late.case == other
    assert same_bits(run, early.items, again.items)
    assert not same_bits(run, early.items, late.items)
    assert not same_bits(run, early.items, ())


def test_nan_has_the_bits_of_nan() -> None:
    trial = scaled_add()

    def nan(*_: object) -> torch.Tensor:
        return torch.full((2,), float("nan"))

    scenario = Scenario(
        label="nan",
        cases=trial.cases("small")[:1],
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="r"),
            ReadResult(result="r"),
            ReadResult(result="r"),
        ),
    )
    run = run_one(trial, nan, scenario)
    first, again = reads_of(scenario, run)
    assert same_bits(run, first.items, again.items)


def test_other_values_move_the_truth_and_the_same_ones_do_not() -> None:
    trial = scaled_add()
    case = trial.cases("small")[0]
    assert truth_moved(trial, case, reseeded(case, label="", seed=case.seed + 1))
    assert not truth_moved(trial, case, dataclasses.replace(case, label="in other words"))


def test_inputs_whose_recipe_or_number_differs_are_named() -> None:
    base = Case(label="", axes={"rows": 2}, fills={"x": Fill(kind="normal")}, scalars={"gain": 1.0})
    moved = dataclasses.replace(
        base, fills={**base.fills, "bias": Fill(kind="zeros")}, scalars={"gain": 2.0}
    )
    assert moved_names(base, moved) == ("bias", "gain")
    assert moved_names(base, base) == ()


def test_a_case_at_its_own_sizes_is_itself() -> None:
    base = Case(label="", axes={"rows": 2})
    assert placed(base, {"rows": 2}) is base
    assert placed(base, {"rows": 3}).axes == {"rows": 3}


def test_truth_has_not_moved_where_kernels_of_the_policy_may_round_both_to_one_number() -> None:
    """A frozen batch norm in bfloat16: 1.375 / sqrt(1.0625) and 2.1875 / sqrt(2.75) are one."""
    problem = load("zoo:frozen_batchnorm")
    policy = policy_of(problem)
    asked: list[Precision] = []
    values = {"weight": 1.334, "variance": 1.319}

    def told(case: Case, scale: float) -> SimpleNamespace:
        value = torch.tensor([values[case.label]], dtype=torch.float64)
        return SimpleNamespace(outputs=[SimpleNamespace(value=value, scale=torch.tensor([scale]))])

    def truth(case: Case, precision: Precision) -> SimpleNamespace:
        asked.append(precision)
        return told(case, 0.004)

    trial: Any = SimpleNamespace(
        problem=problem, rough=lambda case: told(case, 0.0004), truth=truth
    )
    cases = [Case(label=label, axes={}) for label in values]
    assert not truth_moved(trial, *cases)
    assert set(asked) == {policy}
    assert policy is not Precision.STRICT
    values["weight"] = 2.0
    assert truth_moved(trial, *cases)


def test_truth_has_not_moved_where_another_choice_among_equals_is_right_in_both() -> None:
    """Of 5 and 8, and of 2 and 8, a kernel that takes the last of equals takes 8."""
    problem = load("zoo:frozen_batchnorm")
    ties = {"whole": True, "none": False}

    def trial_of(tied: str) -> Any:
        def told(case: Case, *_: object) -> SimpleNamespace:
            place = torch.tensor([1, 5 if case.label == "first" else 2])
            mask = torch.tensor([False, ties[tied]])
            one = SimpleNamespace(value=place, scale=None, ambiguous=mask if ties[tied] else None)
            return SimpleNamespace(outputs=[one])

        return SimpleNamespace(problem=problem, rough=told, truth=told)

    first, second = Case(label="first", axes={}), Case(label="second", axes={})
    assert truth_moved(trial_of("none"), first, second)
    assert not truth_moved(trial_of("whole"), first, second)
