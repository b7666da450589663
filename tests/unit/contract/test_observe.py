"""Facts of a generator's inputs: those that hold, and no others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.catalog import registry
from cuassay.contract.facts import (
    Arange,
    Binary,
    Constant,
    Contradicted,
    EqualSlices,
    NonNegative,
    Related,
    SameForAllSeeds,
    Sorted,
    fact_words,
)
from cuassay.contract.observe import (
    InputSample,
    holds,
    related_inputs,
    value_facts,
    without_contradicted,
)
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.model.domain import Index, Mask, Opaque, Positive, Probability, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.model.stated import FactKind
from tests.support.foreign import kernelbench
from tests.unit.contract.problems import foreign, rotary, trial_of

_SIZES = {"batch": 3, "seq": 7, "dim": 5}


def test_what_holds_in_every_run_is_a_fact(tmp_path: Path) -> None:
    problem = rotary(tmp_path)
    generator = load_reference(problem).generator
    assert generator is not None
    looks = []
    for seed in range(3):
        torch.manual_seed(seed)
        values: Any = generator(_SIZES, torch.device("cpu"))
        looks.append(InputSample(values=values, sizes=_SIZES))
    facts = [known.fact for known in value_facts(problem, looks)]
    assert EqualSlices(input="position_ids", dim=0, axis="batch") in facts
    assert Arange(input="position_ids", start=0) in facts
    assert SameForAllSeeds(input="position_ids") in facts
    assert Constant(input="scale", value=2.0) in facts
    assert NonNegative(input="gate_sigmoid") in facts
    assert not [fact for fact in facts if getattr(fact, "input", "") in ("x", "gate")]


def test_a_fact_of_one_run_is_none(tmp_path: Path) -> None:
    problem = rotary(tmp_path)
    base = {name: torch.randn(2, 4) for name in ("x", "gate", "gate_sigmoid", "scale")}
    looks = [
        InputSample(values={**base, "position_ids": torch.tensor(rows)}, sizes={"batch": 2})
        for rows in ([[0, 1, 2, 3]] * 2, [[0, 1, 2, 9], [0, 4, 5, 6]])
    ]
    facts = [known.fact for known in value_facts(problem, looks)]
    assert Arange(input="position_ids", start=0) not in facts
    assert Sorted(input="position_ids") in facts  # which a count is as well
    assert not any(isinstance(fact, EqualSlices) for fact in facts)
    assert SameForAllSeeds(input="position_ids") not in facts


def test_a_larger_look_shows_and_contradicts_what_a_small_one_cannot(tmp_path: Path) -> None:
    problem = rotary(tmp_path)
    looks = []
    for seq in (2, 2, 9):
        angles = torch.arange(seq * 4).reshape(1, seq, 4) / 2
        values = {"x": angles.cos(), "gate": torch.randn(1, seq, 4), "scale": torch.full((4,), 2.0)}
        values["gate_sigmoid"] = values["gate"].sigmoid()
        values["position_ids"] = torch.arange(seq).repeat(1, 1)
        if seq == 2:
            values["x"] = values["x"].abs()
        looks.append(InputSample(values=values, sizes={"batch": 1, "seq": seq, "dim": 4}))
    small, all_of = (
        [known.fact for known in value_facts(problem, some)] for some in (looks[:2], looks)
    )
    assert NonNegative(input="x") in small  # of two positions, none has a negative cosine here
    assert NonNegative(input="x") not in all_of
    assert Binary(input="position_ids") in small
    assert Binary(input="position_ids") not in all_of
    assert Arange(input="position_ids", start=0) not in small  # two numbers show no order
    assert Arange(input="position_ids", start=0) in all_of
    assert Constant(input="scale", value=2.0) in all_of
    assert SameForAllSeeds(input="position_ids") in all_of


def test_inputs_made_from_one_another_are_related(tmp_path: Path) -> None:
    generator = load_reference(rotary(tmp_path)).generator
    assert generator is not None
    groups = related_inputs(lambda: generator(_SIZES, torch.device("cpu")))
    assert groups == (frozenset({"gate", "gate_sigmoid"}),)


def test_facts_are_broken_one_at_a_time_and_related_inputs_are_conditions(tmp_path: Path) -> None:
    trial = trial_of(rotary(tmp_path))
    cases = trial.cases("facts")
    broken = {case.label: case for case in cases[1::2]}
    rows = broken["position_ids with slices that differ"]
    assert rows.in_domain
    assert rows.fact == "all slices of position_ids along batch are equal"
    ids = trial.inputs(rows)["position_ids"]
    assert isinstance(ids, torch.Tensor)
    assert ids[0].tolist() == list(range(ids.shape[1]))
    assert ids[1].tolist() != ids[0].tolist()
    assert sorted(ids[1].tolist()) == ids[0].tolist()
    assert "position_ids with another order" in broken
    assert "scale with other values" in broken
    assert all(len(case.fills) == 1 for case in broken.values())
    said = {known.broken for known in trial.facts if isinstance(known.fact, Related)}
    assert said == {""}


_NAMED = """import torch

