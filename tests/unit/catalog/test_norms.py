"""RMSNorm, alone and behind a sum, against formulas in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import near, run


def test_rmsnorm_formula() -> None:
    v, (y,) = run("rmsnorm")
    root = np.sqrt((v["x"] ** 2).sum(1, keepdims=True) / v["x"].shape[1] + v["eps"])
    near(y, v["x"] / root * v["weight"])


def test_fused_add_rmsnorm_formula() -> None:
    v, (y, total) = run("fused_add_rmsnorm")
    h = v["x"] + v["residual"]
    near(y, h * ((h**2).mean(1, keepdims=True) + v["eps"]) ** -0.5 * v["weight"])
    near(total, h)


def test_rmsnorm_backward_formula() -> None:
    v, (grad_x, grad_weight) = run("rmsnorm_backward")
    g, x, w, r = v["grad_output"], v["x"], v["weight"], v["rstd"][:, None]
    # d/dx of x * rstd(x) * w with rstd' = -rstd^3 x / n, contracted with g.
    inner = np.einsum("ij,ij->i", g * w, x)[:, None]
    near(grad_x, g * w * r - x * r**3 * inner / x.shape[1], atol=4e-3)
    near(grad_weight, np.einsum("ij,ij,i->j", g, x, v["rstd"]))
