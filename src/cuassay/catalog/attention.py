"""Soft-max attention (Vaswani et al., arXiv 1706.03762): causal, grouped, windowed, capped, varlen.

Scores and soft-max are float32; probabilities are rounded to the working dtype before they
meet the values, as tensor cores need them and as eager transformers do. Keys are `past` tokens
longer than queries: query i sees keys up to i + past.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Offsets, Real
from cuassay.model.relation import Conserves, LinearIn, RowsIndependent

# Beyond this size scores leave the range in which float32 can tell them apart.
QK = Real(low=-30.0, high=30.0)

_AXES = {
    "queries": (1, 131_072),
    "past": (0, 131_072),
    "dim": (1, 512),
    "kv_heads": (1, 128),
    "batch": (1, 4),
    "group": (1, 8),
}
# The first two are for CPUs; then Llama-3 8B, Llama-3 70B on 8 GPUs, Qwen-2.5 7B, Gemma-2 9B.
_WORKLOADS = (
    {"batch": 1, "kv_heads": 2, "group": 2, "queries": 16, "past": 8, "dim": 32},
    {"batch": 2, "kv_heads": 1, "group": 2, "queries": 40, "past": 50, "dim": 64},
    {"batch": 1, "kv_heads": 8, "group": 4, "queries": 2048, "past": 128, "dim": 128},
    {"batch": 4, "kv_heads": 1, "group": 8, "queries": 1024, "past": 1024, "dim": 128},
    {"batch": 1, "kv_heads": 4, "group": 7, "queries": 2048, "past": 1, "dim": 128},
    {"batch": 1, "kv_heads": 8, "group": 2, "queries": 1024, "past": 1024, "dim": 256},
)
_Query = Annotated[
    torch.Tensor, tensor("bfloat16", "batch", "kv_heads*group", "queries", "dim", domain=QK)
]
_Key = Annotated[
    torch.Tensor, tensor("bfloat16", "batch", "kv_heads", "queries+past", "dim", domain=QK)
]
_Value = Annotated[torch.Tensor, tensor("bfloat16", "batch", "kv_heads", "queries+past", "dim")]
_Output = Annotated[
    torch.Tensor, tensor("bfloat16", "batch", "kv_heads*group", "queries", "dim", name="output")
]
_Scale = Annotated[float, scalar("float32", low=0.02, high=0.5, default=0.125)]


def visible(queries: int, keys: int, *, window: int, device: torch.device) -> torch.Tensor:
    """Return which key (columns) each query (rows) sees: its `window` latest ones."""
    last = torch.arange(queries, device=device).unsqueeze(1) + (keys - queries)
    places = torch.arange(keys, device=device)
    return (places <= last) & (places > last - window)


def grouped(heads: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """Return (batch, kv_heads, group, length, dim) of (batch, heads, length, dim), float32."""
    batch, count, length, dim = heads.shape
    return heads.to(torch.float32).reshape(batch, kv_heads, count // kv_heads, length, dim)


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, cap: float, window: int
) -> torch.Tensor:
    keys, values = (t.to(torch.float32).unsqueeze(2) for t in (k, v))
    scores = grouped(q, k.shape[1]) @ keys.transpose(-1, -2) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    seen = visible(q.shape[2], k.shape[2], window=window, device=q.device)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1).to(q.dtype)
    return (weights.to(torch.float32) @ values).to(q.dtype).reshape(q.shape)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("past",),
    growth_target={"past": 131_072},
    relations=(
        RowsIndependent(axis="batch"),
        LinearIn(input="v"),
        Conserves(input="v"),
    ),
)
def attention(q: _Query, k: _Key, v: _Value, scale: _Scale) -> _Output:
    """Causal attention; `group` query heads share one key and value head (GQA, MQA, MHA)."""
    return _attend(q, k, v, scale=scale, cap=0.0, window=k.shape[2])


@problem(
    axes=_AXES,
    workloads=tuple({**w, "window": 12 if w["queries"] < 100 else 1024} for w in _WORKLOADS),
    relations=(
        RowsIndependent(axis="batch"),
        Conserves(input="v"),
    ),
)
def attention_window_softcap(
    q: _Query,
    k: _Key,
    v: _Value,
    scale: _Scale,
    cap: Annotated[float, scalar("float32", low=5.0, high=100.0, default=50.0)],
    window: Annotated[int, scalar("int32", low=1, high=8192, default=12)],
) -> _Output:
    """Causal attention to the latest `window` keys, scores soft-capped (Gemma 2)."""
    return _attend(q, k, v, scale=scale, cap=cap, window=window)


@problem(
    axes={
        "sequences": (1, 4096),
        "dim": (1, 512),
        "total": (1, 1_048_576),
        "kv_heads": (1, 128),
        "group": (1, 8),
    },
    # The first is for CPUs; then Llama-3 8B and Qwen-2.5 72B on 8 GPUs.
    workloads=(
        {"sequences": 4, "total": 72, "kv_heads": 2, "group": 2, "dim": 32},
        {"sequences": 16, "total": 2048, "kv_heads": 8, "group": 4, "dim": 128},
        {"sequences": 64, "total": 4096, "kv_heads": 1, "group": 8, "dim": 128},
    ),
    relations=(
        LinearIn(input="v"),
        Conserves(input="v"),
    ),
)
def attention_varlen(
    q: Annotated[torch.Tensor, tensor("bfloat16", "total", "kv_heads*group", "dim", domain=QK)],
    k: Annotated[torch.Tensor, tensor("bfloat16", "total", "kv_heads", "dim", domain=QK)],
    v: Annotated[torch.Tensor, tensor("bfloat16", "total", "kv_heads", "dim")],
    cu_seqlens: Annotated[
        torch.Tensor, tensor("int32", "sequences+1", domain=Offsets(axis="total"))
    ],
    scale: _Scale,
) -> Annotated[torch.Tensor, tensor("bfloat16", "total", "kv_heads*group", "dim", name="output")]:
    """Causal attention within each of the packed sequences between offsets `cu_seqlens`."""
    total, heads, dim = q.shape
    places = torch.arange(total, device=q.device)
    owner = torch.searchsorted(cu_seqlens[1:].long().contiguous(), places, right=True)
    seen = (owner.unsqueeze(1) == owner) & (places <= places.unsqueeze(1))
    queries = grouped(q.transpose(0, 1).unsqueeze(0), k.shape[1])
    keys, values = (t.to(torch.float32).transpose(0, 1).unsqueeze(1) for t in (k, v))
    scores = queries[0] @ keys.transpose(-1, -2) * scale
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1).to(q.dtype)
    mixed = weights.to(torch.float32) @ values
    return mixed.reshape(heads, total, dim).transpose(0, 1).to(q.dtype).contiguous()
