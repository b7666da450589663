"""Gradients of attention by the Jacobian of the soft-max."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import Array, heads_of, near, run, weights_of


def test_attention_backward_by_the_soft_max_jacobian() -> None:
    v, (grad_q, grad_k, grad_v) = run("attention_backward", case="small A shorter batch")
    q, k, values = heads_of(v)
    weights, grad, kv_heads = weights_of(v), v["grad_output"], v["k"].shape[1]
    grad_weights = np.einsum("bhqd,bhkd->bhqk", grad, values)
    inner = (grad_weights * weights).sum(-1, keepdims=True)
    scores = weights * (grad_weights - inner) * v["scale"]

    def shared(heads: Array) -> Array:
        batch, _, length, dim = heads.shape
        return np.asarray(heads.reshape(batch, kv_heads, -1, length, dim).sum(2))

    assert grad_k.shape == v["k"].shape
    near(grad_q, np.einsum("bhqk,bhkd->bhqd", scores, k), atol=2e-2)
    near(grad_k, shared(np.einsum("bhqk,bhqd->bhkd", scores, q)), atol=2e-2)
    near(grad_v, shared(np.einsum("bhqk,bhqd->bhkd", weights, grad)), atol=2e-2)
