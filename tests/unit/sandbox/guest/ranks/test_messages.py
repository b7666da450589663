"""What goes between ranks keeps values, dtypes and shapes, and leaves the sender's memory alone."""

from __future__ import annotations

import pickle

import pytest
import torch

from cuassay.sandbox.guest.ranks.messages import Packed, pack, unpack


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6, dtype=torch.float32).reshape(2, 3),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor(7, dtype=torch.int64),
        torch.empty(0, 4),
    ],
    ids=["float32", "bfloat16", "bool", "a number", "empty"],
)
def test_a_tensor_comes_back_as_it_was(tensor: torch.Tensor) -> None:
    back = unpack(pickle.loads(pickle.dumps(pack(tensor))))
    assert isinstance(back, torch.Tensor)
    assert back.dtype is tensor.dtype
    assert back.shape == tensor.shape
    assert torch.equal(back, tensor)


def test_a_transposed_tensor_is_sent_in_the_order_of_its_elements() -> None:
    across = torch.arange(6.0).reshape(2, 3).t()
    back = unpack(pack(across))  # type: ignore[arg-type]
    assert isinstance(back, torch.Tensor)
    assert back.is_contiguous()
    assert torch.equal(back, across)


def test_what_is_unpacked_shares_no_memory_with_the_message() -> None:
    sent = pack(torch.zeros(3))
    assert isinstance(sent, Packed)
    first = unpack(sent)
    assert isinstance(first, torch.Tensor)
    first.fill_(1.0)
    assert torch.equal(torch.as_tensor(unpack(sent)), torch.zeros(3))


def test_numbers_are_sent_as_they_are_and_other_objects_as_the_names_of_their_types() -> None:
    assert unpack(pack(2.5)) == 2.5  # type: ignore[arg-type]
    assert pack(True) is True
    assert pack(object()) == "object"
    assert pack(None) == "NoneType"
