"""Attention, decoding and rotary references against formulas in numpy float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.catalog import Array, near, run, softmax


def _heads(v: dict[str, Any]) -> tuple[Array, Array, Array]:
    group = v["q"].shape[1] // v["k"].shape[1]
    return v["q"], np.repeat(v["k"], group, axis=1), np.repeat(v["v"], group, axis=1)


def _weights(v: dict[str, Any], *, cap: float = 0.0, window: int = 1 << 30) -> Array:
    q, k, _ = _heads(v)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * v["scale"]
    if cap:
        scores = cap * np.tanh(scores / cap)
    age = np.subtract.outer(np.arange(q.shape[2]), np.arange(k.shape[2])) + k.shape[2] - q.shape[2]
    return softmax(np.where((age >= 0) & (age < window), scores, -np.inf))


def test_attention_formula() -> None:
    v, (out,) = run("attention")
    near(out, np.einsum("bhqk,bhkd->bhqd", _weights(v), _heads(v)[2]), atol=1e-2)


@pytest.mark.parametrize("window", [1, 5])
def test_attention_window_softcap_formula(window: int) -> None:
    v, (out,) = run("attention_window_softcap", scalars={"window": window, "cap": 6.0})
    weights = _weights(v, cap=6.0, window=window)
    assert ((weights > 0).sum(-1) <= window).all()
    near(out, np.einsum("bhqk,bhkd->bhqd", weights, _heads(v)[2]), atol=1e-2)


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


def test_attention_backward_by_the_soft_max_jacobian() -> None:
    v, (grad_q, grad_k, grad_v) = run("attention_backward", case="small A shorter batch")
    q, k, values = _heads(v)
    weights, grad, kv_heads = _weights(v), v["grad_output"], v["k"].shape[1]
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


def test_paged_attention_decode_follows_the_table() -> None:
    v, (out,) = run("paged_attention_decode")
    group = v["q"].shape[1] // v["k_cache"].shape[2]
    expected = np.zeros_like(v["q"])
    for row, last in enumerate(v["positions"]):
        keys, values = (
            np.concatenate([v[name][page] for page in v["page_table"][row]])[: last + 1]
            for name in ("k_cache", "v_cache")
        )
        keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
        weights = softmax(np.einsum("hd,thd->ht", v["q"][row], keys) * v["scale"])
        expected[row] = np.einsum("ht,thd->hd", weights, values)
    near(out, expected, atol=1e-2)


def test_mla_decode_formula() -> None:
    v, (out,) = run("mla_decode")
    scores = np.einsum("bhr,btr->bht", v["q_latent"], v["latent_cache"])
    scores += np.einsum("bhr,btr->bht", v["q_rope"], v["rope_cache"])
    late = np.arange(scores.shape[-1]) > v["positions"][:, None, None]
    weights = softmax(np.where(late, -np.inf, scores * v["scale"]))
    near(out, np.einsum("bht,btr->bhr", weights, v["latent_cache"]), atol=1e-2)


@pytest.mark.parametrize(
    ("name", "sign"), [("rope_neox", 1), ("rope_neox_backward", -1), ("rope_interleaved", 1)]
)
def test_rotary_as_complex_products(name: str, sign: int) -> None:
    v, outputs = run(name)
    turn = v["cos"][v["position_ids"]] + sign * 1j * v["sin"][v["position_ids"]]
    for x, out in zip([v[key] for key in list(v)[:2]], outputs, strict=True):
        half = x.shape[-1] // 2
        first, second = slice(None, half), slice(half, None)
        if name == "rope_interleaved":
            first, second = slice(0, None, 2), slice(1, None, 2)
        turned = (x[..., first] + 1j * x[..., second]) * turn[:, None]
        near(out[..., first], turned.real, atol=4e-3)
        near(out[..., second], turned.imag, atol=4e-3)


def test_rope_llama3_frequencies() -> None:
    v, (out,) = run("rope_llama3", scalars={"factor": 8.0, "theta": 5e5})
    half = v["x"].shape[-1] // 2
    frequency = 5e5 ** (-np.arange(half) / half)
    wave = 2 * np.pi / frequency
    smooth = (8192 / wave - 1) / 3
    scaled = np.where(wave > 8192, frequency / 8, (1 - smooth) * frequency / 8 + smooth * frequency)
    scaled = np.where(wave < 8192 / 4, frequency, scaled)
    assert (scaled != frequency).any()
    angle = v["position_ids"][:, None] * scaled
    turned = (v["x"][..., :half] + 1j * v["x"][..., half:]) * np.exp(1j * angle)[:, None]
    near(out, np.concatenate((turned.real, turned.imag), axis=-1), atol=1e-2)
