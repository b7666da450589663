"""Losses, optimizer steps, embeddings and their gradients."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.references_base import Array, Draw, Reference, logsumexp, sigmoid, softmax
from tests.support.references_norms import rmsnorm_backward_hand_truth

LABELS = torch.tensor([1, 4, -100, 0])


def log_prob(x: Array) -> Array:
    return np.asarray(x - logsumexp(x)[..., None])


def ce_functional(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), labels, ignore_index=-100)


def ce_truth(logits: Array, labels: Array) -> Array:
    keep = np.flatnonzero(labels != -100)
    return np.asarray(-log_prob(logits)[keep, labels[keep]].mean())


def ce_smoothed_hand(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    logp = F.log_softmax(logits, dim=-1, dtype=torch.float32)
    valid = labels != -100
    nll = -logp.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    loss = (1.0 - smoothing) * nll - smoothing * logp.mean(dim=-1)
    return loss.masked_fill(~valid, 0.0).sum() / valid.sum()


def ce_smoothed_truth(logits: Array, labels: Array, smoothing: float) -> Array:
    n, v = logits.shape
    target = np.full((n, v), smoothing / v)
    keep = np.flatnonzero(labels != -100)
    target[keep, labels[keep]] += 1 - smoothing
    return np.asarray(-(target * log_prob(logits))[keep].sum() / len(keep))


def ce_backward(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
    logits = logits.detach().requires_grad_()
    loss = F.cross_entropy(logits.float(), labels, reduction="sum")
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), logits.grad


def ce_backward_truth(logits: Array, labels: Array) -> tuple[Array, Array]:
    keep = labels != -100
    grad = softmax(logits) * keep[:, None]
    grad[keep, labels[keep]] -= 1
    return ce_truth(logits, labels) * keep.sum(), grad


def z_loss(logits: Tensor, labels: Tensor) -> Tensor:
    lse = torch.logsumexp(logits.float(), dim=-1)
    picked = logits.float()[torch.arange(len(logits)), labels.clamp_min(0)]
    return ((lse - picked + 1e-4 * lse**2) * (labels >= 0)).to(logits.dtype)


def z_loss_truth(logits: Array, labels: Array) -> Array:
    picked = -log_prob(logits)[np.arange(len(labels)), np.maximum(labels, 0)]
    return np.where(labels >= 0, picked + 1e-4 * logsumexp(logits) ** 2, 0)


def nll(logits: Tensor, labels: Tensor) -> Tensor:
    return F.nll_loss(F.log_softmax(logits, dim=1), labels, reduction="none")


def nll_truth(logits: Array, labels: Array) -> Array:
    picked = -log_prob(logits)[np.arange(len(labels)), np.maximum(labels, 0)]
    return np.where(labels < 0, 0.0, picked)


def kl(p: Tensor, q: Tensor) -> Tensor:
    return F.kl_div(
        F.log_softmax(p.float(), -1),
        F.log_softmax(q.float(), -1),
        reduction="batchmean",
        log_target=True,
    )


def kl_truth(p: Array, q: Array) -> Array:
    return np.asarray((softmax(q) * (log_prob(q) - log_prob(p))).sum() / len(p))


def contrastive(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    a, b = F.normalize(a.float(), dim=-1), F.normalize(b.float(), dim=-1)
    logits = a @ b.t() / temperature
    targets = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.t(), targets)) / 2


def contrastive_truth(a: Array, b: Array, temperature: float) -> Array:
    a, b = (t / np.linalg.norm(t, axis=-1, keepdims=True) for t in (a, b))
    s = a @ b.T / temperature
    return np.asarray(-(np.diag(log_prob(s)).mean() + np.diag(log_prob(s.T)).mean()) / 2)


def bce(x: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x.float(), target.float(), reduction="none").mean(-1)


def bce_truth(x: Array, target: Array) -> Array:
    p = sigmoid(x)
    return np.asarray(-np.where(target, np.log(p), np.log(1 - p)).mean(-1))


def huber(x: Tensor, y: Tensor) -> Tensor:
    d = (x - y).abs().float()
    return torch.where(d < 1.0, 0.5 * d * d, d - 0.5).sum(dim=-1).to(x.dtype)


def huber_truth(x: Array, y: Array) -> Array:
    d = np.abs(x - y)
    return np.asarray((np.minimum(d, 1) * (d - np.minimum(d, 1) / 2)).sum(-1))


@torch.no_grad()
def adamw(p: Tensor, g: Tensor, m: Tensor, v: Tensor, step: int) -> tuple[Tensor, ...]:
    grad = g.to(torch.float32)
    p.mul_(1 - 1e-3 * 0.01)
    m.mul_(0.9).add_(grad, alpha=0.1)
    v.mul_(0.999).addcmul_(grad, grad, value=1 - 0.999)
    denominator = (v / (1 - 0.999**step)).sqrt_().add_(1e-8)
    p.addcdiv_(m / (1 - 0.9**step), denominator, value=-1e-3)
    return p, m, v


def adamw_truth(p: Array, g: Array, m: Array, v: Array, step: int) -> tuple[Array, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    update = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return p - 1e-3 * (update + 0.01 * p), m, v


def adamw_module(p: Tensor, g: Tensor) -> Tensor:
    parameter = torch.nn.Parameter(p.float())
    optimizer = torch.optim.AdamW([parameter], lr=0.1, weight_decay=0.0)
    parameter.grad = g.float()
    optimizer.step()
    return parameter.detach()


def sgd(p: Tensor, g: Tensor, buffer: Tensor) -> tuple[Tensor, Tensor]:
    g = g.float().add(p, alpha=0.01)
    buffer.mul_(0.9).add_(g)
    return p - 0.1 * (g + 0.9 * buffer).to(p.dtype), buffer


def sgd_truth(p: Array, g: Array, buffer: Array) -> tuple[Array, Array]:
    g = g + 0.01 * p
    buffer = 0.9 * buffer + g
    return p - 0.1 * g - 0.09 * buffer, buffer


def lion(p: Tensor, g: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    update = torch.sign(m * 0.9 + g.to(m.dtype) * 0.1)
    return p.add(update.to(p.dtype), alpha=-1e-2), m.lerp(g.to(m.dtype), 0.01)


def lion_truth(p: Array, g: Array, m: Array) -> tuple[Array, Array]:
    return p - 0.01 * np.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g


def clip_norm(a: Tensor, b: Tensor, limit: float) -> list[Tensor]:
    total = torch.linalg.vector_norm(torch.stack([t.float().norm(2) for t in (a, b)]))
    scale = torch.clamp(limit / (total + 1e-6), max=1.0)
    return [t.mul_(scale.to(t.dtype)) for t in (a, b)]


def clip_truth(a: Array, b: Array, limit: float) -> tuple[Array, Array]:
    total = np.sqrt((a**2).sum() + (b**2).sum())
    scale = min(1.0, limit / (total + 1e-6))
    return a * scale, b * scale


def embedding(ids: Tensor, table: Tensor) -> Tensor:
    return F.embedding(ids, table) * torch.tensor(table.shape[1] ** 0.5, dtype=table.dtype)


def embedding_backward(ids: Tensor, dy: Tensor, count: int) -> Tensor:
    grad = torch.zeros((count, dy.shape[-1]), dtype=torch.float32, device=dy.device)
    grad.index_add_(0, ids.reshape(-1), dy.reshape(-1, dy.shape[-1]).to(torch.float32))
    return grad.to(torch.bfloat16)


def embedding_backward_autograd(ids: Tensor, dy: Tensor, count: int) -> Tensor:
    table = torch.zeros(count, dy.shape[-1], dtype=dy.dtype, requires_grad=True)
    F.embedding(ids, table).backward(dy)  # type: ignore[no-untyped-call]
    assert table.grad is not None
    return table.grad


def embedding_backward_truth(ids: Array, dy: Array, count: int) -> Array:
    out = np.zeros((count, dy.shape[-1]))
    for position in np.ndindex(*ids.shape):
        out[ids[position]] += dy[position]
    return out


def fused_embedding_rmsnorm(
    dy: Tensor, ids: Tensor, x: Tensor, rstd: Tensor, w: Tensor
) -> tuple[Tensor, Tensor]:
    g = dy.float() * w.float()
    xhat = x * rstd[..., None]
    dx = rstd[..., None] * (g - xhat * torch.mean(g * xhat, dim=-1, keepdim=True))
    table = torch.zeros(7, x.shape[-1], dtype=torch.float32)
    table.index_put_((ids,), dx, accumulate=True)
    return table.bfloat16(), (dy.float() * xhat).sum(dim=0).bfloat16()


def fused_truth(dy: Array, ids: Array, x: Array, rstd: Array, w: Array) -> tuple[Array, Array]:
    dx, dw = rmsnorm_backward_hand_truth(dy, x, rstd, w)
    return embedding_backward_truth(ids, dx, 7), dw


def logits(d: Draw) -> tuple[Tensor, Tensor]:
    return d.normal(4, 6, scale=3.0), LABELS


TRAINING = (
    Reference(name="cross entropy ignore", fn=ce_functional, inputs=logits, truth=ce_truth),
    Reference(
        name="cross entropy smoothed",
        fn=ce_smoothed_hand,
        inputs=lambda d: (*logits(d), 0.1),
        truth=ce_smoothed_truth,
    ),
    Reference(
        name="cross entropy backward", fn=ce_backward, inputs=logits, truth=ce_backward_truth
    ),
    Reference(name="z loss", fn=z_loss, inputs=logits, truth=z_loss_truth),
    Reference(name="log softmax nll", fn=nll, inputs=logits, truth=nll_truth),
    Reference(name="kl", fn=kl, inputs=lambda d: (d.normal(4, 6), d.normal(4, 6)), truth=kl_truth),
    Reference(
        name="contrastive",
        fn=contrastive,
        inputs=lambda d: (d.normal(4, 6), d.normal(4, 6), 0.5),
        truth=contrastive_truth,
    ),
    Reference(
        name="binary cross entropy",
        fn=bce,
        inputs=lambda d: (d.normal(4, 6), d.mask(4, 6)),
        truth=bce_truth,
    ),
    Reference(
        name="huber",
        fn=huber,
        inputs=lambda d: (d.normal(4, 6), d.normal(4, 6)),
        truth=huber_truth,
    ),
    Reference(
        name="adamw in place",
        fn=adamw,
        inputs=lambda d: (d.normal(8), d.normal(8), d.wide(8), d.positive(8), 3),
        truth=adamw_truth,
    ),
    Reference(
        name="adamw module",
        fn=adamw_module,
        inputs=lambda d: (d.normal(8), d.normal(8)),
        truth=lambda p, g: p - 0.1 * g / (np.abs(g) + 1e-8),
    ),
    Reference(
        name="sgd nesterov",
        fn=sgd,
        inputs=lambda d: (d.normal(8), d.normal(8), d.wide(8)),
        truth=sgd_truth,
    ),
    Reference(
        name="lion",
        fn=lion,
        inputs=lambda d: (d.normal(8), d.normal(8), d.wide(8)),
        truth=lion_truth,
    ),
    Reference(
        name="clip norm",
        fn=clip_norm,
        inputs=lambda d: (d.normal(3, 4), d.normal(5), 1.0),
        truth=clip_truth,
    ),
    Reference(
        name="embedding scaled",
        fn=embedding,
        inputs=lambda d: (d.ids(7, 2, 3), d.normal(7, 5)),
        truth=lambda ids, table: table[ids] * np.sqrt(5.0),
    ),
    Reference(
        name="embedding backward index_add",
        fn=embedding_backward,
        inputs=lambda d: (d.ids(7, 2, 9), d.normal(2, 9, 4), 7),
        truth=embedding_backward_truth,
    ),
    Reference(
        name="embedding backward autograd",
        fn=embedding_backward_autograd,
        inputs=lambda d: (d.ids(7, 2, 9), d.normal(2, 9, 4), 7),
        truth=embedding_backward_truth,
    ),
    Reference(
        name="fused embedding rmsnorm backward",
        fn=fused_embedding_rmsnorm,
        inputs=lambda d: (
            d.normal(9, 4),
            d.ids(7, 9),
            d.wide(9, 4),
            d.positive(9),
            d.normal(4),
        ),
        truth=fused_truth,
    ),
)
