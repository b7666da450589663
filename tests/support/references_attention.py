"""Attention in its usual spellings, and rotary embeddings."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.references_base import Array, Draw, Reference, logsumexp, softmax

B, H, S, D = 2, 2, 5, 4


def qkv(d: Draw) -> tuple[Tensor, Tensor, Tensor]:
    return d.normal(B, H, S, D), d.normal(B, H, S, D), d.normal(B, H, S, D)


def gqa(d: Draw) -> tuple[Tensor, Tensor, Tensor]:
    return d.normal(B, 4, S, D), d.normal(B, 2, S, D), d.normal(B, 2, S, D)


def attend(q: Array, k: Array, v: Array, allowed: Array | None = None, cap: float = 0.0) -> Array:
    """Attention by explicit sums; `allowed` broadcasts over (B, H, S, S)."""
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if cap:
        scores = cap * np.tanh(scores / cap)
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    return np.asarray(np.einsum("bhqk,bhkd->bhqd", softmax(scores), v))


CAUSAL = np.tril(np.ones((S, S), dtype=bool))


def causal_finfo(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    mask = torch.full((S, S), torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device)
    mask = torch.triu(mask, diagonal=1)
    scores = scores + mask[None, None]
    p = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(p, v).transpose(1, 2).contiguous()


def padding_additive(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    bias = (1.0 - keep[:, None, None, :].to(q.dtype)) * torch.finfo(q.dtype).min
    scores = q.float() @ k.float().mT * (q.shape[-1] ** -0.5) + bias.float()
    return (scores.softmax(-1) @ v.float()).to(q.dtype)  # type: ignore[no-any-return]


def soft_cap(q: Tensor, k: Tensor, v: Tensor, cap: float) -> Tensor:
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    s = torch.tanh(s / cap) * cap
    s = s.masked_fill(~torch.ones(S, S, dtype=torch.bool, device=q.device).tril(), float("-inf"))
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(s.float(), -1).to(q.dtype), v)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    groups = q.shape[1] // k.shape[1]
    b, h, s, d = k.shape
    k = k[:, :, None].expand(b, h, groups, s, d).reshape(b, h * groups, s, d)
    v = v.repeat_interleave(groups, dim=1)
    p = torch.softmax((q @ k.transpose(2, 3)).float() / math.sqrt(d), dim=-1)
    return p.type_as(q) @ v


def grouped_truth(q: Array, k: Array, v: Array, allowed: Array | None = None) -> Array:
    return attend(q, np.repeat(k, 2, 1), np.repeat(v, 2, 1), allowed)


def sliding_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i = torch.arange(S, device=q.device)
    allowed = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < 3)
    scores = (q * D**-0.5) @ k.transpose(-1, -2)
    scores = torch.where(allowed, scores, torch.tensor(-1e9, dtype=scores.dtype))
    return scores.softmax(dim=-1) @ v


def sdpa_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sdpa_masked_grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = torch.ones(S, S, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def with_lse(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
    s = (q.float() @ k.float().transpose(-1, -2)) * D**-0.5
    lse = torch.logsumexp(s, dim=-1)
    return {"out": (torch.exp(s - lse[..., None]) @ v.float()).to(q.dtype), "lse": lse}


def with_lse_truth(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    return attend(q, k, v), logsumexp(np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(D))


def backward_autograd(q: Tensor, k: Tensor, v: Tensor, do: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.backward(do)  # type: ignore[no-untyped-call]
    return q.grad, k.grad, v.grad


def backward_truth(q: Array, k: Array, v: Array, do: Array) -> tuple[Array, ...]:
    scale = 1.0 / math.sqrt(D)
    p = softmax(np.where(CAUSAL, np.einsum("bhqd,bhkd->bhqk", q, k) * scale, -np.inf))
    dp = np.einsum("bhqd,bhkd->bhqk", do, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return (
        np.einsum("bhqk,bhkd->bhqd", ds, k),
        np.einsum("bhqk,bhqd->bhkd", ds, q),
        np.einsum("bhqk,bhqd->bhkd", p, do),
    )


def alibi(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    slopes = torch.tensor([2.0 ** -(8 * (h + 1) / H) for h in range(H)], dtype=q.dtype)
    distance = torch.arange(S)[None, :] - torch.arange(S)[:, None]
    bias = slopes[:, None, None] * distance.to(q.dtype)
    scores = torch.baddbmm(bias.repeat(B, 1, 1), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=D**-0.5)
    return torch.bmm(scores.softmax(-1), v.flatten(0, 1)).unflatten(0, (B, H))  # type: ignore[no-any-return, no-untyped-call]


def alibi_truth(q: Array, k: Array, v: Array) -> Array:
    i = np.arange(S)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(D)
    scores = scores + np.array([2.0**-4, 2.0**-8])[:, None, None] * (i[None] - i[:, None])
    return np.asarray(np.einsum("bhqk,bhkd->bhqd", softmax(scores), v))


def cached_decode(
    q: Tensor, k: Tensor, v: Tensor, cache: Tensor, position: int
) -> tuple[Tensor, ...]:
    cache[0, :, :, position : position + 1].copy_(k)
    cache[1, :, :, position : position + 1] = v
    keys, values = cache[:, :, :, : position + 1]
    w = torch.softmax(q.float() @ keys.float().mT * D**-0.5, -1).to(q.dtype)
    return w @ values, cache


def cached_truth(q: Array, k: Array, v: Array, cache: Array, position: int) -> tuple[Array, Array]:
    cache = cache.copy()
    cache[0, :, :, position], cache[1, :, :, position] = k[:, :, 0], v[:, :, 0]
    return attend(q, cache[0, :, :, : position + 1], cache[1, :, :, : position + 1]), cache


def packed(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> Tensor:
    out = torch.empty_like(q)
    for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        s = torch.einsum("qhd,khd->hqk", q[low:high], k[low:high]).float() * D**-0.5
        out[low:high] = torch.einsum("hqk,khd->qhd", s.softmax(-1).to(q.dtype), v[low:high])
    return out


def packed_truth(q: Array, k: Array, v: Array, offsets: Array) -> Array:
    segment = np.searchsorted(offsets, np.arange(q.shape[0]), side="right")
    same = segment[:, None] == segment[None, :]
    q, k, v = (np.moveaxis(t, 1, 0)[None] for t in (q, k, v))
    return np.moveaxis(attend(q, k, v, same)[0], 0, 1)


def autocast_block(x: Tensor, w: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q, k, v = F.linear(x.float(), w.float()).chunk(3, dim=-1)
        p = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        return (p @ v).float()


def autocast_truth(x: Array, w: Array) -> Array:
    q, k, v = np.split(x @ w.T, 3, axis=-1)
    return np.asarray(softmax(np.einsum("bqd,bkd->bqk", q, k)) @ v)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q.float()) + 1, F.elu(k.float()) + 1
    kv = torch.cumsum(k.unsqueeze(-1) * v.float().unsqueeze(-2), dim=2)
    z = 1.0 / (q * k.cumsum(2)).sum(-1, keepdim=True)
    return ((q.unsqueeze(-2) @ kv).squeeze(-2) * z).to(v.dtype)


def linear_attention_truth(q: Array, k: Array, v: Array) -> Array:
    q, k = (np.where(t > 0, t + 1, np.exp(np.minimum(t, 0))) for t in (q, k))
    w = np.einsum("bhqd,bhkd->bhqk", q, k) * CAUSAL
    return np.asarray(np.einsum("bhqk,bhkd->bhqd", w / w.sum(-1, keepdims=True), v))


def rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rope_neox(q: Tensor, positions: Tensor) -> Tensor:
    inv_freq = 1.0 / (10000.0 ** (torch.arange(0, D, 2, dtype=torch.float32) / D))
    freqs = positions.float()[:, None] * inv_freq[None, :]
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos().to(q.dtype), emb.sin().to(q.dtype)
    return q * cos + rotate_half(q) * sin


def rope_interleaved(q: Tensor, positions: Tensor) -> Tensor:
    theta = torch.outer(
        positions.to(torch.float32), 10000.0 ** -(torch.arange(0, D, 2).float() / D)
    )
    even, odd = q.float()[..., ::2], q.float()[..., 1::2]
    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    out[..., 0::2] = even * theta.cos() - odd * theta.sin()
    out[..., 1::2] = even * theta.sin() + odd * theta.cos()
    return out.type_as(q)


def rope_complex(q: Tensor, positions: Tensor) -> Tensor:
    angles = torch.outer(positions.float(), 10000.0 ** -(torch.arange(0, D, 2).float() / D))
    freqs = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs).flatten(-2).type_as(q)


def rope_truth(q: Array, positions: Array, *, halves: bool) -> Array:
    angle = positions[:, None] * 10000.0 ** -(np.arange(0, D, 2) / D)
    pairs = q[..., : D // 2] + 1j * q[..., D // 2 :] if halves else q[..., ::2] + 1j * q[..., 1::2]
    turned = pairs * np.exp(1j * angle)
    parts = [turned.real, turned.imag]
    if halves:
        return np.concatenate(parts, -1)
    return np.stack(parts, -1).reshape(q.shape)


ATTENTION = (
    Reference(
        name="attention causal finfo",
        fn=causal_finfo,
        inputs=qkv,
        truth=lambda q, k, v: attend(q, k, v, CAUSAL).transpose(0, 2, 1, 3),
    ),
    Reference(
        name="attention padding additive",
        fn=padding_additive,
        inputs=lambda d: (*qkv(d), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]).bool()),
        truth=lambda q, k, v, keep: attend(q, k, v, keep[:, None, None, :]),
    ),
    Reference(
        name="attention soft-cap",
        fn=soft_cap,
        inputs=lambda d: (*qkv(d), 1.5),
        truth=lambda q, k, v, cap: attend(q, k, v, CAUSAL, cap),
    ),
    Reference(name="attention grouped", fn=grouped, inputs=gqa, truth=grouped_truth),
    Reference(
        name="attention sliding window",
        fn=sliding_window,
        inputs=qkv,
        truth=lambda q, k, v: attend(q, k, v, CAUSAL & ~np.tril(CAUSAL, -3)),
    ),
    Reference(
        name="sdpa causal",
        fn=sdpa_causal,
        inputs=qkv,
        truth=lambda q, k, v: attend(q, k, v, CAUSAL),
    ),
    Reference(
        name="sdpa masked grouped",
        fn=sdpa_masked_grouped,
        inputs=gqa,
        truth=lambda q, k, v: grouped_truth(q, k, v, CAUSAL),
    ),
    Reference(name="attention with lse", fn=with_lse, inputs=qkv, truth=with_lse_truth),
    Reference(
        name="attention backward autograd",
        fn=backward_autograd,
        inputs=lambda d: (*qkv(d), d.normal(B, H, S, D)),
        truth=backward_truth,
    ),
    Reference(name="attention alibi baddbmm", fn=alibi, inputs=qkv, truth=alibi_truth),
    Reference(
        name="attention decode into cache",
        fn=cached_decode,
        inputs=lambda d: (
            *(d.normal(B, H, 1, D) for _ in range(3)),
            d.normal(2, B, H, S, D),
            3,
        ),
        truth=cached_truth,
    ),
    Reference(
        name="attention packed",
        fn=packed,
        inputs=lambda d: (*(d.normal(7, H, D) for _ in range(3)), torch.tensor([0, 3, 4, 7])),
        truth=packed_truth,
    ),
    Reference(
        name="attention autocast",
        fn=autocast_block,
        inputs=lambda d: (d.normal(B, S, D), d.normal(3 * D, D)),
        truth=autocast_truth,
    ),
    Reference(
        name="linear attention cumsum",
        fn=linear_attention,
        inputs=qkv,
        truth=linear_attention_truth,
    ),
    Reference(
        name="rope neox",
        fn=rope_neox,
        inputs=lambda d: (d.normal(B, H, S, D), d.ids(100, S)),
        truth=lambda q, p: rope_truth(q, p, halves=True),
    ),
    Reference(
        name="rope interleaved",
        fn=rope_interleaved,
        inputs=lambda d: (d.normal(B, H, S, D), d.ids(100, S)),
        truth=lambda q, p: rope_truth(q, p, halves=False),
    ),
    Reference(
        name="rope complex",
        fn=rope_complex,
        inputs=lambda d: (d.normal(B, H, S, D), d.ids(100, S)),
        truth=lambda q, p: rope_truth(q, p, halves=False),
    ),
)
