"""Approximate instructions: edge values, and the width around a result."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptxsan.numerics import approx


@pytest.mark.parametrize("value", [1.0, 1.5, 3.14, 65504.0, 2.0**-130, 2.0**127])
def test_an_ulp_is_the_distance_to_the_next_float(value: float) -> None:
    number = np.float32(value)
    distance = float(np.nextafter(number, np.float32(np.inf), dtype=np.float32) - number)
    assert approx.ulp32(float(number)) == approx.ulp32(-float(number)) == distance


def test_an_ulp_of_nothing_is_the_smallest_number() -> None:
    assert approx.ulp32(0.0) == approx.ulp32(math.inf) == 2.0**-149


def test_a_width_grows_with_the_argument_where_that_is_reduced() -> None:
    sine = approx.WIDTHS["sin.approx.f32"]
    assert sine.around(0.5, 1000.0) == 2.0**-20.5 + 1000.0 * 2.0**-22
    assert approx.WIDTHS["rcp.approx.f32"].around(1.0) == 2.0**-23
    # An absolute bound counts where it is the larger one.
    assert approx.WIDTHS["lg2.approx.f32"].around(2.0**-10) == 2.0**-22
    assert all(".approx." in name or ".full." in name for name in approx.WIDTHS)


_CASES = [
    (approx.exp2, [(0.0, 1.0), (2000.0, math.inf), (-2000.0, 0.0), (-3.0, 0.125)]),
    (approx.log2, [(8.0, 3.0), (0.0, -math.inf), (-0.0, -math.inf), (-1.0, math.nan)]),
    (approx.reciprocal, [(4.0, 0.25), (0.0, math.inf), (-0.0, -math.inf)]),
    (approx.reciprocal_root, [(4.0, 0.5), (-0.0, -math.inf), (-1.0, math.nan)]),
    (approx.root, [(9.0, 3.0), (-1.0, math.nan), (-0.0, -0.0)]),
    (approx.sine, [(0.0, 0.0), (math.inf, math.nan)]),
    (approx.cosine, [(0.0, 1.0), (-math.inf, math.nan)]),
    (approx.tangent_h, [(0.0, 0.0), (math.inf, 1.0)]),
]


@pytest.mark.parametrize(("function", "pairs"), _CASES)
def test_edges_of_functions(function: object, pairs: list[tuple[float, float]]) -> None:
    for argument, expected in pairs:
        found = function(argument)  # type: ignore[operator]
        assert repr(float(found)) == repr(expected), argument
