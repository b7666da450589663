"""Roundings to narrow grids, masks' constants, and rows of zeros."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.truth.random_errors import (
    BFLOAT16,
    FLOAT16,
    SENTINEL,
    TF32,
    Grid,
    Noise,
    moderate,
    nearest,
    on_live_rows,
    scarce_rows,
)
from tests.support.oracle_cases import normal


@pytest.mark.parametrize(
    ("grid", "dtype"), [(BFLOAT16, torch.bfloat16), (FLOAT16, torch.float16)], ids=str
)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_a_value_is_rounded_as_torch_casts_it(grid: Grid, dtype: torch.dtype, size: float) -> None:
    values = normal(4096, seed=2) * size
    assert torch.equal(nearest(values, grid), values.to(dtype).float())


def test_ties_go_to_even_and_tf32_keeps_ten_bits_of_a_fraction() -> None:
    one = 2.0**-10
    given = torch.tensor([1.0 + one / 2, 1.0 + 3 * one / 2, 1.0 + one / 2 + 2.0**-20])
    assert nearest(given, TF32).tolist() == [1.0, 1.0 + 2 * one, 1.0 + one]


def test_numbers_that_are_no_values_are_not_rounded() -> None:
    given = torch.tensor([float("inf"), -float("inf"), 3.0000001e30])
    assert torch.equal(nearest(given, BFLOAT16), given)
    assert bool(torch.isnan(nearest(torch.tensor([float("nan")]), BFLOAT16)).all())


def test_masks_constants_carry_no_error() -> None:
    given = torch.tensor([1.0, -2.0, -SENTINEL, float("inf"), torch.finfo(torch.float32).min])
    assert moderate(given).tolist() == [1.0, -2.0, 0.0, 0.0, 0.0]
    plain = torch.tensor([1.0, -2.0])
    assert moderate(plain) is plain  # nothing is copied where there is nothing to mask


def test_few_rows_that_hold_anything_are_found_and_changed_alone() -> None:
    gradient = torch.zeros(4096, 16)
    gradient[[7, 99]] = 1.0
    rows = scarce_rows(gradient)
    assert rows is not None
    assert rows.tolist() == [7, 99]
    seen: list[int] = []

    def double(values: torch.Tensor) -> torch.Tensor:
        seen.append(len(values))
        return values * 2

    assert torch.equal(on_live_rows(double, gradient, gradient), gradient * 2)
    assert seen == [2]
    assert scarce_rows(torch.ones(4096, 16)) is None
    assert scarce_rows(gradient[:10]) is None  # too small to pay


def test_a_row_of_nan_is_no_row_of_zeros() -> None:
    gradient = torch.zeros(4096, 16)
    gradient[5, 3] = float("nan")
    rows = scarce_rows(gradient)
    assert rows is not None
    assert rows.tolist() == [5]


def test_errors_follow_from_the_seed_and_have_their_size() -> None:
    device, values = torch.device("cpu"), torch.ones(20_000, dtype=torch.float64)

    def drawn(seed: int) -> torch.Tensor:
        return Noise(seed, 2.0**-24, device).normal(values.shape, device).clone()

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert abs(float(drawn(1).std()) - 1.0) < 0.05
    assert abs(float(drawn(1).mean())) < 0.05
