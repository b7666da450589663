"""Memory of released inputs is used again at the same address, unless somebody holds it."""

from __future__ import annotations

import torch

from cuassay.model.device import CPU
from cuassay.model.scenario import Poison
from cuassay.sandbox.guest.memory.recycling import FreedMemory


def _inputs(*shape: int) -> tuple[dict[str, torch.Tensor], int]:
    tensors = {"x": torch.ones(shape)}
    return tensors, tensors["x"].data_ptr()


def test_the_next_input_of_as_many_bytes_gets_the_same_address() -> None:
    freed, (tensors, address) = FreedMemory(CPU), _inputs(64, 8)
    freed.release_inputs(tensors)
    assert not tensors
    again = freed.reuse(torch.empty(8, 64, device="meta"))
    assert again is not None
    assert again.data_ptr() == address
    assert again.shape == (8, 64)
    assert freed.reuse(torch.empty(8, 64, device="meta")) is None  # it is given out once


def test_an_input_of_other_bytes_gets_memory_of_its_own() -> None:
    freed, (tensors, _) = FreedMemory(CPU), _inputs(64)
    freed.release_inputs(tensors)
    assert freed.reuse(torch.empty(63, device="meta")) is None


def test_memory_that_a_kernel_holds_is_not_given_to_anybody() -> None:
    freed, (tensors, _) = FreedMemory(CPU), _inputs(64)
    held = tensors["x"]
    freed.release_inputs(tensors)
    assert freed.reuse(torch.empty(64, device="meta")) is None
    assert freed.poison(Poison.ONES) == (0, 0)
    assert torch.equal(held, torch.ones(64))


def test_memory_of_which_a_view_is_held_is_not_given_to_anybody() -> None:
    freed, (tensors, _) = FreedMemory(CPU), _inputs(64)
    held = tensors["x"][3:]
    freed.release_inputs(tensors)
    assert freed.reuse(torch.empty(64, device="meta")) is None
    assert torch.equal(held, torch.ones(61))


def test_freed_memory_is_poisoned_in_place() -> None:
    freed, (tensors, _) = FreedMemory(CPU), _inputs(64)
    freed.release_inputs(tensors)
    assert freed.poison(Poison.ONES) == (1, 1)
    again = freed.reuse(torch.empty(64, device="meta"))
    assert again is not None
    assert bool((again.view(torch.uint8) == 0xFF).all())


def test_the_memory_of_a_dropped_result_is_counted_once() -> None:
    freed = FreedMemory(CPU)
    freed.note(torch.ones(32))
    assert freed.poison(Poison.ONES)[1] == 1
    assert freed.poison(Poison.ONES)[1] == 0
