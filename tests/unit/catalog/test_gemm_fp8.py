"""Products of 8-bit floats with scales against formulas in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import near, run


def test_fp8_products() -> None:
    v, (y,) = run("fp8_gemm")
    near(y, (v["a"] @ v["b"].T) * np.outer(v["scale_a"], v["scale_b"]), atol=4e-3)
    v, (y,) = run("fp8_gemm_block", axes={"n": 256, "k": 384})
    left = v["a"] * np.kron(v["scale_a"], np.ones((1, 128)))
    right = v["b"] * np.kron(v["scale_b"], np.ones((128, 128)))
    near(y, left @ right.T, atol=4e-3)
