"""Bit casts and fma in compiled code, against Python's and NumPy's own."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from ptxsan.numerics.native import bits32, bits64, float32, float64, fma, native


@native
def _there_and_back(value: float) -> float:
    return float64(bits64(value))


@native
def _code32(value: float) -> int:
    return bits32(value)


@native
def _value32(code: int) -> float:
    return float32(code)


@native
def _fma(a: float, b: float, c: float) -> float:
    return fma(a, b, c)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -math.inf, 5e-324, 1.7976931348623157e308])
def test_a_double_keeps_its_bits(value: float) -> None:
    assert struct.pack("<d", _there_and_back(value)) == struct.pack("<d", value)
    assert math.isnan(_there_and_back(math.nan))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -2.5, 0.1, 3.5e38, 1e-45, 1e-50, math.inf])
def test_a_number_becomes_the_nearest_float32(value: float) -> None:
    with np.errstate(over="ignore"):
        want = int(np.float32(value).view(np.uint32))
    assert _code32(value) == want
    assert _value32(want) == float(np.uint32(want).view(np.float32))


def test_only_the_low_32_bits_are_a_float32() -> None:
    assert _value32((7 << 32) | 0x3F800000) == 1.0
    assert _code32(-1.0) == 0xBF800000  # widened without a sign


def test_a_product_and_a_sum_are_rounded_once() -> None:
    a, b = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    assert a * b - 1.0 == 0.0
    assert _fma(a, b, -1.0) == -(2.0**-60)
