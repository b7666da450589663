"""What is read of a tensor is its memory, whatever a candidate set on it."""

from __future__ import annotations

import torch

from cuassay.sandbox.guest.items import plain_tensor, unshadowed


def _lazy() -> torch.Tensor:
    made = torch.zeros(3)
    for name in ("detach", "clone", "cpu"):
        setattr(made, name, lambda: torch.ones(3))
    return made


def test_a_tensor_is_read_from_its_memory() -> None:
    assert plain_tensor(_lazy()).tolist() == [0, 0, 0]


def test_methods_set_on_a_tensor_are_taken_from_it_and_other_attributes_stay() -> None:
    made = _lazy()
    vars(made)["main_grad"] = 3
    unshadowed(made)
    assert made.clone().tolist() == made.detach().tolist() == [0, 0, 0]
    assert vars(made) == {"main_grad": 3}
