"""Codes of every small format, decoded and encoded in every mode; conversions to integers."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsan.numerics import convert, rounding
from ptxsan.numerics.formats import ALL, BF16, BY_NAME, E4M3, E5M2, F16, F32, FloatFormat
from ptxsan_support.rounding import bounded, round_exact

_SMALL = tuple(format_ for format_ in ALL if format_.name != "f64")
_SATURATING = ("e2m1", "e3m2", "e2m3")  # without infinities and NaN: conversions to them saturate
_THEIR_DTYPE = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_NEAR_ONE = st.floats(-500, 500, allow_subnormal=False)
_QUICK = settings(max_examples=400, deadline=None, derandomize=True)
_MODES = st.sampled_from([0, 1, 2, 3, 4])


@pytest.mark.parametrize("name", sorted(_THEIR_DTYPE))
def test_every_code_decodes_as_ml_dtypes_says(name: str) -> None:
    format_ = BY_NAME[name]
    codes = np.arange(2**format_.bits, dtype=np.uint16 if format_.bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):  # signalling NaN become quiet
        theirs = codes.view(_THEIR_DTYPE[name]).astype(np.float64)
    ours = np.array([rounding.decode(int(code), format_.index) for code in codes])
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", sorted(_THEIR_DTYPE))
def test_every_code_survives_a_round_trip(name: str) -> None:
    format_ = BY_NAME[name]
    for code in range(2**format_.bits):
        value = rounding.decode(code, format_.index)
        again = rounding.encode(value, format_.index, 1, 0)
        assert again == (format_.nan if math.isnan(value) else code)


@_QUICK
@given(value=st.one_of(_FINITE, _NEAR_ONE), mode=_MODES, format_=st.sampled_from(_SMALL))
def test_encode_is_one_rounding(value: float, mode: int, format_: FloatFormat) -> None:
    saturates = format_.name in _SATURATING
    flags = rounding.SATFINITE if saturates else 0
    code = rounding.encode(value, format_.index, mode, flags)
    exact = round_exact(Fraction(value), format_.precision, format_.min_exponent, mode)
    want = bounded(exact, format_.max_finite, mode)
    if saturates:
        want = min(max(want, -format_.max_finite), format_.max_finite)
    got = rounding.decode(code, format_.index)
    if format_ is E4M3 and math.isinf(want):
        assert math.isnan(got)
    else:
        assert got == want
        assert math.copysign(1, got) == math.copysign(1, value)


@pytest.mark.parametrize(("format_", "largest"), [(E4M3, 0x7E), (E5M2, 0x7B), (F16, 0x7BFF)])
def test_satfinite_clamps_and_keeps_nan(format_: FloatFormat, largest: int) -> None:
    sign = 1 << (format_.bits - 1)
    for value in (1e9, math.inf):
        assert rounding.encode(value, format_.index, 0, rounding.SATFINITE) == largest
        assert rounding.encode(-value, format_.index, 0, rounding.SATFINITE) == largest | sign
    assert rounding.encode(math.nan, format_.index, 0, rounding.SATFINITE) == format_.nan


def test_relu_clears_negatives_and_flush_clears_subnormals() -> None:
    assert rounding.encode(-3.0, BF16.index, 0, rounding.RELU) == 0
    assert rounding.encode(math.nan, BF16.index, 0, rounding.RELU) == BF16.nan
    assert rounding.encode(-(2.0**-130), F32.index, 0, rounding.FLUSH) == 0x80000000
    assert rounding.encode(2.0**-126, F32.index, 0, rounding.FLUSH) == 0x00800000


def _integer(value: float, mode: int, bits: int, signed: bool) -> int:
    exact = Fraction(value)
    down = math.floor(exact)
    rest = exact - down
    up: bool = {
        0: rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1),
        1: rest != 0 and value < 0,
        2: False,
        3: rest != 0,
    }[mode]
    low: int = -(2 ** (bits - 1)) if signed else 0
    high: int = 2 ** (bits - signed) - 1
    return max(low, min(high, down + (1 if up else 0)))


@_QUICK
@given(
    value=st.one_of(_FINITE, _NEAR_ONE, st.floats(-(2.0**64), 2.0**64), st.just(2.5)),
    mode=st.sampled_from([0, 1, 2, 3]),
    bits=st.sampled_from([8, 16, 32, 64]),
    signed=st.booleans(),
)
def test_floats_become_the_nearest_representable_integer(
    value: float, mode: int, bits: int, signed: bool
) -> None:
    got = convert.to_integer(value, mode, bits, int(signed), 1)
    want = _integer(value, mode, bits, signed)
    assert got & (2**64 - 1) == want & (2**64 - 1)


def test_nan_becomes_zero_or_the_documented_code() -> None:
    assert convert.to_integer(math.nan, 1, 32, 1, 1) == 0
    assert convert.to_integer(math.nan, 1, 32, 1, 0) == 1 << 31
    assert convert.to_integer(math.nan, 1, 64, 0, 0) == -(1 << 63)


@_QUICK
@given(
    value=st.integers(-(2**63), 2**63 - 1),
    signed=st.booleans(),
    mode=st.sampled_from([0, 1, 2, 3]),
)
def test_integers_become_floats_with_one_rounding(value: int, signed: bool, mode: int) -> None:
    exact = Fraction(value if signed else value % 2**64)
    for format_ in (F16, BF16, F32):
        code = convert.integer_to_float(value, int(signed), format_.index, mode, 0)
        rounded = round_exact(exact, format_.precision, format_.min_exponent, mode)
        want = bounded(rounded, format_.max_finite, mode)
        assert rounding.decode(code, format_.index) == want
    assert convert.integer_to_double(value, int(signed), mode) == float(
        round_exact(exact, 53, -1022, mode)
    )
