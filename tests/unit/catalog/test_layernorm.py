"""LayerNorm and GroupNorm against formulas in numpy float64, gradients by the Jacobian."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import Array, near, run


def _normed(x: Array, eps: float) -> tuple[Array, Array]:
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mean) * rstd, rstd


def _grad_normed(weighted: Array, normed: Array, rstd: Array) -> Array:
    """Contract with the Jacobian (I - 1/n - x^ x^T / n) * rstd of the normalisation."""
    n = normed.shape[-1]
    outer = np.einsum("...i,...j->...ij", normed, normed) / n
    jacobian = np.eye(n) - 1.0 / n - outer
    return np.asarray(np.einsum("...i,...ij->...j", weighted, jacobian) * rstd)


def test_layernorm_formula() -> None:
    v, (y,) = run("layernorm")
    near(y, _normed(v["x"], v["eps"])[0] * v["weight"] + v["bias"], atol=4e-3)


def test_layernorm_backward_by_jacobian() -> None:
    v, (grad_x, grad_weight, grad_bias) = run("layernorm_backward")
    normed, rstd = _normed(v["x"], v["eps"])
    grad = v["grad_output"]
    near(grad_x, _grad_normed(grad * v["weight"], normed, rstd), atol=4e-3)
    near(grad_weight, np.einsum("ri,ri->i", grad, normed), atol=4e-3)
    near(grad_bias, grad.sum(0), atol=4e-3)


def _groups(x: Array) -> Array:
    return x.reshape(x.shape[0], 32, -1)


def test_groupnorm_formula() -> None:
    v, (y,) = run("groupnorm")
    normed = _normed(_groups(v["x"]), v["eps"])[0].reshape(v["x"].shape)
    near(y, normed * v["weight"][:, None] + v["bias"][:, None], atol=4e-3)


def test_groupnorm_backward_by_jacobian() -> None:
    v, (grad_x, grad_weight, grad_bias) = run("groupnorm_backward")
    normed, rstd = _normed(_groups(v["x"]), v["eps"])
    grad = v["grad_output"]
    weighted = _groups(grad * v["weight"][:, None])
    near(grad_x, _grad_normed(weighted, normed, rstd).reshape(grad.shape), atol=4e-3)
    near(grad_weight, (grad * normed.reshape(grad.shape)).sum((0, 2)), atol=4e-3)
    near(grad_bias, grad.sum((0, 2)), atol=4e-3)
