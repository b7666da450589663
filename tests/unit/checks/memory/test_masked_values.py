"""MEM004: what no output depends on is found, spoiled, and blamed only where it matters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
import torch
from torch import Tensor

from cuassay.catalog import registry
from cuassay.checks.memory.masked_values import Mem004, _borders, _telling, unused
from cuassay.errors import NothingToCheckError, ProblemError
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.formats.native.declaration import problem, problem_of, tensor
from cuassay.inputs.materialise import materialise
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.case import Case, Fill
from cuassay.model.device import CPU
from cuassay.model.domain import IntegerRange
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner
from tests.support import trees

Kernel = Callable[..., Tensor]


def trial_of(name: str) -> JudgeTrial:
    problem = registry.get(name)
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=5
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
    before, after = (materialise(problem, c, device=CPU)["x"] for c in (plain, spoiled))
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
        materialise(registry.get("rmsnorm"), case, device=CPU)


def decode(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor, scale: float) -> Tensor:
    """Attention over pages in which values beyond a length are left out."""
    return decode_times_zero(q, k, v, table, lengths, scale, masked=True)


def decode_times_zero(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor, scale: float, *,
    masked: bool = False,
) -> Tensor:  # fmt: skip
    """Attention over pages in which values beyond a length have the weight 0."""
    slots = torch.arange(table.shape[1])
    pages = table.long().masked_fill(slots * 16 >= lengths.unsqueeze(1), 0)
    seen = torch.arange(16 * len(slots)) < lengths.unsqueeze(1)
    kv_heads, dim = k.shape[2:]
    keys, values = (c[pages].float().reshape(len(q), -1, kv_heads, dim) for c in (k, v))
    if masked:
        values = values.masked_fill(~seen[..., None, None], 0.0)
    query = q.float().reshape(len(q), kv_heads, -1, dim)
    scores = torch.einsum("bhgd,bthd->bhgt", query, keys) * scale
    scores = scores.masked_fill(~seen[:, None, None], -1e30)
    weights = torch.softmax(scores, dim=-1) * (lengths > 0)[:, None, None, None]
    return torch.einsum("bhgt,bthd->bhgd", weights, values).reshape(q.shape).to(q.dtype)


def test_what_the_problem_states_may_be_anything_rejects() -> None:
    assert found("paged_attention_ragged", decode) == []
    wrong = found("paged_attention_ragged", decode_times_zero)
    assert wrong
    assert set(wrong) == {(FindingClass.WRONG, "")}


def test_entries_beyond_a_length_are_spoiled_with_what_is_no_page() -> None:
    trial = trial_of("paged_attention_ragged")
    scenario = next(iter(Mem004().propose(trial)))
    places = unused(trial, scenario.cases[0])["anything"]
    assert set(places) == {"page_table", "k_cache", "v_cache"}
    spoiled = trial.inputs(scenario.cases[1])
    table = spoiled["page_table"]
    assert isinstance(table, Tensor)
    assert all(int(table.flatten()[place]) == 0x5A5A5A5A for place in places["page_table"])
    assert math.isnan(float(spoiled["v_cache"].flatten()[places["v_cache"][0]]))  # type: ignore[union-attr]


def test_padding_of_tiles_is_spoiled_with_codes_and_nan() -> None:
    for name, dtype in (("mxfp8_gemm_swizzled", "uint8"), ("nvfp4_gemm_swizzled", "fp8")):
        trial = trial_of(name)
        scenario = next(iter(Mem004().propose(trial)))
        places = unused(trial, scenario.cases[0])["anything"]
        assert set(places) == {"scale_a", "scale_b"}
        scales = trial.inputs(scenario.cases[1])["scale_a"]
        assert isinstance(scales, Tensor)
        spoiled = scales.float().flatten()[list(places["scale_a"])]
        assert bool(spoiled.isnan().all()) if dtype == "fp8" else set(spoiled.tolist()) == {255.0}


_MODULE = """import torch

ROWS, STEPS = 4, 16


class Model(torch.nn.Module):
    def forward(self, x, lengths):
        rows = [x[row, : int(lengths[row].item())].sum(0) for row in range(x.shape[0])]
        return torch.stack(rows)


def get_inputs():
    return [torch.randn(ROWS, STEPS, 4), torch.full((ROWS,), STEPS, dtype=torch.int32)]


def get_init_inputs():
    return []
"""


def test_rows_beyond_a_length_of_a_module_are_spoiled(tmp_path: Path) -> None:
    """A module's own call hides gradients, and its own lengths are full."""
    made = load_problem(str(trees.write(tmp_path / "summed.py", _MODULE)))
    trial = open_trial(made, load_reference(made), profile=Profile.QUICK, device=CPU, root_seed=5)
    base = trial.cases("small")[0]
    trial.planned.learning.values(base, again_seed=1)
    scenario = next(iter(Mem004().propose(trial)))
    assert set(unused(trial, scenario.cases[0])["nan"]) == {"x"}


@problem(axes={"rows": (2, 8), "steps": 16}, workloads=[{"rows": 2}])
def pooled(
    x: Annotated[Tensor, tensor("float32", "rows", "steps")],
    lengths: Annotated[Tensor, tensor("int32", "rows", domain=IntegerRange(low=1, high=16))],
) -> Annotated[Tensor, tensor("float32", "rows", name="y")]:
    seen = torch.arange(x.shape[1]) < lengths[:, None]
    return x.masked_fill(~seen, 0.0).sum(1)


def test_the_values_that_use_rows_in_part_are_taken() -> None:
    made = problem_of(pooled)
    assert made is not None
    trial = open_trial(made, load_reference(made), profile=Profile.QUICK, device=CPU, root_seed=5)
    full = Fill(kind="ones")
    base = trial.cases("small")[0]
    whole = dataclasses.replace(base, fills={**base.fills, "lengths": full})
    assert _borders(trial, whole) == whole.axes["rows"]  # of each row the first step is used
    assert _borders(trial, _telling(trial, base)) >= _borders(trial, base)
    seeds = [dataclasses.replace(base, seed=number) for number in range(8)]
    assert any(_borders(trial, _telling(trial, one)) > _borders(trial, one) for one in seeds)


def test_few_bits_of_an_upstream_gradient_leave_no_zero_by_chance() -> None:
    trial = trial_of("embedding")
    listed = dataclasses.replace(
        trial.cases("small")[0], axes={"tokens": 512, "hidden": 64, "vocab": 32}
    )
    assert not any(unused(trial, listed).values())
