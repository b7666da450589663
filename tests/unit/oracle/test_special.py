"""Classes, spacings, flush and overflow of special values."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.model.dtype import DType
from cuassay.oracle import special

_FLOATS = (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)


def test_classes_tell_nan_and_the_infinities_apart() -> None:
    values = torch.tensor([0.0, math.nan, math.inf, -math.inf])
    assert special.classes(values).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", _FLOATS)
def test_half_spacing_is_half_the_distance_to_the_next_number(dtype: DType) -> None:
    native = special.torch_dtype(dtype)
    values = torch.tensor([1.0, 1.5, 3.0, 100.0, 1e-3], dtype=native)
    above = torch.nextafter(values.float(), torch.tensor(1e9)) if dtype is DType.FLOAT32 else None
    half = special.half_spacing(values.double(), dtype)
    if above is not None:
        assert torch.equal(half, (above - values) / 2)
        return
    bits = values.view(torch.int16) + 1
    assert torch.equal(half, (bits.view(native).float() - values.float()) / 2)


def test_half_spacing_of_float64_and_of_zero() -> None:
    assert special.half_spacing(torch.tensor([1.0], dtype=torch.float64), DType.FLOAT64) == 2**-53
    assert special.half_spacing(torch.zeros(1).double(), DType.FLOAT16).item() == 2.0**-25


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [(DType.FLOAT32, 2.0**-126), (DType.BFLOAT16, 2.0**-126), (DType.FLOAT16, 2.0**-24)],
)
def test_flush_threshold(dtype: DType, allowed: float) -> None:
    assert special.flush_threshold(dtype) == allowed


def test_truth_beyond_the_range_becomes_infinity_and_close_to_it_the_maximum() -> None:
    top = 65504.0
    value = torch.tensor([1.0, top + 1.0, -(top + 1e4), 1e9], dtype=torch.float64)
    settled = special.settle_overflow(value, torch.full((4,), 10.0), DType.FLOAT16)
    assert settled.tolist() == [1.0, top, -math.inf, math.inf]


def test_near_limit_accepts_infinity_only_close_to_the_maximum() -> None:
    value = torch.tensor([65504.0, 65000.0, 60000.0, math.nan], dtype=torch.float64)
    near = special.near_limit(value, torch.full((4,), 80.0), DType.FLOAT16)
    assert near.tolist() == [True, True, False, False]


def test_ordered_codes_step_by_one_across_zero() -> None:
    values = torch.tensor([-0.001953125, -0.0, 0.0, 0.001953125]).to(torch.float8_e4m3fn)
    assert special.ordered_codes(values).tolist() == [-1, 0, 0, 1]
    assert special.ordered_codes(torch.tensor([-3, 2], dtype=torch.int8)).tolist() == [-3, 2]


def test_all_finite() -> None:
    assert special.all_finite(torch.tensor([1.0, -2.0]))
    assert special.all_finite(torch.empty(0))
    assert not special.all_finite(torch.tensor([1.0, math.nan]))
    assert not special.all_finite(torch.tensor([1.0, -math.inf]))
