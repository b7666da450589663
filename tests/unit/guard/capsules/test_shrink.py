"""Failing calls made smaller: what stays still fails, and nothing points beyond what is left."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cuassay_guard.capsules.shrink import shrunk


def _bad_row(inputs: Sequence[Tensor]) -> bool:
    return bool((inputs[0] > 90).any())


def test_one_row_is_left_of_a_matrix_with_one_bad_row() -> None:
    x = torch.zeros(64, 16)
    x[41, 3] = 99.0
    found = shrunk([x], _bad_row)
    assert found.changed
    assert [tuple(one.shape) for one in found.inputs] == [(1, 1)]
    assert found.inputs[0].item() == 99.0
    assert x.shape == (64, 16)  # the given tensor stays


def test_equal_sizes_shrink_together() -> None:
    x, y = torch.rand(32, 8), torch.rand(32)

    def fails(inputs: Sequence[Tensor]) -> bool:
        return len(inputs[0]) == len(inputs[1])

    found = shrunk([x, y], fails)
    assert [tuple(one.shape) for one in found.inputs] == [(1, 1), (1,)]
    assert all(
        bool((one == 1).all()) for one in found.inputs
    )  # and ones where values do not matter


def test_an_index_never_points_beyond_what_is_left() -> None:
    table, ids = torch.rand(16, 4), torch.tensor([15, 0, 3])

    def fails(inputs: Sequence[Tensor]) -> bool:
        assert int(inputs[1].max()) < len(inputs[0])
        return bool((inputs[1] == 15).any())

    found = shrunk([table, ids], fails)
    assert found.inputs[0].shape[0] == 16
    assert found.inputs[1].tolist() == [15]


def test_what_fails_as_a_whole_alone_stays_as_it_is() -> None:
    x = torch.rand(8, 8)
    found = shrunk(
        [x], lambda inputs: inputs[0].shape == (8, 8) and not bool((inputs[0] == 1).all())
    )
    assert not found.changed
    assert torch.equal(found.inputs[0], x)
    assert 0 < found.tries <= 200


def test_a_search_ends_after_a_number_of_tries() -> None:
    tried = []

    def fails(inputs: Sequence[Tensor]) -> bool:
        tried.append(inputs[0].numel())
        return len(tried) % 2 == 0 and inputs[0].numel() > 1

    found = shrunk([torch.rand(1 << 12, 3)] * 3, fails)
    assert found.tries == len(tried) <= 200
