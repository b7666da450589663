"""From runs of a reference to the truth of one output: exact values, flips, and what decides."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import ReferenceError_
from cuassay.model.dtype import DType
from cuassay.oracle.truth.outputs import collector, exact_values, finish
from tests.support.oracle_cases import normal, spec

_UNIT = 2.0**-24


def test_exact_outputs_are_compared_in_their_own_dtype() -> None:
    assert exact_values(torch.tensor([3.0]), DType.INT64).dtype is torch.int64
    codes = exact_values(torch.tensor([1.0, 0.3]), DType.FLOAT8_E4M3FN)
    assert codes.dtype is torch.float32
    assert codes.tolist() == [1.0, 0.3125]  # as the code says, not as it was computed


def test_an_element_that_some_draw_moves_is_ambiguous_and_the_others_are_not() -> None:
    found = collector(spec("int64", "n"), torch.arange(100), None, None)
    moved = torch.arange(100)
    moved[7] = 8
    for run in (torch.arange(100), moved):
        found.draw(run)
    truth = finish(found, roundoff=_UNIT, discontinuous=True)
    assert truth.ambiguous is not None
    assert truth.ambiguous.nonzero().tolist() == [[7]]
    assert truth.ambiguous_share == 0.01
    assert not truth.ill_conditioned


def test_an_output_of_which_much_flips_decides_nothing() -> None:
    found = collector(spec("int64", "n"), torch.arange(100), None, None)
    found.draw(torch.arange(100) + (torch.arange(100) < 6))
    truth = finish(found, roundoff=_UNIT, discontinuous=True)
    assert "6.0% of output 'y' flips" in truth.ill_conditioned


@pytest.mark.parametrize(("size", "decides"), [(1e-6, True), (0.5, False)])
def test_numbers_of_which_trusted_runs_know_little_decide_nothing(
    size: float, decides: bool
) -> None:
    value = normal(64, 64, seed=1).double()
    found = collector(spec("float32", "m", "n"), value, torch.float32, None)
    for seed in range(8):
        found.draw(value + normal(64, 64, seed=2 + seed).double() * size)
    found.trusted(value + normal(64, 64, seed=50).double() * size, as_written=True)
    truth = finish(found, roundoff=_UNIT, discontinuous=False)
    assert (truth.ill_conditioned == "") is decides
    assert truth.scale is not None
    assert float(truth.scale.mean()) > size / 10


def test_an_output_without_elements_has_a_shape_alone() -> None:
    found = collector(spec("float32", "m", "n"), torch.empty(0, 4), torch.float32, None)
    truth = finish(found, roundoff=_UNIT, discontinuous=False)
    assert truth.value.shape == (0, 4)
    assert truth.scale is None


def test_hit_counts_of_other_rows_are_the_references_mistake() -> None:
    with pytest.raises(ReferenceError_, match="hit counts of output 'y' have 3 rows, expected 4"):
        collector(spec("float32", "m", "n"), torch.zeros(4, 2), None, torch.zeros(3))
