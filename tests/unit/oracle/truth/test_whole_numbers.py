"""Places that a reference counts in floats are exact: no honest kernel moves one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare
from tests.support.oracle_cases import normal, truth_of


def positions(size: int, dtype: torch.dtype) -> Tensor:
    """Return how far each query is from each key, as the attention of vision models has it."""
    queries = torch.arange(size, dtype=dtype)[:, None] * max(size / size, 1.0)
    keys = torch.arange(size, dtype=dtype)[None, :] * 1.0
    return (queries - keys) + (size - 1) * 1.0


def looked_up(table: Tensor) -> Tensor:
    """Return the table's rows at the distances of queries and keys."""
    size = (len(table) + 1) // 2
    return table[positions(size, torch.float32).long()] * 1.5


def moved(table: Tensor) -> Tensor:
    """Return what `looked_up` does, with one distance that is one too small."""
    size = (len(table) + 1) // 2
    places = positions(size, torch.float32).long()
    places[1, 2] -= 1
    return table[places] * 1.5


def test_an_index_counted_in_floats_does_not_flip() -> None:
    table = normal(13, 16)
    truth = truth_of(looked_up, [table], "float32", "q", "k", "c")
    assert not truth.ill_conditioned
    assert truth.scale is not None
    assert float(truth.scale.max()) < 1e-5
    assert compare(looked_up(table), truth).passed
    assert compare(looked_up(table.double()).float(), truth).passed
    assert not compare(moved(table), truth).passed


def test_what_is_no_whole_number_still_errs() -> None:
    def scaled(table: Tensor) -> Tensor:
        size = (len(table) + 1) // 2
        return table[(positions(size, torch.float32) * 0.1 * 10).long()]

    truth = truth_of(scaled, [normal(13, 16)], "float32", "q", "k", "c")
    assert truth.ill_conditioned  # 0.1 * 10 rounds to 1 or to what is next to it


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_of_whole_numbers_beside_a_cast_pass_in_any_honest_form(dtype: str) -> None:
    number = normal(64, 8).mul(4).round().to(getattr(torch, dtype))

    def counted(x: Tensor) -> Tensor:
        return x + x.round() * 2 - x / 3

    truth = truth_of(counted, [number], dtype, "m", "n")
    other = (number.double() * 3 - number.double() * (1 / 3)).to(number.dtype)
    assert compare(counted(number), truth).passed
    assert compare(other, truth).passed
