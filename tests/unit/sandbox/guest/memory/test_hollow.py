"""Tensors that have shapes and addresses and take no memory."""

from __future__ import annotations

import resource

import pytest
import torch

from cuassay.sandbox.guest.memory.hollow import NoDataError, hollow

_SHAPE = (4096, 1 << 18)  # 4 GiB of float32


def test_operators_give_shapes_and_take_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hollow(60.0) as mode:
        x = mode.tensor(_SHAPE, torch.float32)
        made = torch.zeros(_SHAPE)
        made.add_(x).mul_(2)
        y = torch.nn.functional.gelu(x + made).t().contiguous()
        small = torch.arange(3.0) + 1
        sums = y.sum(1)
        assert y.shape == (1 << 18, 4096)
        assert y.is_contiguous()
        assert len({one.data_ptr() for one in (x, made, y)}) == 3
        assert x[7:].data_ptr() == x.data_ptr() + 7 * x.stride(0) * 4
        assert small.tolist() == [1.0, 2.0, 3.0]
        assert sums.shape == (1 << 18,)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 1 << 20


@pytest.mark.parametrize("ask", ["sum", "small"])
def test_a_number_out_of_a_hollow_tensor_ends_the_call(ask: str) -> None:
    with hollow(60.0) as mode:
        x = mode.tensor(_SHAPE, torch.float32)
        number = x.sum() if ask == "sum" else x[0, 3]
        with pytest.raises(NoDataError):
            number.item()
    assert mode.ended


def test_a_call_has_an_end() -> None:
    with hollow(0.0), pytest.raises(NoDataError):
        torch.zeros(3)
