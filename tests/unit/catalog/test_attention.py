"""Attention references against formulas in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.catalog import heads_of, near, run, softmax, weights_of


def test_attention_formula() -> None:
    v, (out,) = run("attention")
    near(out, np.einsum("bhqk,bhkd->bhqd", weights_of(v), heads_of(v)[2]), atol=1e-2)


@pytest.mark.parametrize("window", [1, 5])
def test_attention_window_softcap_formula(window: int) -> None:
    v, (out,) = run("attention_window_softcap", scalars={"window": window, "cap": 6.0})
    weights = weights_of(v, cap=6.0, window=window)
    assert ((weights > 0).sum(-1) <= window).all()
    near(out, np.einsum("bhqk,bhkd->bhqd", weights, heads_of(v)[2]), atol=1e-2)


def test_attention_varlen_sees_its_own_sequence() -> None:
    v, (out,) = run("attention_varlen")
    group = v["q"].shape[1] // v["k"].shape[1]
    k, values = np.repeat(v["k"], group, axis=1), np.repeat(v["v"], group, axis=1)
    expected = np.zeros_like(v["q"])
    for start, stop in zip(v["cu_seqlens"][:-1], v["cu_seqlens"][1:], strict=True):
        for row in range(start, stop):
            scores = np.einsum("hd,khd->hk", v["q"][row], k[start : row + 1]) * v["scale"]
            expected[row] = np.einsum("hk,khd->hd", softmax(scores), values[start : row + 1])
    near(out, expected, atol=1e-2)