def get_inputs(axes_and_scalars, device):
    n, k = (axes_and_scalars[name] for name in ("n", "k"))
    return {
        "x": torch.randn(n, k, device=device),
        "cos": 3 * torch.randn(n, k, device=device) + 2,
        "sin": torch.sin(torch.randn(n, k, device=device)),
        "input_mask": torch.randn(n, k, device=device),
        "rstd": torch.rand(n, device=device) + 0.5,
    }

def run(x, cos, sin, input_mask, rstd):
    return (x * cos + sin * input_mask) * rstd[:, None]
"""


def test_what_a_name_suggests_gives_way_to_the_problems_own_values(tmp_path: Path) -> None:
    matrix = (("n", "k"), "float32")
    problem = foreign(
        tmp_path,
        _NAMED,
        axes=("n", "k"),
        inputs={"x": matrix, "cos": matrix, "sin": matrix, "input_mask": matrix,
                "rstd": (("n",), "float32")},
        output=("n", "k"),
        sizes=({"n": 16, "k": 32},),
        generator="get_inputs",
    )  # fmt: skip
    trial = trial_of(problem)
    assert problem.input("cos").domain == Real(low=-1.0, high=1.0)
    assert isinstance(problem.input("input_mask").domain, Mask)
    smoke(trial)
    generate_once(trial)
    learnt = trial.problem
    assert learnt.input("cos").domain == learnt.input("input_mask").domain == Real()
    assert learnt.input("sin").domain == Real(low=-1.0, high=1.0)
    assert isinstance(learnt.input("rstd").domain, Positive)
    said = [fact_words(known.fact) for known in trial.facts if isinstance(known.fact, Contradicted)]
    assert len(said) == 2
    assert said[0].startswith("cos is not real in [-1.0, 1.0], as it seemed: the problem's own")
    drawn = [trial.inputs(case)["cos"] for case in trial.cases("numeric")]
    assert any(isinstance(cos, torch.Tensor) and bool((cos.abs() > 1).any()) for cos in drawn)


_DIVERGENCE = """import torch

def get_inputs(axes_and_scalars, device):
    n, k = (axes_and_scalars[name] for name in ("n", "k"))
    return {
        "p": torch.rand(n, k, device=device).softmax(-1),
        "q": torch.rand(n, k, device=device).softmax(-1),
        "scale": 5000 * torch.rand(n, k, device=device) + 1,
    }

def run(p, q, scale):
    return torch.nn.functional.kl_div(p.log(), q, reduction="none") + scale.rsqrt()
