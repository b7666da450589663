"""Where one column has most of the noise, its luck in few draws does not set a row's scale."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.oracle.truth import scale as trust_scale

_ROWS, _COLUMNS = 8192, 128


def _drawn(true: Tensor, *, draws: int) -> Tensor:
    """Return the mean square of a few draws of these variances."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(draws, *true.shape, generator=generator, dtype=torch.float64)
    return noise.square().mean(0) * true


def _variances() -> Tensor:
    """Rows of noise from 0.1 to 10, and one column with a hundred times the others'."""
    rows = torch.logspace(-1, 1, _ROWS, dtype=torch.float64).square().unsqueeze(1)
    columns = torch.ones(_COLUMNS, dtype=torch.float64)
    columns[17] = 100.0**2
    return rows * columns


@pytest.mark.parametrize("draws", [2, 3, 4])
def test_no_element_of_the_loud_column_is_thought_quiet(draws: int) -> None:
    true = _variances()
    found = trust_scale.pooled_variance(_drawn(true, draws=draws), draws)
    ratio = (found / true)[:, 17]
    assert float(ratio.min()) > 0.4
    assert float(ratio.max()) < 12.0


def test_what_has_one_rank_keeps_its_size() -> None:
    true = _variances()
    true[:, 17] = true[:, 16]
    found = trust_scale.pooled_variance(_drawn(true, draws=4), 4)
    assert 0.9 < float((found / true).mean()) < 1.15


def test_a_column_with_noise_in_one_row_raises_that_row_alone_and_little() -> None:
    true = torch.ones(_ROWS, _COLUMNS, dtype=torch.float64)
    true[:, 5] = 1e-12
    true[77, 5] = 1.0
    found = trust_scale.pooled_variance(true.clone(), 2)
    others = [column for column in range(_COLUMNS) if column != 5]
    assert 0.9 < float(found[:77, others].min()) <= float(found[:77, others].max()) < 1.1
    assert float(found[77, others].max()) < (1 + _ROWS**0.5 / _COLUMNS) ** 2 * 1.1


def test_columns_and_rows_without_noise_stay_without() -> None:
    true = _variances()
    true[:, 40] = 0.0
    true[9] = 0.0
    found = trust_scale.pooled_variance(true.clone(), 8)
    assert bool((found[:, 40] == 0).all())
    assert bool((found[9] == 0).all())
    assert bool(torch.isfinite(found).all())
