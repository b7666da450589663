"""The bytes of a tensor, whatever its layout."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.bits import raw_bytes


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(10.0)[::2][:1],  # contiguous by torch's word, with a stride of 2
        torch.tensor([True, False]),
        torch.tensor(1.5, dtype=torch.bfloat16),
        torch.empty(0, 4),
        torch.ones(3, requires_grad=True),
    ],
)
def test_the_bytes_are_those_of_the_values_in_order(tensor: torch.Tensor) -> None:
    whole = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    expected = whole.flatten().view(torch.uint8)
    assert raw_bytes(tensor).equal(expected)
    assert raw_bytes(tensor).shape == (tensor.numel() * tensor.element_size(),)
