"""Arithmetic of narrow floats against exact rationals and against the types' own conversions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cuassay.build.interpreter import numerics
from cuassay.build.interpreter.numerics import BFLOAT16, E4M3, E5M2


def _drawn(count: int, seed: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def test_a_fused_multiply_add_is_the_exact_result_rounded_once() -> None:
    x, y = _drawn(2000, 1), _drawn(2000, 2)
    near = (-(x.astype(np.float64) * y)).astype(np.float32)  # cancels: what is left is the rounding
    for z in (_drawn(2000, 3), near):
        found = numerics.fma(x, y, z)
        for a, b, c, got in zip(x, y, z, found, strict=True):
            exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
            above, below = (np.nextafter(got, np.float32(way)) for way in (np.inf, -np.inf))
            steps = [got, above, below]
            errors = [abs(Fraction(float(one)) - exact) for one in steps]
            assert errors[0] == min(errors)


@pytest.mark.parametrize(("dtype", "most"), [(E4M3, 448.0), (E5M2, 57344.0)], ids=["e4m3", "e5m2"])
def test_casts_to_eight_bits_saturate_and_keep_nan(dtype: np.dtype[Any], most: float) -> None:
    given = np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 1.0], np.float32)
    found = numerics.convert(given, dtype).astype(np.float32)
    assert found[:4].tolist() == [most, -most, most, -most]
    assert np.isnan(found[4])
    assert found[5] == 1.0


def test_a_cast_toward_zero_never_grows_and_differs_from_nearest_by_one_step() -> None:
    given = _drawn(4000) * 10
    cut = numerics.convert(given, BFLOAT16, toward_zero=True).astype(np.float32)
    near = numerics.convert(given, BFLOAT16).astype(np.float32)
    assert bool((np.abs(cut) <= np.abs(given)).all())
    assert bool((np.abs(near - cut) <= np.abs(given) * 2.0**-7).all())
    assert bool((near != cut).any())


def test_casts_to_integers_saturate_and_turn_nan_into_zero() -> None:
    given = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.9, -2.9], np.float32)
    found = numerics.convert(given, np.dtype(np.int32))
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    assert found.tolist() == [0, most, least, most, least, 2, -2]
    bytes_ = numerics.convert(np.array([300.0], np.float32), np.dtype(np.int8))
    assert bytes_.tolist() == [300 - 256]  # the device keeps the low bits of 32


def test_operations_on_narrow_floats_are_rounded_once() -> None:
    left, right = (_drawn(4000, seed).astype(ml_dtypes.bfloat16) for seed in (1, 2))
    found = numerics.binary(np.multiply, left, right)
    exact = left.astype(np.float64) * right.astype(np.float64)
    assert found.dtype == BFLOAT16
    assert np.array_equal(found, exact.astype(ml_dtypes.bfloat16))


def test_a_tree_of_sums_rounds_every_partial_sum() -> None:
    values = np.array([256.0, 1.0, 1.0, 1.0], ml_dtypes.bfloat16)
    assert float(numerics.tree_sum(values, None)) == 258.0  # 256 + 1 is 256, and 1 + 1 is 2
    assert float(numerics.tree_sum(values.astype(np.float32), None)) == 259.0


def test_a_running_sum_of_narrow_floats_rounds_every_step() -> None:
    values = np.array([256.0, 1.0, 1.0], ml_dtypes.bfloat16)
    found = numerics.running(np.add, values, 0).astype(np.float32)
    assert found.tolist() == [256.0, 256.0, 256.0]  # bfloat16 has no 257


def test_equal_keys_are_counted_in_order() -> None:
    keys = np.array([5, 7, 5, 5, 7])
    assert numerics.occurrence(keys).tolist() == [0, 0, 1, 2, 1]


def test_tf32_ignores_the_low_bits() -> None:
    given = np.array([1.0 + 2.0**-10 + 2.0**-11], np.float32)
    assert numerics.truncated_tf32(given).tolist() == [1.0 + 2.0**-10]
