"""MEM004: what no output depends on is found, spoiled, and blamed only where it matters."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.catalog import registry
from cuassay.checks.memory.masked_values import Mem004, unused
from cuassay.errors import NothingToCheckError, ProblemError
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.case import Case, Fill
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner

Kernel = Callable[..., Tensor]


def trial_of(name: str) -> JudgeTrial:
    problem = registry.get(name)
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device="cpu", root_seed=5
    )


def found(name: str, kernel: Kernel) -> list[tuple[FindingClass, str]]:
    trial, check = trial_of(name), Mem004()
    runner = LocalRunner(kernel, trial.problem)
    judgements = [
        check.judge(trial, scenario, runner.run(scenario, trial.inputs, None))
        for scenario in check.propose(trial)
    ]
    return [(each.finding_class, each.condition) for one in judgements for each in one.findings]


def test_rows_that_no_index_names_are_unused() -> None:
    trial = trial_of("embedding")
    case = trial.cases("small")[0]
    places = unused(trial, case)
    inputs = trial.inputs(case)
    ids, weight = inputs["input_ids"], inputs["weight"]
    assert isinstance(ids, Tensor)
    assert isinstance(weight, Tensor)
    width = weight.shape[1]
    named = set(ids.tolist())
    expected = [p for p in range(weight.numel()) if p // width not in named]
    assert places["nan"] == places["garbage"] == {"weight": tuple(expected)}


def test_what_every_output_depends_on_is_left_alone() -> None:
    trial = trial_of("rmsnorm")
    with pytest.raises(NothingToCheckError, match="every value reaches an output"):
        list(Mem004().propose(trial))


def looked_up(ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    return (weight[ids].float() * scale).to(weight.dtype)


def by_product(ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    chosen = torch.nn.functional.one_hot(ids.long(), weight.shape[0]).float()
    return (chosen @ weight.float() * scale).to(weight.dtype)


def scaled_by_the_table(ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    shared = weight.double().abs().max()
    codes = (weight.double() / shared * 2**20).round()
    return (codes[ids] / 2**20 * shared * scale).to(weight.dtype)


def wrong_anyway(ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    return by_product(ids, weight, scale) * 2


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (looked_up, []),
        (by_product, [(FindingClass.UNSAFE, "padding: what no output depends on must be finite")]),
        (scaled_by_the_table, [(FindingClass.WRONG, "")]),
        (wrong_anyway, []),
    ],
)
def test_zero_times_nan_is_a_condition_and_a_shared_scale_is_wrong(
    kernel: Kernel, expected: list[tuple[FindingClass, str]]
) -> None:
    assert found("embedding", kernel) == expected


@pytest.mark.parametrize("with_", ["nan", 3.0])
def test_places_are_spoiled_after_the_fill(with_: float | str) -> None:
    problem = registry.get("rmsnorm")
    plain = Case(label="plain", axes={"rows": 2, "hidden": 3}, seed=9)
    fill = Fill(kind="normal", parameters={"spoil": (0, 4), "spoil_with": with_})
    spoiled = Case(label="spoiled", axes=plain.axes, seed=9, fills={"x": fill})
    before, after = (materialise(problem, c, device="cpu")["x"] for c in (plain, spoiled))
    assert isinstance(before, Tensor)
    assert isinstance(after, Tensor)
    values = after.flatten().tolist()
    for place in (0, 4):
        assert math.isnan(values[place]) if with_ == "nan" else values[place] == 3.0
    kept = [1, 2, 3, 5]
    assert torch.equal(after.flatten()[kept], before.flatten()[kept])


def test_places_outside_the_tensor_are_refused() -> None:
    fill = Fill(kind="normal", parameters={"spoil": (6,), "spoil_with": "nan"})
    case = Case(label="far", axes={"rows": 2, "hidden": 3}, seed=9, fills={"x": fill})
    with pytest.raises(ProblemError, match="places within 6 elements"):
        materialise(registry.get("rmsnorm"), case, device="cpu")
