"""Sums of errors over rows and columns: chunks cover all, and no special value leaks into them."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.model.dtype import DType
from cuassay.oracle.compare.sums import (
    CLIP_Z,
    MISMATCH,
    chunks,
    deviation,
    eager_sums,
    fold,
    matrix_shape,
    mismatched,
    scores,
)
from cuassay.oracle.truth.types import OutputTruth

NAN, INF = math.nan, math.inf


def _output(least: float = 0.0, dtype: DType = DType.FLOAT32) -> OutputTruth:
    value = torch.zeros(1, dtype=torch.float64)
    return OutputTruth(name="y", dtype=dtype, value=value, scale=None, least=least)


@pytest.mark.parametrize("budget", [1, 7, 64, 10_000])
@pytest.mark.parametrize("step", [1, 4])
def test_chunks_cover_a_matrix_once_and_cut_columns_at_steps(budget: int, step: int) -> None:
    seen = torch.zeros(9, 10, dtype=torch.int64)
    for rows, columns in chunks(9, 10, budget=budget, step=step):
        assert columns.start % step == 0
        seen[rows, columns] += 1
    assert bool((seen == 1).all())


def test_a_vector_is_one_row_or_many() -> None:
    assert matrix_shape((6,), by_row=False) == (1, 6)
    assert matrix_shape((6,), by_row=True) == (6, 1)
    assert matrix_shape((), by_row=False) == (1, 1)
    assert matrix_shape((2, 3, 4), by_row=True) == (6, 4)


def test_only_kept_rows_add_and_stay_where_they_are() -> None:
    values = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
    kept = torch.tensor([1, 3])

    def measure(r: slice, c: slice) -> list[torch.Tensor]:
        return [values[kept][r, c][None]]

    rows, columns = fold((4, 3), measure, 1, device=values.device, kept=kept)
    assert rows.tolist() == [[0.0, 12.0, 0.0, 30.0]]
    assert columns.tolist() == [[12.0, 14.0, 16.0]]


def test_an_error_of_no_number_is_none_and_what_flushes_is_free() -> None:
    candidate = torch.tensor([NAN, INF, 1e-39, 2.0])
    truth = torch.tensor([1.0, INF, 0.0, 1.5], dtype=torch.float64)
    assert deviation(candidate, truth, _output()).tolist() == [0.0, 0.0, 0.0, 0.5]
    half = deviation(candidate[2:], truth[2:], _output(dtype=DType.FLOAT16))
    assert half.tolist() == [0.0, 0.5]


def test_an_exact_answer_that_is_missed_scores_infinity() -> None:
    candidate = torch.tensor([1.0, 1.0, 2.0])
    truth = torch.tensor([1.0, 0.5, 1.0], dtype=torch.float64)
    scale = torch.tensor([0.0, 0.0, 0.25])
    assert scores((candidate, truth, scale), _output()).tolist() == [0.0, INF, 4.0]


def test_classes_that_differ_are_mismatched_but_near_the_end_of_the_range() -> None:
    largest = torch.finfo(torch.float32).max
    candidate = torch.tensor([1.0, NAN, INF, -INF, INF, INF])
    truth = torch.tensor([NAN, NAN, INF, INF, largest, 1.0], dtype=torch.float64)
    scale = torch.full((6,), largest * 1e-6)
    found = mismatched((candidate, truth, scale), _output())
    assert found.tolist() == [True, False, False, True, False, True]


def test_the_quick_way_and_the_careful_way_agree() -> None:
    generator = torch.Generator().manual_seed(2)
    truth = torch.randn(6, 40, dtype=torch.float64, generator=generator)
    candidate = (truth + 1e-3 * torch.randn(6, 40, generator=generator)).float()
    scale = torch.full((6, 40), 1e-3)
    quick = eager_sums(candidate, truth, scale, _output(least=1e-3))
    careful = eager_sums(candidate, truth, scale, _output())
    assert (quick.plain, careful.plain) == (True, False)
    assert torch.allclose(quick.rows, careful.rows)
    assert torch.allclose(quick.columns, careful.columns)
    assert torch.allclose(quick.peak, careful.peak)


def test_one_wild_element_is_marked_and_does_not_decide_the_sums() -> None:
    truth, scale = torch.ones(2, 16, dtype=torch.float64), torch.full((2, 16), 1e-3)
    candidate = truth.float().clone()
    candidate[0, 3], candidate[1, 5] = NAN, 1e6
    found = eager_sums(candidate, truth, scale, _output())
    assert float(found.peak[0, 0]) == pytest.approx(MISMATCH, rel=1e-6)
    assert float(found.peak[1, 0]) == pytest.approx(1e9, rel=1e-3)
    assert bool(torch.isfinite(found.rows).all())
    assert float(found.rows[1, 1]) == CLIP_Z**2
