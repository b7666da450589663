"""What the lift reads of an operation's schema."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuassay.hooks import Operation
from cuassay.oracle.lift.traits import traits_of

aten: Any = torch.ops.aten


def test_an_operation_in_place_says_what_it_writes_and_what_it_is_without() -> None:
    found = traits_of(aten.add_.Tensor)
    assert found.written == ((0, "self"),)
    assert found.returned == ("self",)
    assert found.functional is aten.add.Tensor
    x = torch.zeros(2)
    assert found.targets(Operation(aten.add_.Tensor, (x, 1), {})) == [x]


def test_an_operation_with_out_writes_its_keyword() -> None:
    found = traits_of(aten.add.out)
    out = torch.zeros(2)
    assert found.functional is aten.add.Tensor
    assert found.targets(Operation(aten.add.out, (1, 2), {"out": out})) == [out]


def test_views_and_draws_are_known() -> None:
    assert traits_of(aten.t.default).view
    assert not traits_of(aten.add.Tensor).view
    assert traits_of(aten.t_.default).metadata
    assert traits_of(aten.rand_like.default).random
    assert traits_of(aten.native_dropout.default).random
    assert traits_of(aten.add.Tensor).functional is None


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (aten._scaled_dot_product_flash_attention.default, "fused attention"),
        (aten.set_.source_Tensor, "swaps the storage"),
        (aten._to_sparse.default, "sparse"),
        ("no operator", "higher-order"),
    ],
)
def test_what_cannot_be_lifted_is_refused_with_the_reason(op: Any, why: str) -> None:
    assert why in traits_of(op).refusal
    assert traits_of(aten.mm.default).refusal == ""
