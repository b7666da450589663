"""What is read of a tensor is its memory, whatever a candidate set on it."""

from __future__ import annotations

import gc
import weakref

import torch

from cuassay.model.trace import ResultItem
from cuassay.sandbox.guest.items import (
    address,
    describe,
    host_memory,
    plain_tensor,
    unshadowed,
    with_overlaps,
)


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


def _overlaps(*tensors: torch.Tensor) -> list[tuple[int, ...]]:
    described = [describe(one, name="", inputs={}) for one in tensors]
    return [one.overlaps for one in with_overlaps(described, [address(t) for t in tensors])]


def test_tensors_with_a_byte_in_common_are_told_from_slices_of_one_buffer() -> None:
    buffer = torch.zeros(4, 6)
    assert _overlaps(buffer[0], buffer[1]) == [(), ()]
    assert _overlaps(buffer[:, :3], buffer[:, 3:]) == [(), ()]  # rows between one another's
    assert _overlaps(buffer[:, :3], buffer[:, 2:]) == [(1,), (0,)]
    assert _overlaps(buffer, buffer.view(-1), torch.zeros(2)) == [(1,), (0,), ()]
    assert _overlaps(buffer[1:2].expand(9, 6), buffer[1]) == [(1,), (0,)]
    assert _overlaps(buffer[:0], buffer) == [(), ()]


def test_overlaps_of_huge_claims_are_left_undecided() -> None:
    one = ResultItem(
        kind="tensor", type_name="", dtype="float32", shape=(1 << 30, 2), strides=(1, 1)
    )
    assert [item.overlaps for item in with_overlaps([one, one], [64, 68])] == [(), ()]


def test_the_bytes_of_a_copy_live_as_long_as_the_view_of_them() -> None:
    tensor = torch.arange(1000, dtype=torch.float32)
    alive, view = weakref.ref(tensor), host_memory(tensor)
    expected = bytes(view)
    del tensor
    gc.collect()
    assert alive() is not None
    assert bytes(view) == expected
    del view
    gc.collect()
    assert alive() is None
