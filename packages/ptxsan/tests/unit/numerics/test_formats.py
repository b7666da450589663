"""The floating formats of PTX: their rows agree with each other, and with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.numerics.formats import ALL, BY_NAME, FloatFormat


def _number(code: int, kind: FloatFormat) -> float:
    """Return the number of a positive finite code, from the format's own row."""
    fraction = kind.precision - 1
    bits = 32 if kind.name == "tf32" else kind.bits
    stored = 23 if kind.name == "tf32" else fraction  # the low 13 bits of a register are zero
    exponent, rest = code >> stored, code & ((1 << stored) - 1)
    assert code >> (bits - 1) == 0
    if exponent == 0:
        return float(rest) * 2.0 ** (kind.min_exponent - stored)
    return (1 + rest * 2.0**-stored) * 2.0 ** (kind.min_exponent + exponent - 1)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_the_largest_number_is_the_last_code_before_infinity_or_nan(kind: FloatFormat) -> None:
    step = 1 << 13 if kind.name == "tf32" else 1
    if kind.infinity is not None:
        last = kind.infinity - step
    elif kind.name == "e4m3":
        last = kind.nan - 1
    else:  # no code is anything but a number
        last = (1 << (kind.bits - 1)) - 1
    assert _number(last, kind) == kind.max_finite


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_places_are_what_registers_find(kind: FloatFormat) -> None:
    assert ALL[kind.index] is kind
    assert BY_NAME[kind.name] is kind


@pytest.mark.parametrize(
    ("name", "type_"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)]
)
def test_formats_that_numpy_has_are_its_own(name: str, type_: type[np.floating]) -> None:
    kind, info = BY_NAME[name], np.finfo(type_)
    assert kind.max_finite == float(info.max)
    assert kind.smallest_normal == float(info.smallest_normal)
    assert kind.unit_roundoff == float(info.eps) / 2
    code = np.array([kind.nan, kind.infinity], np.dtype(f"u{kind.bits // 8}")).view(type_)
    assert np.isnan(code[0])
    assert code[1] == np.inf
