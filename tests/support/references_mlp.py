"""Gated activations, matrix products, mixture of experts, quantisation."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.references_base import (
    Array,
    Draw,
    Reference,
    erf,
    round_e4m3,
    sigmoid,
    softmax,
)


def swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate.float()).to(x.dtype) * up


def swiglu_in_place(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    out = torch.sigmoid(x[..., :half].float())
    out.mul_(x[..., :half])
    out *= x[..., half:]
    return out.to(x.dtype)


def swiglu_truth(x: Array) -> Array:
    gate, up = np.split(x, 2, axis=-1)
    return np.asarray(gate * sigmoid(gate) * up)


def swiglu_backward(x: Tensor, dy: Tensor) -> Tensor:
    x = x.detach().float().requires_grad_()
    a, b = x.split(x.shape[-1] // 2, dim=-1)  # type: ignore[no-untyped-call]
    (F.silu(a) * b).backward(dy.float())
    assert x.grad is not None
    return x.grad.to(dy.dtype)


def swiglu_backward_truth(x: Array, dy: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    s = sigmoid(a)
    return np.concatenate([dy * b * (s + a * s * (1 - s)), dy * a * s], -1)


def geglu_tanh(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh") * up


def geglu_truth(x: Array) -> Array:
    g, up = np.split(x, 2, axis=-1)
    inner = math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)
    return np.asarray(g * sigmoid(2 * inner) * up)


def gelu_erf(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_backward(x: Tensor, dy: Tensor) -> Tensor:
    (grad,) = torch.autograd.grad(F.gelu(x.requires_grad_()), x, dy)
    return grad


def gelu_backward_truth(x: Array, dy: Array) -> Array:
    cdf = 0.5 * (1 + erf(x / math.sqrt(2)))
    return np.asarray(dy * (cdf + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)))


def squared_relu(x: Tensor, limit: float) -> Tensor:
    return torch.square(F.relu(x.clamp(max=limit)))


def linear_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.linear(x, w, b)


def lora(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    y = x @ w.t()
    y += (x @ a.t() @ b.t()).mul_(2.0)
    return y


def split_k(a: Tensor, b: Tensor) -> Tensor:
    acc = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    for start in range(0, a.shape[1], 4):
        acc += a[:, start : start + 4].float() @ b[start : start + 4].float()
    return acc.to(a.dtype)


def addmm_out(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    torch.addmm(c, a, b, beta=0.5, alpha=2.0, out=out)
    return out


def bilinear_einsum(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("ni,oij,nj->no", x, w, y)


def moe_dense_loop(x: Tensor, router: Tensor, w1: Tensor, w2: Tensor, k: int) -> Tensor:
    logits = x @ router.t()
    weights = F.softmax(logits, dim=1, dtype=torch.float)
    weights, chosen = torch.topk(weights, k, dim=-1)
    weights /= weights.sum(dim=-1, keepdim=True)
    weights = weights.to(x.dtype)
    out = torch.zeros_like(x)
    one_hot = F.one_hot(chosen, num_classes=router.shape[0]).permute(2, 1, 0)
    for expert in range(router.shape[0]):
        slot, token = torch.where(one_hot[expert])
        hidden = F.silu(x[None, token].reshape(-1, x.shape[1]) @ w1[expert].t()) @ w2[expert].t()
        out.index_add_(0, token, (hidden * weights[token, slot, None]).to(x.dtype))
    return out


def moe_sorted(x: Tensor, router: Tensor, w1: Tensor, w2: Tensor, k: int) -> Tensor:
    gates, experts = (x.float() @ router.float().T).softmax(-1).topk(k)
    gates = gates / gates.sum(-1, keepdim=True)
    order = experts.flatten().argsort(stable=True)
    counts = torch.bincount(experts.flatten(), minlength=router.shape[0]).tolist()
    gathered = x[order // k].split(counts)  # type: ignore[no-untyped-call]
    made = [F.silu(part @ w1[e].T) @ w2[e].T for e, part in enumerate(gathered)]
    scattered = torch.cat(made).new_zeros(len(order), x.shape[1])
    scattered[order] = torch.cat(made)
    return (scattered.view(-1, k, x.shape[1]) * gates[..., None].to(x.dtype)).sum(1)


def moe_truth(x: Array, router: Array, w1: Array, w2: Array, k: int) -> Array:
    p = softmax(x @ router.T)
    out = np.zeros_like(x)
    for token, row in enumerate(p):
        best = np.argsort(-row)[:k]
        for expert in best:
            h = w1[expert] @ x[token]
            out[token] += row[expert] / row[best].sum() * (w2[expert] @ (h * sigmoid(h)))
    return out


def moe_inputs(d: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    return d.normal(6, 4), d.normal(5, 4), d.normal(5, 8, 4), d.normal(5, 4, 8), 2


def sigmoid_routing(logits: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    scores = logits.sigmoid()
    chosen = torch.topk(scores + bias.unsqueeze(0), k=3, dim=-1, sorted=True)[1]
    weights = scores.gather(1, chosen)
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * 2.5, chosen


def sigmoid_routing_truth(logits: Array, bias: Array) -> tuple[Array, Array]:
    scores = sigmoid(logits)
    chosen = np.argsort(-(scores + bias), axis=-1)[:, :3]
    weights = np.take_along_axis(scores, chosen, 1)
    return weights / weights.sum(-1, keepdims=True) * 2.5, chosen


def quantise_int8(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.float().abs().amax(dim=-1, keepdim=True) / 127.0
    q = torch.clamp(torch.round(x.float() / scale), -128, 127).to(torch.int8)
    return q, scale


def quantise_int8_truth(x: Array) -> tuple[Array, Array]:
    scale = np.abs(x).max(-1, keepdims=True) / 127.0
    return np.clip(np.rint(x / scale), -128, 127), scale


def int8_matmul(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    q, s = quantise_int8(x)
    acc = torch.matmul(q.to(torch.float32), w.to(torch.float32))
    return (acc.round() * s * scale).to(x.dtype)


def int8_matmul_truth(x: Array, w: Array, scale: Array) -> Array:
    q, s = quantise_int8_truth(x)
    return np.asarray(q @ w.astype(float) * s * scale)


def fake_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    amax = x.abs().float().amax(-1, keepdim=True).clamp(min=1e-4)
    scale = amax / torch.finfo(torch.float8_e4m3fn).max
    q = (x.float() / scale).to(torch.float8_e4m3fn)
    return q, (q.to(torch.float32) * scale).to(x.dtype)


def fake_fp8_truth(x: Array) -> tuple[Array, Array]:
    scale = np.abs(x).max(-1, keepdims=True) / 448.0
    return round_e4m3(x / scale), round_e4m3(x / scale) * scale


def unpack_int4(packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    low, high = packed & 0xF, packed >> 4
    nibbles = torch.stack((low, high), dim=-1).flatten(-2)
    return (nibbles.to(scale.dtype) - zero) * scale


def unpack_int4_truth(packed: Array, scale: Array, zero: Array) -> Array:
    wide = np.empty((packed.shape[0], packed.shape[1] * 2))
    wide[:, ::2], wide[:, 1::2] = packed % 16, packed // 16
    return np.asarray((wide - zero) * scale)


MLP = (
    Reference(name="swiglu", fn=swiglu, inputs=lambda d: (d.normal(3, 8),), truth=swiglu_truth),
    Reference(
        name="swiglu in place",
        fn=swiglu_in_place,
        inputs=lambda d: (d.normal(3, 8),),
        truth=swiglu_truth,
    ),
    Reference(
        name="swiglu backward",
        fn=swiglu_backward,
        inputs=lambda d: (d.normal(3, 8), d.normal(3, 4)),
        truth=swiglu_backward_truth,
    ),
    Reference(
        name="geglu tanh", fn=geglu_tanh, inputs=lambda d: (d.normal(3, 8),), truth=geglu_truth
    ),
    Reference(
        name="gelu erf",
        fn=gelu_erf,
        inputs=lambda d: (d.normal(3, 8),),
        truth=lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    ),
    Reference(
        name="gelu backward",
        fn=gelu_backward,
        inputs=lambda d: (d.normal(3, 8), d.normal(3, 8)),
        truth=gelu_backward_truth,
    ),
    Reference(
        name="squared relu",
        fn=squared_relu,
        inputs=lambda d: (d.normal(3, 8), 0.7),
        truth=lambda x, limit: np.clip(x, 0, limit) ** 2,
    ),
    Reference(
        name="linear bias",
        fn=linear_bias,
        inputs=lambda d: (d.normal(3, 8), d.normal(5, 8), d.normal(5)),
        truth=lambda x, w, b: np.einsum("ij,kj->ik", x, w) + b,
    ),
    Reference(
        name="lora",
        fn=lora,
        inputs=lambda d: (d.normal(3, 8), d.normal(5, 8), d.normal(2, 8), d.normal(5, 2)),
        truth=lambda x, w, a, b: x @ (w + 2 * b @ a).T,
    ),
    Reference(
        name="split-k matmul",
        fn=split_k,
        inputs=lambda d: (d.normal(3, 10), d.normal(10, 4)),
        truth=lambda a, b: a @ b,
    ),
    Reference(
        name="addmm out",
        fn=addmm_out,
        inputs=lambda d: (d.normal(3, 8), d.normal(8, 4), d.normal(3, 4)),
        truth=lambda a, b, c: 0.5 * c + 2 * (a @ b),
    ),
    Reference(
        name="bilinear einsum",
        fn=bilinear_einsum,
        inputs=lambda d: (d.normal(3, 4), d.normal(2, 4, 5), d.normal(3, 5)),
        truth=lambda x, w, y: np.stack([(x @ m * y).sum(-1) for m in w], -1),
    ),
    Reference(name="moe dense loop", fn=moe_dense_loop, inputs=moe_inputs, truth=moe_truth),
    Reference(name="moe sorted", fn=moe_sorted, inputs=moe_inputs, truth=moe_truth),
    Reference(
        name="sigmoid routing",
        fn=sigmoid_routing,
        inputs=lambda d: (d.wide(4, 8), d.wide(8, scale=0.1)),
        truth=sigmoid_routing_truth,
    ),
    Reference(
        name="quantise int8",
        fn=quantise_int8,
        inputs=lambda d: (d.normal(3, 8),),
        truth=quantise_int8_truth,
    ),
    Reference(
        name="int8 matmul",
        fn=int8_matmul,
        inputs=lambda d: (d.normal(3, 8), d.ids(200, 8, 4).sub(100).to(torch.int8), d.positive(4)),
        truth=int8_matmul_truth,
    ),
    Reference(
        name="fake fp8", fn=fake_fp8, inputs=lambda d: (d.normal(3, 8),), truth=fake_fp8_truth
    ),
    Reference(
        name="unpack int4",
        fn=unpack_int4,
        inputs=lambda d: (d.ids(256, 3, 4).to(torch.uint8), d.normal(3, 1), d.normal(3, 1)),
        truth=unpack_int4_truth,
    ),
)
