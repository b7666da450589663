"""Cases become tensors: order, independent seeds, one input moved alone, generators."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
import torch

from cuassay.catalog import registry
from cuassay.errors import ReferenceError_
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.case import GENERATED, Case, Fill
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile
from cuassay.oracle.bits import raw_bytes

NORM = registry.get("rmsnorm")
CASE = Case(label="x", axes={"rows": 5, "hidden": 7}, seed=3)


def test_values_come_in_the_order_of_the_inputs_with_defaults() -> None:
    values = materialise(NORM, CASE, device=CPU)
    assert list(values) == ["x", "weight", "eps"]
    x, weight = values["x"], values["weight"]
    assert isinstance(x, torch.Tensor)
    assert isinstance(weight, torch.Tensor)
    assert x.shape == (5, 7)
    assert x.dtype == weight.dtype == torch.bfloat16
    assert values["eps"] == 1e-6


def test_arguments_change_exactly_one_input() -> None:
    for name in registry.names():
        problem = registry.get(name)
        cases = plan_cases(problem, "arguments", profile=Profile.QUICK, root_seed=4)
        for base, moved in zip(cases[0::2], cases[1::2], strict=True):
            before = materialise(problem, base, device=CPU)
            after = materialise(problem, moved, device=CPU)
            changed = [key for key in before if not _same(before[key], after[key])]
            assert changed == [moved.label.removesuffix(" moved")]


def _same(left: object, right: object) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.equal(raw_bytes(left), raw_bytes(right))  # 4-bit floats compare so alone
    return left == right


def _made(arguments: Mapping[str, int], device: torch.device) -> dict[str, object]:
    rows, hidden = arguments["rows"], arguments["hidden"]
    x = torch.randn(rows, hidden, device=device).bfloat16()
    return {"x": x, "weight": torch.ones(hidden, device=device).bfloat16(), "eps": 1e-5}


def test_the_problems_generator_runs_under_the_cases_seed() -> None:
    case = dataclasses.replace(CASE, generator=True)
    torch.manual_seed(77)
    expected = torch.rand(3)
    torch.manual_seed(77)
    first = materialise(NORM, case, device=CPU, generator=_made)
    assert torch.equal(torch.rand(3), expected), "global random state must be restored"
    again = materialise(NORM, case, device=CPU, generator=_made)
    assert all(_same(first[key], again[key]) for key in first)
    other = materialise(NORM, dataclasses.replace(case, seed=4), device=CPU, generator=_made)
    assert not _same(first["x"], other["x"])
    assert first["eps"] == 1e-5


def test_slices_of_what_the_generator_made_are_slices_of_the_whole() -> None:
    whole = dataclasses.replace(CASE, generator=True)
    taken = Fill(kind=GENERATED, parameters={"take": (4, 0), "take_axis": "rows", "take_of": 5})
    few = dataclasses.replace(whole, axes={"rows": 2, "hidden": 7}, fills={"x": taken})
    all_of, two = (materialise(NORM, case, device=CPU, generator=_made) for case in (whole, few))
    x, some = all_of["x"], two["x"]
    assert isinstance(x, torch.Tensor)
    assert isinstance(some, torch.Tensor)
    assert torch.equal(some, x[[4, 0]])
    assert _same(all_of["weight"], two["weight"])


def test_fills_and_scalars_replace_what_the_generator_made() -> None:
    case = dataclasses.replace(
        CASE, generator=True, fills={"weight": Fill(kind="zeros")}, scalars={"eps": 1e-4}
    )
    values = materialise(NORM, case, device=CPU, generator=_made)
    weight = values["weight"]
    assert isinstance(weight, torch.Tensor)
    assert not weight.any()
    assert values["eps"] == 1e-4


def test_a_broken_generator_is_the_problems_fault() -> None:
    case = dataclasses.replace(CASE, generator=True)

    def raises(arguments: object, device: object) -> dict[str, object]:
        raise ValueError("no room")

    with pytest.raises(ReferenceError_, match="raised ValueError: no room"):
        materialise(NORM, case, device=CPU, generator=raises)
    foreign = dataclasses.replace(NORM, origin="sol")
    with pytest.raises(ReferenceError_, match="made no weight"):
        materialise(foreign, case, device=CPU, generator=lambda a, d: {"x": torch.ones(5, 7)})
    with pytest.raises(ReferenceError_, match="returned a list"):
        materialise(NORM, case, device=CPU, generator=lambda a, d: [])  # type: ignore[arg-type, return-value]
    with pytest.raises(ReferenceError_, match="a str for input 'x'"):
        materialise(NORM, case, device=CPU, generator=lambda a, d: {"x": "", "weight": ""})


def test_a_native_generator_may_leave_inputs_to_their_domains() -> None:
    case = dataclasses.replace(CASE, generator=True)
    values = materialise(NORM, case, device=CPU, generator=lambda a, d: {"x": torch.ones(5, 7)})
    plain = materialise(NORM, CASE, device=CPU)
    assert _same(values["weight"], plain["weight"])
    assert _same(values["x"], torch.ones(5, 7))
