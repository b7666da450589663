"""Normalisations and softmax, forward and backward, by hand and by autograd."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.references_base import Array, Reference, softmax


def rmsnorm_explicit(x: Tensor, w: Tensor, eps: float) -> Tensor:
    input_dtype = x.dtype
    h = x.to(torch.float32)
    variance = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(variance + eps)
    return w * h.to(input_dtype)


def rmsnorm_functional(x: Tensor, w: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight=w, eps=eps)


def rmsnorm_gemma(x: Tensor, w: Tensor, eps: float) -> Tensor:
    y = x.float() * torch.rsqrt((x.float() ** 2).mean(dim=-1, keepdim=True) + eps)
    return (y * (1.0 + w.float())).type_as(x)


def rmsnorm_truth(x: Array, w: Array, eps: float) -> Array:
    return np.asarray(x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * w)


def layernorm_hand(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    h = x.float()
    mean = h.mean(dim=-1, keepdim=True)
    var = h.var(dim=-1, unbiased=False, keepdim=True)
    return ((h - mean) / torch.sqrt(var + 1e-5) * w.float() + b.float()).to(x.dtype)


def layernorm_functional(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


def layernorm_truth(x: Array, w: Array, b: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b)


def rmsnorm_backward_hand(dy: Tensor, x: Tensor, rstd: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    xf, dyf, wf = x.float(), dy.float(), w.float()
    xhat = xf * rstd.unsqueeze(-1)
    wdy = dyf * wf
    c = (wdy * xhat).mean(-1, keepdim=True)
    dx = (wdy - xhat * c) * rstd.unsqueeze(-1)
    return dx.to(x.dtype), (dyf * xhat).sum(0).to(w.dtype)


def rmsnorm_backward_hand_truth(dy: Array, x: Array, rstd: Array, w: Array) -> tuple[Array, Array]:
    n = x.shape[-1]
    dot = np.einsum("ij,j,ij->i", dy, w, x)
    dx = rstd[:, None] * dy * w - (rstd**3 * dot / n)[:, None] * x
    return dx, np.einsum("ij,ij,i->j", dy, x, rstd)


def rmsnorm_backward_autograd(dy: Tensor, x: Tensor, w: Tensor, eps: float) -> list[Tensor]:
    x = x.detach().requires_grad_(True)
    w = w.detach().requires_grad_(True)
    with torch.enable_grad():
        y = rmsnorm_explicit(x, w, eps)
    return list(torch.autograd.grad(y, (x, w), grad_outputs=dy))


def rmsnorm_backward_truth(dy: Array, x: Array, w: Array, eps: float) -> tuple[Array, Array]:
    rstd = 1.0 / np.sqrt((x * x).mean(-1) + eps)
    return rmsnorm_backward_hand_truth(dy, x, rstd, w)


def layernorm_backward_autograd(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor | None, ...]:
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    F.layer_norm(x, (x.size(-1),), w, None).backward(dy)  # type: ignore[no-untyped-call]
    return x.grad, w.grad


def layernorm_backward_truth(dy: Array, x: Array, w: Array) -> tuple[Array, Array]:
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1.0 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    xhat, g = centred * rstd, dy * w
    dx = rstd * (g - g.mean(-1, keepdims=True) - xhat * (g * xhat).mean(-1, keepdims=True))
    return dx, (dy * xhat).sum(0)


def add_rmsnorm(x: Tensor, residual: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    residual.add_(x)
    return rmsnorm_explicit(residual, w, 1e-6), residual


def add_rmsnorm_truth(x: Array, residual: Array, w: Array) -> tuple[Array, Array]:
    return rmsnorm_truth(x + residual, w, 1e-6), x + residual


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 2, w, b, eps=1e-5)


def group_norm_truth(x: Array, w: Array, b: Array) -> Array:
    n, c, length = x.shape
    g = x.reshape(n, 2, -1)
    g = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)
    return np.asarray(g.reshape(n, c, length) * w[:, None] + b[:, None])


def batch_norm_eval(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x.float(), mean, var, w.float(), b.float(), training=False).to(x.dtype)


def batch_norm_truth(x: Array, mean: Array, var: Array, w: Array, b: Array) -> Array:
    scale = w / np.sqrt(var + 1e-5)
    return np.asarray(x * scale[:, None] + (b - mean * scale)[:, None])


def batch_norm_train(x: Tensor) -> tuple[Tensor, Tensor]:
    running_mean, running_var = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    y = F.batch_norm(x.float(), running_mean, running_var, training=True, momentum=0.1)
    return y.to(x.dtype), running_mean


def batch_norm_train_truth(x: Array) -> tuple[Array, Array]:
    mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5), 0.1 * mean.ravel()


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    return F.cosine_similarity(a.float(), b.float(), dim=-1, eps=1e-8).to(a.dtype)


def cosine_truth(a: Array, b: Array) -> Array:
    return np.asarray((a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1))


def softmax_hand(x: Tensor, scale: float) -> Tensor:
    s = x.float().mul(scale)
    s = s - s.max(dim=-1, keepdim=True).values
    e = torch.exp(s)
    return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)


def softmax_wide(x: Tensor, scale: float) -> Tensor:
    return F.softmax(x * scale, dim=-1, dtype=torch.float32).to(x.dtype)


def softmax_half_to_float(x: Tensor, scale: float) -> Tensor:
    return torch.softmax(x, -1, dtype=torch.float32) * scale


def softcap_softmax(x: Tensor, cap: float) -> Tensor:
    x = cap * torch.tanh(x / cap)
    return torch.nn.functional.softmax(x.float(), dim=-1).to(x.dtype)


def softmax_backward_hand(dy: Tensor, y: Tensor) -> Tensor:
    dyf, yf = dy.float(), y.float()
    return (yf * (dyf - (dyf * yf).sum(-1, keepdim=True))).to(y.dtype)


NORMS = (
    Reference(
        name="rmsnorm explicit",
        fn=rmsnorm_explicit,
        inputs=lambda d: (d.normal(3, 16), d.normal(16), 1e-6),
        truth=rmsnorm_truth,
    ),
    Reference(
        name="rmsnorm functional",
        fn=rmsnorm_functional,
        inputs=lambda d: (d.normal(3, 16), d.normal(16), 1e-6),
        truth=rmsnorm_truth,
    ),
    Reference(
        name="rmsnorm gemma",
        fn=rmsnorm_gemma,
        inputs=lambda d: (d.normal(3, 16, scale=1e-3), d.normal(16), 1e-6),
        truth=lambda x, w, eps: rmsnorm_truth(x, 1.0 + w, eps),
    ),
    Reference(
        name="layernorm hand",
        fn=layernorm_hand,
        inputs=lambda d: (d.normal(3, 16), d.normal(16), d.normal(16)),
        truth=layernorm_truth,
    ),
    Reference(
        name="layernorm functional",
        fn=layernorm_functional,
        inputs=lambda d: (d.normal(3, 16), d.normal(16), d.normal(16)),
        truth=layernorm_truth,
    ),
    Reference(
        name="rmsnorm backward hand",
        fn=rmsnorm_backward_hand,
        inputs=lambda d: (d.normal(5, 8), d.wide(5, 8), d.positive(5), d.normal(8)),
        truth=rmsnorm_backward_hand_truth,
    ),
    Reference(
        name="rmsnorm backward autograd",
        fn=rmsnorm_backward_autograd,
        inputs=lambda d: (d.normal(5, 8), d.normal(5, 8), d.normal(8), 1e-5),
        truth=rmsnorm_backward_truth,
    ),
    Reference(
        name="layernorm backward autograd",
        fn=layernorm_backward_autograd,
        inputs=lambda d: (d.normal(5, 8), d.normal(5, 8), d.normal(8)),
        truth=layernorm_backward_truth,
    ),
    Reference(
        name="add rmsnorm in place",
        fn=add_rmsnorm,
        inputs=lambda d: (d.normal(5, 8), d.normal(5, 8), d.normal(8)),
        truth=add_rmsnorm_truth,
    ),
    Reference(
        name="group norm",
        fn=group_norm,
        inputs=lambda d: (d.normal(2, 4, 5), d.normal(4), d.normal(4)),
        truth=group_norm_truth,
    ),
    Reference(
        name="batch norm eval",
        fn=batch_norm_eval,
        inputs=lambda d: (d.normal(2, 4, 5), d.wide(4), d.positive(4), d.normal(4), d.normal(4)),
        truth=batch_norm_truth,
    ),
    Reference(
        name="batch norm train",
        fn=batch_norm_train,
        inputs=lambda d: (d.normal(2, 4, 5),),
        truth=batch_norm_train_truth,
    ),
    Reference(
        name="cosine similarity",
        fn=cosine_similarity,
        inputs=lambda d: (d.normal(4, 8), d.normal(4, 8)),
        truth=cosine_truth,
    ),
    Reference(
        name="softmax hand",
        fn=softmax_hand,
        inputs=lambda d: (d.normal(4, 9), 0.125),
        truth=lambda x, scale: softmax(x * scale),
    ),
    Reference(
        name="softmax wide",
        fn=softmax_wide,
        inputs=lambda d: (d.normal(4, 9), 2.0),
        truth=lambda x, scale: softmax(x * scale),
    ),
    Reference(
        name="softmax half to float",
        fn=softmax_half_to_float,
        inputs=lambda d: (d.normal(4, 9), 2.0),
        truth=lambda x, scale: softmax(x) * scale,
    ),
    Reference(
        name="softcap softmax",
        fn=softcap_softmax,
        inputs=lambda d: (d.normal(4, 9, scale=20.0), 30.0),
        truth=lambda x, cap: softmax(cap * np.tanh(x / cap)),
    ),
    Reference(
        name="softmax backward hand",
        fn=softmax_backward_hand,
        inputs=lambda d: (d.normal(4, 9), d.normal(4, 9)),
        truth=lambda dy, y: y * dy - y * np.einsum("ij,ij->i", y, dy)[:, None],
    ),
)
