"""What the machine keeps of torch's own operations: bytes of tensors, however they lie."""

from __future__ import annotations

import pytest
import torch

from cuassay.build.machine.operations import bytes_of

_PLAIN = torch.arange(12.0)


@pytest.mark.parametrize(
    "tensor",
    [
        _PLAIN.reshape(3, 4),
        _PLAIN.reshape(3, 4).t(),
        _PLAIN[::2][3:4].reshape(1, 1),  # counts as contiguous, and its last stride is 2
        _PLAIN[5],
        _PLAIN[:0],
        _PLAIN > 4.0,
    ],
    ids=["rows", "columns", "one-strided", "scalar", "empty", "bool"],
)
def test_bytes_are_the_elements_in_order(tensor: torch.Tensor) -> None:
    assert bytes_of(tensor) == tensor.numpy().tobytes()
