"""Losses and their gradients against formulas in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import Array, near, run, softmax


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


def test_cross_entropy_formula() -> None:
    v, (loss, normaliser) = run("cross_entropy")
    logits, targets, s = v["logits"], v["targets"], v["label_smoothing"]
    assert (targets == -100).any()
    lse = np.log(np.exp(logits).sum(1))
    picked = logits[np.arange(len(logits)), targets.clip(0)]
    expected = (1 - s) * (lse - picked) + s * (lse - logits.mean(1))
    near(loss, np.where(targets < 0, 0.0, expected), rtol=1e-5, atol=1e-5)
    near(normaliser, lse, rtol=1e-5, atol=1e-5)
