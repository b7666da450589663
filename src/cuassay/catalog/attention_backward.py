"""Gradients of causal grouped attention (Dao, arXiv 2307.08691, section 2.3.2)."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.catalog.attention import QK, grouped, visible
from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.relation import LinearIn, RowsIndependent

_HEADS = ("batch", "kv_heads*group", "queries", "dim")
_KEYS = ("batch", "kv_heads", "queries+past", "dim")


@problem(
    axes={
        "queries": (1, 131_072),
        "past": (0, 131_072),
        "dim": (1, 512),
        "kv_heads": (1, 128),
        "batch": (1, 4),
        "group": (1, 8),
    },
    # The first two are for CPUs; then Llama-3 8B and Qwen-2.5 7B in training.
    workloads=(
        {"batch": 1, "kv_heads": 2, "group": 2, "queries": 16, "past": 8, "dim": 32},
        {"batch": 2, "kv_heads": 1, "group": 2, "queries": 40, "past": 50, "dim": 64},
        {"batch": 1, "kv_heads": 8, "group": 4, "queries": 1024, "past": 1, "dim": 128},
        {"batch": 1, "kv_heads": 4, "group": 7, "queries": 1024, "past": 1, "dim": 128},
    ),
    reduction_axes=("past",),
    growth_target={"past": 131_072},
    relations=(
        RowsIndependent(axis="batch"),
        LinearIn(input="grad_output"),
    ),
)
def attention_backward(
    grad_output: Annotated[torch.Tensor, tensor("bfloat16", *_HEADS)],
    q: Annotated[torch.Tensor, tensor("bfloat16", *_HEADS, domain=QK)],
    k: Annotated[torch.Tensor, tensor("bfloat16", *_KEYS, domain=QK)],
    v: Annotated[torch.Tensor, tensor("bfloat16", *_KEYS)],
    scale: Annotated[float, scalar("float32", low=0.02, high=0.5, default=0.125)],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", *_HEADS, name="grad_q")],
    Annotated[torch.Tensor, tensor("bfloat16", *_KEYS, name="grad_k")],
    Annotated[torch.Tensor, tensor("bfloat16", *_KEYS, name="grad_v")],
]:
    """Gradients of causal attention, the forward pass recomputed from q, k and v.

    Output, probabilities and score gradients are rounded to the working dtype where the
    matrix products of a flash kernel read them.
    """
    low, kv_heads = q.dtype, k.shape[1]
    keys, values = (t.to(torch.float32).unsqueeze(2) for t in (k, v))
    queries, grad = grouped(q, kv_heads), grouped(grad_output, kv_heads)
    scores = queries @ keys.transpose(-1, -2) * scale
    seen = visible(q.shape[2], k.shape[2], window=k.shape[2], device=q.device)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
    rounded = weights.to(low).to(torch.float32)
    output = (rounded @ values).to(low).to(torch.float32)
    delta = (grad * output).sum(dim=-1, keepdim=True)
    grad_weights = grad @ values.transpose(-1, -2)
    grad_scores = (weights * (grad_weights - delta)).to(low).to(torch.float32)
    grad_q = (grad_scores @ keys * scale).reshape(q.shape)
    grad_k = (grad_scores.transpose(-1, -2) @ queries * scale).sum(dim=2)
    grad_v = (rounded.transpose(-1, -2) @ grad).sum(dim=2)
    return grad_q.to(low), grad_k.to(low), grad_v.to(low)
