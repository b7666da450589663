"""Decoding over caches against formulas in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import near, run, softmax


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
