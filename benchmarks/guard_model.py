"""The small transformer of the guard's benchmarks: fast operators, so that a guard weighs most.

Fused RMSNorm and attention of PyTorch, an embedding whose gradient is a function of its own.
`guarded()` puts every norm and the embedding gradient under guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Gradient = Callable[[Tensor, Tensor, int], Tensor]


def embedding_gradient(grad: Tensor, ids: Tensor, rows: int) -> Tensor:
    """Return the gradient of an embedding table, float32 (rows, hidden): the trusted operator."""
    out = torch.zeros(rows, grad.shape[1], dtype=torch.float32, device=grad.device)
    return out.index_add_(0, ids, grad.float())


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return RMSNorm over the last axis, written out in float32: the trusted operator."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(
        x.dtype
    )


def row_sum(x: Tensor) -> Tensor:
    """Return the sums of rows: a trusted operator of the soak test."""
    return x.sum(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the model is."""

    hidden: int = 512
    layers: int = 4
    heads: int = 8
    vocab: int = 16_384


class Norm(nn.Module):
    """PyTorch's fused RMSNorm: the kernel."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm of (..., hidden)."""
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class _Look(torch.autograd.Function):
    """Embedding look-up with a gradient of the caller's choice."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor, gradient: Gradient) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows, ctx.gradient = table.shape[0], gradient
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        (ids,) = ctx.saved_tensors
        return None, ctx.gradient(grad, ids, ctx.rows), None


class Block(nn.Module):
    """Attention and a gated MLP, each behind a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        hidden = size.hidden
        self.heads, self.norm, self.mlp_norm = size.heads, Norm(hidden), Norm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, x: Tensor, cache: list[Tensor] | None = None) -> Tensor:
        """Return (batch, length, hidden); `cache` holds keys and values of earlier tokens."""
        batch, length, hidden = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """Embedding, norm, blocks, norm, head."""

    def __init__(self, size: Size, gradient: Gradient = embedding_gradient) -> None:
        super().__init__()
        self.size, self.gradient = size, gradient
        self.table = nn.Parameter(torch.randn(size.vocab, size.hidden) * 0.5)
        self.norm, self.last = Norm(size.hidden), Norm(size.hidden)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.head = nn.Linear(size.hidden, size.vocab, bias=False)

    def forward(self, ids: Tensor, caches: list[list[Tensor]] | None = None) -> Tensor:
        """Return logits (batch, length, vocab)."""
        flat = ids.reshape(-1)
        x = _Look.apply(flat, self.table, self.gradient).view(*ids.shape, -1)
        x = self.norm(x)
        for index, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[index])
        return self.head(self.last(x))


def guarded(model: Model, **options: Any) -> Mapping[str, Any]:
    """Put every norm and the embedding gradient under guard; return the guards."""
    import cuassay

    spec = {"problem": None, "trusted": rms_norm, "arguments": ("weight", "eps")}
    guards = dict(cuassay.guard_module(model, {"*norm": spec, "last": spec}, **options))
    model.gradient = cuassay.guard(
        model.gradient, trusted=embedding_gradient, **{**options, "name": "embedding_gradient"}
    )
    guards["embedding_gradient"] = model.gradient
    return guards
