"""Sums of 16 bits that are rounded after each term, as a GPU's atomics round them."""

from __future__ import annotations

import pytest
import torch

from cuassay.hooks import Observed
from cuassay.oracle.truth.atomics import ByAtomics


def _by_atomics(run: object) -> torch.Tensor:
    with Observed(ByAtomics()):
        found = run()  # type: ignore[operator]
    assert isinstance(found, torch.Tensor)
    return found


def test_a_sum_of_ones_stops_where_the_type_ends() -> None:
    ones, zeros = torch.ones(300, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.bfloat16)
    index = torch.zeros(300, dtype=torch.int64)
    assert _by_atomics(lambda: zeros.index_add(0, index, ones)).tolist() == [256.0, 0.0]
    assert _by_atomics(lambda: zeros.scatter_add(0, index, ones)).tolist() == [256.0, 0.0]
    # float32 is left to torch, which does not stop.
    wide = _by_atomics(lambda: zeros.float().index_add(0, index, ones.float()))
    assert wide.tolist() == [300.0, 0.0]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_every_term_goes_to_its_place(dim: int) -> None:
    generator = torch.Generator().manual_seed(5)
    out = torch.zeros(4, 6, dtype=torch.float16)
    # Whole numbers: no rounding, so that the order does not matter.
    source = torch.randint(-8, 8, (3, 5), generator=generator).half()
    index = torch.randint(0, 4, (3, 5), generator=generator)
    expected = out.float().scatter_add(dim, index, source.float())
    assert torch.equal(_by_atomics(lambda: out.scatter_add(dim, index, source)).float(), expected)
    rows = torch.tensor([1, 1, 3])
    terms = torch.randint(-8, 8, (3, 6) if dim == 0 else (4, 3), generator=generator).half()
    expected = out.float().index_add(dim, rows, terms.float(), alpha=2)
    found = _by_atomics(lambda: out.index_add(dim, rows, terms, alpha=2))
    assert torch.equal(found.float(), expected)


def test_in_place_sums_write_where_they_should_and_others_are_left_alone() -> None:
    out, index = torch.zeros(2, dtype=torch.float16), torch.tensor([0, 0])
    source = torch.tensor([1.0, 3.0], dtype=torch.float16)
    assert _by_atomics(lambda: out.index_add_(0, index, source)) is out
    assert out.tolist() == [4.0, 0.0]
    largest = _by_atomics(lambda: out.scatter_reduce(0, index, source, "amax"))
    assert largest.tolist() == [4.0, 0.0]
    empty = torch.empty(0, dtype=torch.int64)
    assert _by_atomics(lambda: out.index_add(0, empty, out[:0])).tolist() == [4.0, 0.0]
