"""Norms, gated units, losses and optimizer steps against formulas in numpy float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.catalog import Array, near, run, softmax


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


def test_embedding_is_a_scaled_look_up() -> None:
    v, (y,) = run("embedding", scalars={"scale": 3.0})
    near(y, np.stack([3.0 * v["weight"][token] for token in v["input_ids"]]))


def test_masked_soft_max_and_dropout() -> None:
    v, (p,) = run("softmax_masked")
    assert not v["mask"].all()
    near(p, softmax(np.where(v["mask"], v["scores"] * v["scale"], -np.inf)))
    v, (p,) = run("softmax_dropout", scalars={"p": 0.25})
    near(p, softmax(v["scores"] * v["scale"]) * v["kept"] / 0.75)


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def test_geglu_formula() -> None:
    v, (y,) = run("geglu")
    near(y, _gelu(v["gate"]) * v["up"])


@pytest.mark.parametrize(("name", "unit"), [("swiglu", _silu), ("geglu", _gelu)])
def test_gated_gradients_by_central_differences(name: str, unit: Any) -> None:
    v, (grad_gate, grad_up) = run(f"{name}_backward")
    step = 1e-5
    slope = (unit(v["gate"] + step) - unit(v["gate"] - step)) / (2 * step)
    near(grad_gate, v["grad_output"] * v["up"] * slope)
    near(grad_up, v["grad_output"] * unit(v["gate"]))


def _grad_logits(logits: Array, targets: Array, factor: Array, smoothing: float) -> Array:
    hot = np.eye(logits.shape[1])[np.maximum(targets, 0)]
    share = (1 - smoothing) * hot + smoothing / logits.shape[1]
    return np.asarray((softmax(logits) - share) * np.where(targets < 0, 0, factor)[:, None])


def test_cross_entropy_backward_formula() -> None:
    v, (grad,) = run("cross_entropy_backward", scalars={"label_smoothing": 0.2})
    assert (v["targets"] == -100).any()
    near(grad, _grad_logits(v["logits"], v["targets"], v["grad_loss"], 0.2))


def test_linear_cross_entropy_formula() -> None:
    v, (loss, normaliser) = run("linear_cross_entropy")
    logits = v["hidden_states"] @ v["weight"].T
    expected = np.log(np.exp(logits).sum(1))
    picked = logits[np.arange(len(logits)), v["targets"].clip(0)]
    near(normaliser, expected, atol=1e-2)
    near(loss, np.where(v["targets"] < 0, 0, expected - picked), atol=1e-2)


def test_linear_cross_entropy_backward_formula() -> None:
    v, (grad_hidden, grad_weight) = run("linear_cross_entropy_backward")
    logits = v["hidden_states"] @ v["weight"].T
    grad = _grad_logits(logits, v["targets"], v["grad_loss"], 0.0)
    near(grad_hidden, grad @ v["weight"], atol=2e-2)
    near(grad_weight, grad.T @ v["hidden_states"], atol=2e-2)


def test_adamw_step_formula() -> None:
    v, (param, first, second) = run("adamw_step", scalars={"step": 3})
    m = v["beta1"] * v["exp_avg"] + (1 - v["beta1"]) * v["grad"]
    s = v["beta2"] * v["exp_avg_sq"] + (1 - v["beta2"]) * v["grad"] ** 2
    hat = (m / (1 - v["beta1"] ** 3)) / (np.sqrt(s / (1 - v["beta2"] ** 3)) + v["eps"])
    expected = v["param"] - v["lr"] * (hat + v["weight_decay"] * v["param"])
    for got, want in ((param, expected), (first, m), (second, s)):
        near(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_momentum_step_formula(nesterov: bool) -> None:
    v, (param, buffer) = run("sgd_momentum_step", scalars={"nesterov": nesterov})
    grad = v["grad"] + v["weight_decay"] * v["param"]
    expected = v["momentum"] * v["momentum_buffer"] + grad
    direction = grad + v["momentum"] * expected if nesterov else expected
    near(buffer, expected, rtol=1e-5, atol=1e-6)
    near(param, v["param"] - v["lr"] * direction, rtol=1e-5, atol=1e-6)


def test_muon_step_moves_by_a_polynomial_of_the_singular_values() -> None:
    v, (param, buffer) = run("muon_step")
    expected = v["momentum"] * v["momentum_buffer"] + (1 - v["momentum"]) * v["grad"]
    near(buffer, expected, rtol=1e-5, atol=1e-6)
    direction = v["momentum"] * expected + (1 - v["momentum"]) * v["grad"]
    left, values, right = np.linalg.svd(direction, full_matrices=False)
    values = values / np.linalg.norm(direction)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    rows, columns = direction.shape
    moved = (left * values) @ right * max(1.0, rows / columns) ** 0.5
    error = np.linalg.norm(v["param"] - param - v["lr"] * moved)
    assert error < 0.05 * v["lr"] * np.linalg.norm(moved)  # the iteration runs in bfloat16
