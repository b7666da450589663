"""Rotary embeddings as complex products."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.catalog import near, run


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
