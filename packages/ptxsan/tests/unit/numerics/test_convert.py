"""Conversions against unbounded integers: rounding, clamping and what a NaN becomes."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from ptxsan.numerics import convert

NEAREST, ZERO, DOWN, UP = 0, 1, 2, 3
_VALUES = [
    0.0, -0.0, 0.4, 0.5, 0.6, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -128.5, 255.5, 2.0**31,
    -(2.0**31), 2.0**32 - 0.5, 2.0**53 + 2, 2.0**62, -(2.0**63), 2.0**63, 2.0**64, 1e300, -1e300,
    math.inf, -math.inf,
]  # fmt: skip


def _rounded(value: float, mode: int) -> int:
    exact = Fraction(value)
    return {
        NEAREST: round(exact), ZERO: math.trunc(exact), DOWN: math.floor(exact),
        UP: math.ceil(exact),
    }[mode]  # fmt: skip


@pytest.mark.parametrize("mode", [NEAREST, ZERO, DOWN, UP])
@pytest.mark.parametrize("value", [value for value in _VALUES if math.isfinite(value)])
def test_a_float_is_rounded_to_an_integral_one(value: float, mode: int) -> None:
    found = convert.to_integral(value, mode)
    assert found == float(_rounded(value, mode))
    assert math.copysign(1.0, found) == math.copysign(1.0, value)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [0, 1])
def test_an_integer_is_clamped_to_its_type(bits: int, signed: int) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for value in _VALUES:
        for mode in (NEAREST, ZERO, DOWN, UP):
            whole = (high if value > 0 else low) if math.isinf(value) else _rounded(value, mode)
            expected = min(max(whole, low), high)
            found = convert.to_integer(value, mode, bits, signed, 1)
            assert (found - expected) % (1 << 64) == 0, (value, mode)


def test_a_nan_is_zero_or_the_code_that_the_manual_names() -> None:
    for bits in (8, 16, 32, 64):
        assert convert.to_integer(math.nan, 0, bits, 1, 1) == 0
        found = convert.to_integer(math.nan, 0, bits, 0, 0)
        assert found % (1 << 64) == 1 << bits - 1


_INTEGERS = [
    0, 1, -1, (1 << 53) + 1, (1 << 53) + 2, (1 << 53) + 3, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63),
    -(1 << 53) - 1, -(1 << 53) - 3,
]  # fmt: skip


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("mode", [NEAREST, ZERO, DOWN, UP])
def test_an_integer_becomes_the_double_beside_it(signed: int, mode: int) -> None:
    for pattern in _INTEGERS:
        value = pattern if signed else pattern % (1 << 64)
        found = Fraction(convert.integer_to_double(pattern, signed, mode))
        near = Fraction(float(value))
        below = near if near <= value else Fraction(math.nextafter(float(value), -math.inf))
        above = near if near >= value else Fraction(math.nextafter(float(value), math.inf))
        toward_zero = below if value >= 0 else above
        expected = {NEAREST: near, ZERO: toward_zero, DOWN: below, UP: above}[mode]
        assert found == expected, value


def test_rounding_to_odd_keeps_what_a_second_rounding_needs() -> None:
    # Beyond 2^53 in units of 2^11, odd where anything was cut off.
    assert convert.odd_integer((1 << 53) + 1, 1) == 2.0**53 + 2.0**11
    assert convert.odd_integer(1 << 53, 1) == 2.0**53
    assert convert.odd_integer(5, 1) == 5.0
    assert convert.odd_integer(-5, 1) == -5.0
    assert convert.odd_integer(-1, 0) >= 2.0**63


def test_flushing_and_saturating_keep_signs_and_bounds() -> None:
    assert repr(convert.flush32(-(2.0**-127))) == "-0.0"
    assert convert.flush32(2.0**-126) == 2.0**-126
    assert [convert.saturate(x) for x in (-1.0, 0.25, 7.0, math.nan)] == [0.0, 0.25, 1.0, 0.0]
    signalling = 0x7FF0000000000001
    assert convert.quieted(signalling) == 0x7FF8000000000001
    assert convert.quieted(0x7FF0000000000000) == 0x7FF0000000000000
