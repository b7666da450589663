"""Quantization and dequantization against formulas in numpy float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.support.catalog import Array, near, run


def _scale(x: Array, largest: float) -> Array:
    return np.asarray(np.maximum(np.abs(x).max(-1) / largest, 1e-10))


def test_quantize_int8_codes() -> None:
    v, (codes, scale) = run("quantize_int8_per_row")
    near(scale, _scale(v["x"], 127), rtol=1e-6)
    exact = v["x"] / _scale(v["x"], 127)[:, None]
    assert np.abs(codes).max() == 127
    assert (np.abs(codes - exact) <= 0.5 + 1e-4).all()


def _as_fp8(values: Array) -> Array:
    return values.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


@pytest.mark.parametrize("name", ["per_row", "block"])
def test_quantize_fp8_codes(name: str) -> None:
    v, (codes, scale) = run(f"quantize_fp8_{name}")
    x = v["x"] if name == "per_row" else v["x"].reshape(len(v["x"]), -1, 128)
    expected = _scale(x, 448)
    near(scale, expected, rtol=1e-6)
    wanted = _as_fp8(x / expected[..., None]).reshape(codes.shape)
    assert (codes == wanted).mean() > 0.99
    np.testing.assert_allclose(codes, wanted, rtol=0.13, atol=2**-9)


def test_quantize_fp8_per_tensor_saturates() -> None:
    v, (codes,) = run("quantize_fp8_per_tensor")
    wanted = _as_fp8(np.clip(v["x"] / v["scale"], -448, 448))
    assert (codes == wanted).mean() > 0.99


def test_dequantised_values() -> None:
    v, (y,) = run("dequantize_int8_per_row")
    near(y, v["codes"] * v["scale"][:, None], atol=0)
    v, (y,) = run("dequantize_fp8_block")
    near(y, v["codes"] * np.repeat(v["scale"], 128, axis=1), atol=0)
