"""Exactly rounded arithmetic against rationals: halves, float32 through odd, float64 directed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ptxsan.numerics import arithmetic, halves, rounding
from ptxsan.numerics.formats import BF16, F16, F32, FloatFormat
from ptxsan_support.rounding import bounded, round_exact

_FORMATS = st.sampled_from([F16, BF16, F32])
_QUICK = settings(max_examples=400, deadline=None, derandomize=True)
_MODES = st.sampled_from([0, 1, 2, 3])
_RAW = st.integers(0, 2**32 - 1)
_DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def _codes(format_: FloatFormat, *raws: int) -> tuple[list[int], list[Fraction]]:
    codes = [raw & (2**format_.bits - 1) for raw in raws]
    values = [rounding.decode(code, format_.index) for code in codes]
    assume(all(math.isfinite(value) for value in values))
    return codes, [Fraction(value) for value in values]


def _check(got: int, exact: Fraction, format_: FloatFormat, mode: int) -> None:
    rounded = round_exact(exact, format_.precision, format_.min_exponent, mode)
    want = bounded(rounded, format_.max_finite, mode)
    assert rounding.decode(got, format_.index) == want


@_QUICK
@given(a=_RAW, b=_RAW, c=_RAW, format_=_FORMATS, mode=_MODES)
def test_operations_round_once(a: int, b: int, c: int, format_: FloatFormat, mode: int) -> None:
    (x, y, z), (p, q, r) = _codes(format_, a, b, c)
    index = format_.index
    _check(halves.add(x, y, index, mode, 0), p + q, format_, mode)
    _check(halves.multiply(x, y, index, mode, 0), p * q, format_, mode)
    _check(halves.multiply_add(x, y, z, index, mode, 0), p * q + r, format_, mode)
    if q != 0:
        _check(halves.divide(x, y, index, mode, 0), p / q, format_, mode)


@_QUICK
@given(raw=_RAW, format_=_FORMATS)
def test_sums_just_beside_a_tie_round_the_right_way(raw: int, format_: FloatFormat) -> None:
    """A product whose low half is a tie, and a far smaller addend that decides it."""
    tie = (1 << (format_.precision - 1)) | (raw & ((1 << (format_.precision - 1)) - 1)) | 1
    value = Fraction(tie) * Fraction(1, 2 ** (format_.precision - 1))
    code = rounding.encode(float(value), format_.index, 0, 0)
    tiny = 1  # the smallest subnormal
    one_and_half = rounding.encode(1.5, format_.index, 0, 0)
    exact = value * Fraction(3, 2) + Fraction(rounding.decode(tiny, format_.index))
    got = halves.multiply_add(code, one_and_half, tiny, format_.index, 0, 0)
    _check(got, exact, format_, 0)


@_QUICK
@given(raw=_RAW, format_=_FORMATS, mode=_MODES)
def test_square_roots_round_once(raw: int, format_: FloatFormat, mode: int) -> None:
    (code,), (value,) = _codes(format_, raw & 0x7FFFFFFF)
    assume(value >= 0)
    root = rounding.decode(halves.square_root(code, format_.index, mode, 0), format_.index)
    if value == 0:
        assert root == 0
        return
    half = Fraction(_spacing(root, format_)) / 2
    low, high = Fraction(root) - half, Fraction(root) + half
    match mode:
        case 0:
            assert low**2 <= value <= high**2
        case 3:
            assert (Fraction(root) - 2 * half) ** 2 < value <= Fraction(root) ** 2
        case _:
            assert Fraction(root) ** 2 <= value < (Fraction(root) + 2 * half) ** 2


def _spacing(value: float, format_: FloatFormat) -> float:
    exponent = max(math.frexp(value)[1] - 1, format_.min_exponent)
    return 2.0 ** (exponent - format_.precision + 1)


@_QUICK
@given(a=_DOUBLES, b=_DOUBLES, c=_DOUBLES, mode=_MODES)
def test_float64_in_directed_modes(a: float, b: float, c: float, mode: int) -> None:
    def check(got: float, exact: Fraction) -> None:
        if exact != 0:
            rounded = round_exact(exact, 53, -1022, mode)
            assert got == bounded(rounded, float(np.finfo(np.float64).max), mode)

    x, y, z = Fraction(a), Fraction(b), Fraction(c)
    check(arithmetic.add64(a, b, mode), x + y)
    check(arithmetic.mul64(a, b, mode), x * y)
    check(arithmetic.fma64(a, b, c, mode), x * y + z)
    if y != 0:
        check(arithmetic.div64(a, b, mode), x / y)


_TINY = [2.0**-1074, 2.0**-1022, 3.0 * 2.0**-1074, 2.0**-540, -(2.0**-1022), 1.7e308, 1.0]


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_float64_fma_of_tiny_products(mode: int) -> None:
    for a in _TINY:
        for b in _TINY:
            for c in (0.0, 2.0**-1074, -(2.0**-900), 1.0, -3.5):
                exact = Fraction(a) * Fraction(b) + Fraction(c)
                if exact != 0:
                    rounded = round_exact(exact, 53, -1022, mode)
                    want = bounded(rounded, float(np.finfo(np.float64).max), mode)
                    assert arithmetic.fma64(a, b, c, mode) == want, (a, b, c)


def test_minimum_and_maximum_order_zeros_and_drop_nan() -> None:
    nan, zero, minus = 0x7FC0, 0x0000, 0x8000
    assert halves.extreme(zero, minus, BF16.index, 1, 0) == zero
    assert halves.extreme(zero, minus, BF16.index, 0, 0) == minus
    assert halves.extreme(nan, 0x3F80, BF16.index, 1, 0) == 0x3F80
    assert halves.extreme(nan, 0x3F80, BF16.index, 1, halves.NAN_WINS) == BF16.nan
    assert halves.extreme(nan, nan, BF16.index, 0, 0) == BF16.nan
    assert halves.extreme(0xBF80, 0x4000, BF16.index, 1, halves.XORSIGN) == 0xC000


def test_exact_cancellation_is_plus_zero_except_toward_minus_infinity() -> None:
    one, minus_one = 0x3F800000, 0xBF800000
    assert halves.add(one, minus_one, F32.index, 0, 0) == 0
    assert halves.add(one, minus_one, F32.index, 2, 0) == 0x80000000
    assert halves.add(0x80000000, 0x80000000, F32.index, 0, 0) == 0x80000000
    assert halves.add(0, 0, F32.index, 2, 0) == 0
    assert halves.multiply_add(one, minus_one, one, F32.index, 2, 0) == 0x80000000
