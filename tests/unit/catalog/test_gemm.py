"""Matrix products against formulas in numpy float64."""

from __future__ import annotations

import math

import numpy as np

from tests.support.catalog import near, run


def test_gemm_family_formulas() -> None:
    v, (y,) = run("gemm")
    near(y, np.einsum("mk,kn->mn", v["a"], v["b"]), atol=4e-3)
    v, (y,) = run("batched_gemm")
    near(y, np.einsum("bmk,bkn->bmn", v["a"], v["b"]), atol=4e-3)
    v, (y,) = run("gemm_bias_gelu")
    product = v["a"] @ v["weight"] + v["bias"]
    expected = np.vectorize(lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)))(product)
    near(y, expected, atol=4e-3)


def test_grouped_gemm_by_rows() -> None:
    v, (y,) = run("grouped_gemm")
    expected = np.zeros_like(y)
    for row in range(len(y)):
        group = int(np.searchsorted(v["offsets"], row, side="right")) - 1
        expected[row] = v["a"][row] @ v["weight"][group]
    near(y, expected, atol=4e-3)
