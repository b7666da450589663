"""Double precision is IEEE's: NumPy gives the same bits, for every pair of border values."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from ptxsan_fuzz.execute import run_text

_TINY = 5e-324
_EDGES = (
    0.0, -0.0, 1.0, -1.5, 1 / 3, 1e308, -1e308, sys.float_info.min, _TINY, -_TINY, math.inf,
    -math.inf, math.nan,
)  # fmt: skip
_PAIRS = np.array(list(itertools.product(_EDGES, _EDGES)), np.float64)


def _given(instruction: str) -> np.ndarray:
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 input, .param .u64 output)
{{
.reg .b32 %r<2>; .reg .b64 %at<2>; .reg .f64 %d<4>;
ld.param.u64 %at0, [input];
ld.param.u64 %at1, [output];
mov.u32 %r0, %tid.x;
mad.wide.u32 %at0, %r0, 16, %at0;
mad.wide.u32 %at1, %r0, 8, %at1;
ld.global.f64 %d1, [%at0]; ld.global.f64 %d2, [%at0+8];
{instruction}
st.global.f64 [%at1], %d3;
ret;
}}
"""
    found = run_text(text, "probe", _PAIRS, 2, (1, len(_PAIRS)))
    return np.ascontiguousarray(found).view(np.float64)[:, 0]


def _same(found: np.ndarray, expected: np.ndarray) -> None:
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), nan)
    assert np.array_equal(found[~nan].view(np.uint64), expected[~nan].view(np.uint64))


@pytest.mark.parametrize(
    ("name", "function"),
    [("add.rn", np.add), ("sub.rn", np.subtract), ("mul.rn", np.multiply), ("div.rn", np.divide)],
)
def test_arithmetic_is_ieee_s(name: str, function: np.ufunc) -> None:
    with np.errstate(all="ignore"):
        _same(_given(f"{name}.f64 %d3, %d1, %d2;"), function(_PAIRS[:, 0], _PAIRS[:, 1]))


def test_roots_and_reciprocals_are_rounded_once() -> None:
    with np.errstate(all="ignore"):
        _same(_given("sqrt.rn.f64 %d3, %d1;"), np.sqrt(_PAIRS[:, 0]))
        _same(_given("rcp.rn.f64 %d3, %d1;"), 1.0 / _PAIRS[:, 0])


def test_a_fused_product_is_rounded_once() -> None:
    a, b = _PAIRS[:, 0], _PAIRS[:, 1]
    found = _given("fma.rn.f64 %d3, %d1, %d2, %d2;")
    finite = np.isfinite(a) & np.isfinite(b) & (np.abs(a) < 1e3)
    for x, y, got in zip(a[finite], b[finite], found[finite], strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(y)
        if abs(exact) < Fraction(sys.float_info.max):
            assert got == float(exact), (x, y)
        else:
            assert math.isinf(got)


def test_the_smaller_of_a_number_and_nan_is_the_number() -> None:
    a, b = _PAIRS[:, 0], _PAIRS[:, 1]
    smaller, larger = _given("min.f64 %d3, %d1, %d2;"), _given("max.f64 %d3, %d1, %d2;")
    for x, y, low, high in zip(a, b, smaller, larger, strict=True):
        if math.isnan(x) and math.isnan(y):
            assert math.isnan(low)
            assert math.isnan(high)
        elif math.isnan(x) or math.isnan(y):
            assert low == high == (y if math.isnan(x) else x)
        else:
            assert (low, high) == (min(x, y), max(x, y))
    zeros = (a == 0) & (b == 0)  # -0 is less than +0
    assert np.array_equal(np.signbit(smaller[zeros]), np.signbit(a[zeros]) | np.signbit(b[zeros]))
    assert np.array_equal(np.signbit(larger[zeros]), np.signbit(a[zeros]) & np.signbit(b[zeros]))
