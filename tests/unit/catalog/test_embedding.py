"""Embeddings against a look-up in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.catalog import near, run


def test_embedding_is_a_scaled_look_up() -> None:
    v, (y,) = run("embedding", scalars={"scale": 3.0})
    near(y, np.stack([3.0 * v["weight"][token] for token in v["input_ids"]]))


@pytest.mark.parametrize("name", ["embedding_grad", "embedding_rmsnorm_backward"])
def test_embedding_gradients_by_one_hot_matmul(name: str) -> None:
    v, outputs = run(name)
    hot = np.eye(outputs[0].shape[0])[v["input_ids"]]
    g = v["grad_output"]
    if name == "embedding_grad":
        terms = g * v["scale"]
    else:
        w, h, r = v["norm_weight"], v["hidden_states"], v["rstd"][:, None]
        inner = (g * w * h).sum(1, keepdims=True)
        terms = g * w * r - h * r**3 * inner / h.shape[1]
        near(outputs[1], (g * h * r).sum(0))
    near(outputs[0], hot.T @ terms, atol=4e-3)
