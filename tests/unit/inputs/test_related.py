"""Inputs that are made of others: each relation in turn, within the domain."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.catalog import registry
from cuassay.inputs.related import RELATIONS, relate, related
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Real
from cuassay.model.problem import TensorSpec

OTHER = torch.tensor([[3.0, -2.0, 0.0, 0.5]]).repeat(5, 1)
OWN = torch.tensor([[10.0, 30.0, 20.0, 40.0]]).repeat(5, 1)


@pytest.mark.parametrize("first", range(5))
def test_the_relations_take_turns(first: int) -> None:
    expected = [
        [3.0, -2.0, 0.0, 0.5],
        [-3.0, 2.0, -0.0, -0.5],
        [1 / 3, -0.5, 64.0, 2.0],
        [40.0, 10.0, 20.0, 30.0],
        [10.0, 40.0, 30.0, 20.0],
    ]
    found = related(OWN, OTHER, first=first)
    assert len(expected) == len(RELATIONS)
    turned = torch.tensor(expected[first:] + expected[:first])
    assert torch.equal(found, turned)


def test_a_vector_is_one_row_and_keeps_its_dtype() -> None:
    found = related(OWN[0].bfloat16(), OTHER[0].half(), first=1)
    assert torch.equal(found, -OTHER[0].bfloat16())


def test_what_a_case_names_is_made_within_the_domain() -> None:
    problem = registry.get("swiglu")
    inputs = tuple(
        dataclasses.replace(spec, domain=Real(low=-1.0, high=1.0))
        if isinstance(spec, TensorSpec) and spec.name == "up"
        else spec
        for spec in problem.inputs
    )
    narrow = dataclasses.replace(problem, inputs=inputs)
    fills = {"up": Fill(kind="normal", parameters={"like": "gate", "like_first": 0.0})}
    case = Case(label="", axes={}, fills=fills)
    gate, up = OTHER.bfloat16(), OWN.bfloat16()
    made = relate(narrow, case, {"gate": gate, "up": up})
    assert set(made) == {"up"}
    assert torch.equal(made["up"][0], gate[0].clamp(-1.0, 1.0))
    assert relate(narrow, case, {"gate": gate[:, :2], "up": up}) == {}


def test_pairs_of_4_bit_numbers_are_equal_to_the_other_input() -> None:
    codes = torch.arange(12, dtype=torch.uint8).reshape(2, 6)
    own, other = (one.view(torch.float4_e2m1fn_x2) for one in (codes.flip(0).contiguous(), codes))
    for first in range(len(RELATIONS)):
        found = related(own, other, first=first)
        assert torch.equal(found.view(torch.uint8), codes)
        assert found.data_ptr() != other.data_ptr()
