"""Copies of inputs: strides, overlaps and shared memory stay, and the caller's are not written."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import LiftError
from cuassay.oracle.lift import inputs
from cuassay.oracle.lift.inputs import copied, is_borrowed


def test_views_of_one_memory_stay_views_of_one_memory() -> None:
    whole = torch.arange(12.0)
    left, right, other = whole[:8], whole[4:].view(2, 4).t(), torch.zeros(3)
    first, second, third, number = copied([left, right, other, 5])
    assert number == 5
    assert second.stride() == right.stride()
    first[4] = 100.0
    assert float(second[0, 0]) == 100.0
    assert float(whole[4]) == 4.0
    assert third.data_ptr() != other.data_ptr()


def test_an_expanded_input_stays_expanded_and_an_empty_one_empty() -> None:
    expanded = torch.tensor([[3.0], [4.0]]).expand(2, 5)
    empty = torch.empty(0, 3)
    made, none = copied([expanded, empty])
    assert made.stride() == (1, 0)
    assert torch.equal(made, expanded)
    assert none.shape == (0, 3)


def test_a_leaf_stays_a_leaf_and_nested_inputs_are_copied() -> None:
    leaf = torch.ones(2, requires_grad=True)
    (again,) = copied([[leaf]])[0]
    assert again.requires_grad
    assert again.is_leaf
    assert again is not leaf


def test_conjugated_memory_is_copied_as_its_values() -> None:
    values = torch.tensor([1 + 2j]).conj()
    (made,) = copied([values])
    assert complex(made[0]) == 1 - 2j


def test_tensors_without_strides_are_refused() -> None:
    with pytest.raises(LiftError, match="sparse_coo tensors are not lifted"):
        copied([torch.eye(2).to_sparse()])


def test_only_large_real_numbers_are_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BORROWED_ELEMENTS", 8)
    assert is_borrowed(torch.ones(8))
    for small in (torch.ones(7), torch.ones(8, dtype=torch.int64), torch.ones(8) * 1j):
        assert not is_borrowed(small)
