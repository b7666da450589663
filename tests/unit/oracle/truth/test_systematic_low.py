"""16-bit kernels may lean by a few 1e-5; a truncating cast or a gain of 0.1 % may not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare
from tests.support.oracle_cases import normal, truth_of


def _mask(q: Tensor) -> Tensor:
    return torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q.float() @ k.float().mT).masked_fill(~_mask(q), -torch.inf)
    weights = torch.softmax(scores, -1).to(v.dtype)
    return (weights.float() @ v.float()).to(v.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_torchs_own_attention_passes_and_a_gain_of_a_thousandth_does_not(dtype: str) -> None:
    low = getattr(torch, dtype)
    q, k, v = (normal(800, 16, 10, seed=seed).to(low) for seed in (1, 2, 3))
    truth = truth_of(_attention, [q, k, v], dtype, "b", "m", "n")
    heads = [t.unsqueeze(1) for t in (q, k, v)]  # four axes: the flash kernel
    honest = torch.nn.functional.scaled_dot_product_attention(
        heads[0], heads[1], heads[2], attn_mask=_mask(q), scale=1.0
    )
    assert compare(honest.squeeze(1), truth).passed
    wrong = (_attention(q.double(), k.double(), v.double()).double() * 1.001).to(low)
    assert not compare(wrong, truth).passed


def test_a_truncating_cast_to_float16_fails() -> None:
    x = normal(64, 4096, seed=9).half()
    truth = truth_of(lambda t: (t.float() * 1.7).to(t.dtype), [x], "float16", "m", "n")
    wide = x.float() * 1.7
    down = torch.where(
        wide.half().float().abs() > wide.abs(), wide.abs() * (1 - 2**-11), wide.abs()
    )
    truncated = torch.copysign(down, wide).half()
    assert compare(wide.half(), truth).passed
    assert not compare(truncated, truth).passed
