"""Sampling against a draw token by token."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import Array, run, softmax


def _first_above(weights: Array, uniform: float) -> int:
    total, goal = 0.0, uniform * weights.sum()
    for token, weight in enumerate(weights):
        total += weight
        if total > goal:
            return token
    return len(weights) - 1


def test_sample_top_k_formula() -> None:
    v, (token,) = run("sample_top_k", scalars={"k": 3, "temperature": 0.7})
    for row, logits in enumerate(v["logits"]):
        weights = np.zeros_like(logits)
        best = np.argsort(logits)[-3:]
        weights[best] = np.exp(logits[best] / 0.7)
        assert token[row] == _first_above(weights, v["uniform"][row])


def test_sample_top_p_formula() -> None:
    v, (token,) = run("sample_top_p", scalars={"top_p": 0.6, "temperature": 1.3})
    for row, p in enumerate(softmax(v["logits"] / 1.3)):
        order = np.argsort(-p)
        count = 1 + int(np.searchsorted(np.cumsum(p[order]), 0.6))
        weights = np.zeros_like(p)
        weights[order[:count]] = p[order[:count]]
        assert token[row] == _first_above(weights, v["uniform"][row])
