"""Upstream gradients: the same values in every layout, and NaN where no element lies."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.model.steps import Upstream
from cuassay.sandbox.upstream import drawn, laid_out

_LAID_OUT = [kind for kind in Upstream if kind is not Upstream.ONES]


def test_a_gradient_is_drawn_by_seed_and_number() -> None:
    def one(seed: int, number: int) -> torch.Tensor:
        return drawn(Upstream.CONTIGUOUS, (4, 5), torch.bfloat16, seed=seed, number=number)

    assert torch.equal(one(7, 0), one(7, 0))
    assert not torch.equal(one(7, 0), one(7, 1))
    assert not torch.equal(one(7, 0), one(9, 0))
    assert one(7, 0).dtype is torch.bfloat16
    assert one(2**63 - 1, 5).shape == (4, 5)  # a sum beyond 63 bits is a seed as well
    ones = drawn(Upstream.ONES, (2,), torch.float32, seed=1, number=0)
    assert ones.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", _LAID_OUT)
@pytest.mark.parametrize("shape", [(3, 4, 5), (6,), (), (0, 3)])
def test_a_layout_changes_no_value(kind: Upstream, shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    found = laid_out(kind, values)
    assert found.data_ptr() != values.data_ptr() or not values.numel()
    assert torch.equal(found, values)


def test_each_layout_is_the_one_that_its_name_says() -> None:
    values = torch.randn(3, 4)
    ones = laid_out(Upstream.ONES, torch.ones(3, 4))
    assert (ones.stride(), ones.sum().item()) == ((0, 0), 12.0)
    assert laid_out(Upstream.TRANSPOSED, values).stride() == (1, 3)
    sliced = laid_out(Upstream.SLICED, values)
    assert sliced.stride() == (9, 1)
    whole = sliced.as_strided((3, 9), (9, 1), 0)
    assert int(whole.isnan().sum()) == whole.numel() - values.numel()
    column = laid_out(Upstream.SLICED, values[0])
    assert column.stride() == (2,)
    assert math.isnan(column.as_strided((8,), (1,), 0)[0])
