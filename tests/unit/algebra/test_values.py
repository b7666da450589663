"""Residues follow arithmetic: what residues give is the residue of what the numbers give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("numba")

from cuassay.algebra import values
from ptxsan.numerics.residues import NONE
from ptxsan.runtime.algebra import ADD, DIV, MUL, SUB


def _whole(*shape: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-999, 999, shape, generator=draw).double()


@pytest.mark.parametrize(
    ("operation", "op"),
    [(ADD, torch.add), (SUB, torch.sub), (MUL, torch.mul)],
    ids=["add", "subtract", "multiply"],
)
def test_arithmetic_on_residues_is_that_of_the_numbers(operation: int, op: object) -> None:
    a, b = _whole(6, 5, seed=1), _whole(5, seed=2)
    found = values.combine(operation, values.constants(a), values.constants(b))
    assert callable(op)
    assert torch.equal(found, values.constants(op(a, b)))
    other = _whole(6, 5, seed=3)
    assert not torch.equal(found, values.constants(op(other, b)))


def test_a_quotient_times_its_divisor_is_the_number() -> None:
    a, b = _whole(50, seed=1), _whole(50, seed=2).clamp(min=1)
    quotient = values.combine(DIV, values.constants(a), values.constants(b))
    assert torch.equal(values.combine(MUL, quotient, values.constants(b)), values.constants(a))


def test_sums_and_matrix_products_are_exact() -> None:
    a, b = _whole(7, 40, seed=1), _whole(40, 3, seed=2)
    summed = values.linear(values.constants(a), lambda x: x.sum(-1), a.sum(-1))
    assert torch.equal(summed, values.constants(a.sum(-1)))
    product = values.bilinear(values.constants(a), values.constants(b), torch.matmul, a @ b)
    assert torch.equal(product, values.constants(a @ b))


def test_running_products_and_signs() -> None:
    a = torch.tensor([[2.0, 3.0, -1.0], [1.0, 5.0, 2.0]]).double()
    found = values.running_products(values.constants(a), 1)
    assert torch.equal(found, values.constants(a.cumprod(1)))
    assert torch.equal(values.negate(values.constants(a)), values.constants(-a))


def test_what_is_not_finite_has_no_residue_and_spoils_what_it_is_added_to() -> None:
    a = torch.tensor([1.0, float("inf"), float("nan")]).double()
    slots = values.constants(a)
    assert (slots == NONE).tolist() == [False, True, True]
    total = values.linear(slots, lambda x: x.sum().reshape(1), a.sum().reshape(1))
    assert total.tolist() == [NONE]
