"""How far a law is from holding: what does not count, and where it is worst."""

from __future__ import annotations

import dataclasses
import math

import torch

from cuassay.checks.numeric.relation_laws import Law, Term
from cuassay.checks.numeric.relation_residual import holds_exactly, residual
from cuassay.model.dtype import DType
from cuassay.oracle.truth.types import OutputTruth

_EQUAL = Law(output=0, terms=(Term(member=1), Term(member=0, coefficient=-1.0)))


def _truths(value: torch.Tensor, scale: float = 1e-6) -> dict[int, OutputTruth]:
    one = OutputTruth(
        name="y", dtype=DType.FLOAT32, value=value.double(), scale=torch.full(value.shape, scale)
    )
    return {0: one, 1: one}


def test_the_worst_element_is_where_the_answers_differ_most() -> None:
    value = torch.ones(4, 8)
    other = value.clone()
    other[2, 5] += 1e-3
    found = residual(_EQUAL, {0: value, 1: other}, _truths(value))
    assert found is not None
    assert found.index == (2, 5)
    # Two answers of 1e-6 each, in quadrature.
    assert math.isclose(found.peak, 1e-3 / (1e-6 * math.sqrt(2)), rel_tol=1e-3)
    assert found.energy > 100


def test_elements_that_are_not_finite_or_ambiguous_do_not_count() -> None:
    value = torch.ones(4, 8)
    other = value.clone()
    other[0, 0] = math.nan
    found = residual(_EQUAL, {0: value, 1: other}, _truths(value))
    assert found is None  # the others are equal
    truths = _truths(value)
    assert truths[0].scale is not None
    scale = truths[0].scale.clone()
    scale[1, 1] = -1e-6
    truths[0] = dataclasses.replace(truths[0], scale=scale)
    other = value.clone()
    other[1, 1] += 5
    assert residual(_EQUAL, {0: value, 1: other}, truths) is None


def test_exact_answers_have_no_residual_and_equal_ones_none_either() -> None:
    value = torch.ones(3)
    exact = OutputTruth(name="y", dtype=DType.INT32, value=value.int(), scale=None)
    assert residual(_EQUAL, {0: value, 1: value}, {0: exact, 1: exact}) is None
    assert residual(_EQUAL, {0: value, 1: value}, _truths(value)) is None


def test_float64_answers_hold_to_their_own_rounding() -> None:
    base = torch.linspace(1.0, 2.0, 50, dtype=torch.float64)
    assert holds_exactly(_EQUAL, [[base], [base * (1 + 1e-12)]])
    assert not holds_exactly(_EQUAL, [[base], [base * (1 + 1e-6)]])
    assert not holds_exactly(_EQUAL, [[base], [base[:-1]]])
    assert not holds_exactly(_EQUAL, [[base], [base * math.inf]])