"""


@pytest.mark.parametrize("side", [512, 1 << 15])  # the large one has no room: 12 GiB of inputs
def test_probabilities_and_positive_numbers_stay_what_they_are(tmp_path: Path, side: int) -> None:
    """Of negative ones the reference makes NaN, and a kernel that guards itself was rejected."""
    matrix = (("n", "k"), "float32")
    problem = foreign(
        tmp_path,
        _DIVERGENCE,
        axes=("n", "k"),
        inputs={"p": matrix, "q": matrix, "scale": matrix},
        output=("n", "k"),
        sizes=({"n": side, "k": side},),
        generator="get_inputs",
    )
    trial = trial_of(problem)
    smoke(trial)
    generate_once(trial)
    learnt = trial.problem
    assert isinstance(learnt.input("p").domain, Probability)  # also a logarithm's argument
    assert isinstance(learnt.input("q").domain, Probability)
    domain = learnt.input("scale").domain
    assert isinstance(domain, Positive)
    assert domain.high > 4000 > Positive().high
    for case in (*trial.cases("numeric"), *trial.cases("small")):
        values = [value for value in trial.inputs(case).values() if isinstance(value, torch.Tensor)]
        assert all(bool((value > 0).all()) for value in values)


def test_what_is_declared_is_not_given_up(tmp_path: Path) -> None:
    problem = rotary(tmp_path)
    stated = dataclasses.replace(
        problem,
        inputs=tuple(
            dataclasses.replace(spec, domain=Positive(low=1e-3), domain_source="declared")
            if spec.name == "gate"
            else spec
            for spec in problem.inputs
        ),
    )
    generator = load_reference(problem).generator
    assert generator is not None
    values = generator(_SIZES, torch.device("cpu"))
    kept, found = without_contradicted(stated, values, _SIZES, again=dict)  # type: ignore[arg-type]
    assert kept.input("gate").domain == Positive(low=1e-3)
    assert found == ()


def test_what_is_constant_of_a_modules_state_is_changed_at_once(tmp_path: Path) -> None:
    """A network has hundreds of such tensors: each alone was a call, and a truth, of its own."""
    trial = trial_of(load_problem(str(kernelbench(tmp_path))))
    base, broken = trial.cases("facts")
    changed = [name for name, fill in broken.fills.items() if fill.parameters]
    assert len(changed) > 1
    assert set(changed) < set(trial.problem.state)
    before, after = trial.inputs(base), trial.inputs(broken)
    for name in trial.problem.state:
        value, other = before[name], after[name]
        assert isinstance(value, torch.Tensor)
        assert isinstance(other, torch.Tensor)
        assert torch.equal(value, other) == (name not in changed)
    told = [known for known in trial.facts if known.broken]
    assert {known.fact.input for known in told if isinstance(known.fact, Constant)} >= set(changed)


def test_a_part_of_a_large_tensor_refuses_what_does_not_hold_and_nothing_else() -> None:
    size = 1 << 11
    ones = torch.ones(size, size)
    rows = torch.arange(size).expand(size, size)
    drawn = torch.randn(size, size, generator=torch.Generator().manual_seed(1))
    assert holds(FactKind.CONSTANT, ones)
    assert holds(FactKind.ALONG, rows, dim=0)
    assert not holds(FactKind.ALONG, rows, dim=1)
    assert holds(FactKind.ARANGE, rows)
    assert holds(FactKind.SORTED, rows)
    assert holds(FactKind.DISTINCT, rows)
    assert holds(FactKind.SYMMETRIC, rows + rows.T)
    assert not holds(FactKind.SYMMETRIC, drawn)
    assert not any(holds(kind, drawn) for kind in (FactKind.CONSTANT, FactKind.NON_NEGATIVE))
    late = ones.clone()
    late[-1, -1] = -2.0  # in no part: the whole is looked at
    assert not holds(FactKind.CONSTANT, late)
    assert not holds(FactKind.NON_NEGATIVE, late)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([0, 3, -1, 2], Index(axis="tokens", sentinels=(-1,))),
        ([0, 3, 1, 2], Index(axis="tokens")),
        ([0, -2, -1, 2], None),  # no single number stands for padding
        ([0, 99, -1, 2], None),
    ],
)
def test_a_negative_id_of_the_generator_is_padding(ids: list[int], expected: Index | None) -> None:
    spec = TensorSpec(
        name="ids",
        dtype=DType.INT64,
        shape=("tokens",),
        domain=Index(axis="tokens"),
        domain_source="experiment",
    )
    problem = dataclasses.replace(registry.get("embedding"), inputs=(spec,))
    values = {"ids": torch.tensor(ids)}
    kept, _ = without_contradicted(problem, values, {"tokens": 4}, again=lambda: values)
    found = kept.input("ids").domain
    assert found == expected if expected is not None else isinstance(found, Opaque)
