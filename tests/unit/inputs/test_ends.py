"""Cases at the ends of domains: each end occurs, within the domain, as many as the budget has."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from cuassay.catalog import registry
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.inputs.real import PATCHES
from cuassay.inputs.scalars import at_declared_ends, near_powers
from cuassay.model.device import CPU
from cuassay.model.domain import Positive, Real
from cuassay.model.verdict import Profile


def values(name: str, label: str, profile: Profile = Profile.QUICK) -> dict[str, torch.Tensor]:
    """Return the tensors of the first case whose label begins so."""
    problem = registry.get(name)
    cases = plan_cases(problem, "ends", profile=profile, root_seed=5)
    case = next(one for one in cases if one.label.startswith(label))
    made = materialise(problem, case, device=CPU)
    return {key: value for key, value in made.items() if isinstance(value, torch.Tensor)}


def test_a_mask_blocks_nothing_and_every_label_is_ignored() -> None:
    assert bool(values("softmax_masked", "domains at their least")["mask"].all())
    targets = values("cross_entropy", "domains at their largest")["targets"]
    assert bool((targets == -100).all())
    alike = values("cross_entropy", "domains at their least")["targets"]
    assert bool((alike == alike[0]).all())


def test_one_element_of_a_row_leads_by_little_or_much() -> None:
    logits = values("cross_entropy", "one element of a row leads")["logits"].float()
    first, second = logits.topk(2, dim=-1).values.unbind(-1)
    margins = first - second
    assert 0.5 < float(margins.min()) < 8.0
    assert 18.0 < float(margins.max()) < 26.0


@pytest.mark.parametrize("seed", range(8))
def test_scalars_lie_beside_a_power_of_two_and_on_none(seed: int) -> None:
    problem = registry.get("embedding")
    for case in plan_cases(problem, "ends", profile=Profile.QUICK, root_seed=seed):
        scale = case.scalars["scale"]
        assert isinstance(scale, float)
        off = abs(math.log2(scale) - round(math.log2(scale)))
        assert 0.005 < off < 0.012, scale


def test_a_scalar_whose_domain_has_no_such_value_keeps_its_own() -> None:
    spec = next(one for one in registry.get("embedding").inputs if one.name == "scale")
    bound = dataclasses.replace(spec, domain=Real(low=10.0, high=12.0))
    inputs = [bound if one.name == "scale" else one for one in registry.get("embedding").inputs]
    narrow = dataclasses.replace(registry.get("embedding"), inputs=tuple(inputs))
    assert near_powers(narrow, {"scale": 11.0}, seed=3) == {}
    assert near_powers(narrow, {"scale": 0.0}, seed=3) == {}


def test_positive_numbers_lie_at_the_ends_of_their_range() -> None:
    inputs = registry.get("dequantize_int8_per_row").inputs
    domain = next(one.domain for one in inputs if one.name == "scale")
    assert isinstance(domain, Positive)
    least = values("dequantize_int8_per_row", "domains at their least")["scale"]
    largest = values("dequantize_int8_per_row", "domains at their largest")["scale"]
    low, high = domain.low, domain.high
    assert float(least.min()) == pytest.approx(low)
    assert float(largest.max()) == pytest.approx(high)
    assert float(least.median()) < 10 * low < high / 10 < float(largest.median())


def test_indices_begin_and_end_as_counted_and_are_not() -> None:
    ids = values("embedding", "domains at their largest")["input_ids"].tolist()
    assert sorted(ids) == list(range(len(ids)))
    assert (ids[0], ids[-1]) == (0, len(ids) - 1)
    assert ids != sorted(ids)


@pytest.mark.parametrize("name", ["param", "grad", "momentum_buffer"])
def test_each_input_alone_is_zero(name: str) -> None:
    made = values("sgd_momentum_step", f"{name} zero")
    assert [key for key, value in made.items() if not bool(value.any())] == [name]


def test_rows_of_many_kinds_lie_side_by_side() -> None:
    rows = values("rmsnorm", "rows of many kinds")["x"].float()
    largest = rows.abs().amax(dim=-1)
    assert bool((largest[largest > 0] < 1e-8).any())  # dust
    assert bool((largest > 300).any())
    assert bool((rows.amax(dim=-1) < -10).any())
    assert bool(((rows != 0).sum(dim=-1) == 1).any())
    assert len(rows) >= len(PATCHES)


def test_some_rows_are_half_empty_and_some_are_sorted() -> None:
    rows = values("rmsnorm", "rows of many kinds")["x"].float()
    half = rows.shape[1] // 2
    early, late = (rows[:, :half] == 0).all(dim=1), (rows[:, -half:] == 0).all(dim=1)
    assert bool((early & ~late).any())
    assert bool((late & ~early).any())
    varied = rows.amax(dim=1) > rows.amin(dim=1)
    assert bool((varied & (rows.diff(dim=1) >= 0).all(dim=1)).any())


def test_rows_of_codes_have_a_structure_too() -> None:
    codes = values("dequantize_int8_per_row", "rows of many kinds of integers")["codes"].int()
    half = codes.shape[1] // 2
    early, late = (codes[:, :half] == 0).all(dim=1), (codes[:, half:] == 0).all(dim=1)
    assert bool((early & ~late).any())
    assert bool((late & ~early).any())
    steps = codes.diff(dim=1)
    assert bool(((steps >= 0).all(dim=1) & (steps > 0).any(dim=1)).any())
    assert bool((steps == 0).all(dim=1).any())
    assert bool(codes.abs().amin(dim=1).ge(120).any())


def test_two_scalars_lie_at_their_ends_together() -> None:
    problem = registry.get("sgd_momentum_step")
    planned = plan_cases(problem, "ends", profile=Profile.STANDARD, root_seed=5)
    cases = {case.label: case for case in planned}
    least = cases["every scalar at its least"].scalars
    assert least["momentum"] == least["weight_decay"] == 0.0
    largest = cases["every scalar at its largest"].scalars
    assert largest == {**largest, **at_declared_ends(problem, largest=True)}
    assert at_declared_ends(registry.get("embedding"), largest=False) == {}


def test_fewer_rows_than_kinds_have_the_others_in_the_next_case() -> None:
    problem = registry.get("sgd_momentum_step")
    cases = plan_cases(problem, "ends", profile=Profile.STANDARD, root_seed=5)
    firsts = [
        fill.parameters["first"]
        for case in cases
        for fill in case.fills.values()
        if fill.kind == "patchwork"
    ]
    assert len(set(firsts)) > 1


def test_massive_channels_are_the_same_in_all_rows() -> None:
    rows = values("rmsnorm", "massive channels")["x"].float()
    large = (rows.abs() > 30).all(dim=0)
    assert 1 <= int(large.sum()) <= rows.shape[1] // 16


def test_a_profile_has_no_more_than_its_budget() -> None:
    for name in registry.names():
        quick = plan_cases(registry.get(name), "ends", profile=Profile.QUICK, root_seed=1)
        assert len(quick) <= 10
        assert len({case.label for case in quick}) == len(quick)


def test_ids_fall_from_each_to_the_next() -> None:
    ids = values("embedding", "falling indices")["input_ids"].reshape(-1)
    assert bool((ids.diff() < 0).all())


def test_rows_of_one_input_are_made_of_those_of_another() -> None:
    made = values("swiglu", "inputs that depend on one another")
    gate, up = made["gate"].float(), made["up"].float()
    assert bool((gate == up).all(dim=1).any())
    assert bool((gate == -up).all(dim=1).any())
    assert bool(((gate * up - 1.0).abs() < 0.02).float().mean(dim=1).gt(0.9).any())


def test_a_vector_is_made_of_another_as_a_whole() -> None:
    labels = ("inputs that depend on one another",)
    seen = set()
    for seed in range(6):
        problem = registry.get("sgd_momentum_step")
        cases = plan_cases(problem, "ends", profile=Profile.QUICK, root_seed=seed)
        (case,) = [one for one in cases if one.label in labels]
        made = materialise(problem, case, device=CPU)
        param, grad, buffer = (made[n] for n in ("param", "grad", "momentum_buffer"))
        assert isinstance(param, torch.Tensor)
        assert isinstance(grad, torch.Tensor)
        assert isinstance(buffer, torch.Tensor)
        seen |= {torch.equal(param, grad), torch.equal(param, buffer)}
    assert seen == {True, False}
