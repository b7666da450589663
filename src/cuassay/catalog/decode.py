"""Decoding attention over paged caches, ragged ones too, and MLA's latent cache; cache writes."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.catalog.attention import QK
from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Index, Lengths
from cuassay.model.relation import Conserves, LinearIn, RowsIndependent

PAGE = 16  # tokens a page

_Scale = Annotated[float, scalar("float32", low=0.02, high=0.5, default=0.125)]
_Cache = tensor("bfloat16", "pages", PAGE, "kv_heads", "dim", domain=QK)


def _masked_softmax(
    scores: torch.Tensor, positions: torch.Tensor, low: torch.dtype
) -> torch.Tensor:
    """Soft-max of (batch, ..., tokens) over tokens up to each sequence's position."""
    beyond = torch.arange(scores.shape[-1], device=scores.device) > positions.unsqueeze(1)
    beyond = beyond.reshape(len(positions), *[1] * (scores.dim() - 2), -1)
    weights = torch.softmax(scores.masked_fill(beyond, float("-inf")), dim=-1)
    return weights.to(low).to(torch.float32)


_PAGED = {
    "slots": (1, 8192),
    "dim": (1, 512),
    "batch": (1, 4096),
    "kv_heads": (1, 128),
    "group": (1, 8),
    "pages": (1, 1_048_576),
}


@problem(
    axes=_PAGED,
    # The first two are for CPUs; then Llama-3 8B, Llama-3 70B on 8 GPUs, Qwen-2.5 7B.
    workloads=(
        {"batch": 2, "kv_heads": 1, "group": 4, "dim": 16, "pages": 24, "slots": 4},
        {"batch": 3, "kv_heads": 2, "group": 2, "dim": 16, "pages": 40, "slots": 6},
        {"batch": 64, "kv_heads": 8, "group": 4, "dim": 128, "pages": 8192, "slots": 128},
        {"batch": 128, "kv_heads": 1, "group": 8, "dim": 128, "pages": 16_384, "slots": 256},
        {"batch": 32, "kv_heads": 4, "group": 7, "dim": 128, "pages": 4096, "slots": 128},
    ),
    reduction_axes=("slots",),
    growth_target={"slots": 8192},
    relations=(
        LinearIn(input="v_cache"),
        Conserves(input="v_cache"),
    ),
)
def paged_attention_decode(
    q: Annotated[torch.Tensor, tensor("bfloat16", "batch", "kv_heads*group", "dim", domain=QK)],
    k_cache: Annotated[torch.Tensor, _Cache],
    v_cache: Annotated[torch.Tensor, tensor("bfloat16", "pages", PAGE, "kv_heads", "dim")],
    page_table: Annotated[
        torch.Tensor, tensor("int32", "batch", "slots", domain=Index(axis="pages"))
    ],
    positions: Annotated[
        torch.Tensor, tensor("int32", "batch", domain=Index(axis=f"slots*{PAGE}"))
    ],
    scale: _Scale,
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "kv_heads*group", "dim", name="output")]:
    """Attention of one query a sequence to tokens 0..position of its pages.

    Token t of a sequence lies in page `page_table[sequence, t // 16]` at place t % 16; pages
    may be shared (prefix caching). `positions` is the sequence's length less one.
    """
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    pages = page_table.long()
    keys, values = (
        cache[pages].to(torch.float32).reshape(batch, -1, kv_heads, dim).transpose(1, 2)
        for cache in (k_cache, v_cache)
    )
    queries = q.to(torch.float32).reshape(batch, kv_heads, heads // kv_heads, dim)
    weights = _masked_softmax(queries @ keys.transpose(-1, -2) * scale, positions, q.dtype)
    return (weights @ values).reshape(q.shape).to(q.dtype)


@problem(
    axes={
        "batch": (1, 4096),
        "heads": (1, 256),
        "tokens": (1, 262_144),
        "rank": (1, 1024),
        "rope": (2, 256, 2),
    },
    # The first two are for CPUs; then DeepSeek-V3 on one and on 8 GPUs.
    workloads=(
        {"batch": 3, "heads": 4, "tokens": 96, "rank": 64, "rope": 16},
        {"batch": 1, "heads": 16, "tokens": 200, "rank": 128, "rope": 32},
        {"batch": 16, "heads": 128, "tokens": 2048, "rank": 512, "rope": 64},
        {"batch": 64, "heads": 16, "tokens": 4096, "rank": 512, "rope": 64},
    ),
    reduction_axes=("tokens",),
    growth_target={"tokens": 131_072},
    relations=(RowsIndependent(axis="batch"),),
)
def mla_decode(
    q_latent: Annotated[torch.Tensor, tensor("bfloat16", "batch", "heads", "rank", domain=QK)],
    q_rope: Annotated[torch.Tensor, tensor("bfloat16", "batch", "heads", "rope", domain=QK)],
    latent_cache: Annotated[torch.Tensor, tensor("bfloat16", "batch", "tokens", "rank", domain=QK)],
    rope_cache: Annotated[torch.Tensor, tensor("bfloat16", "batch", "tokens", "rope", domain=QK)],
    positions: Annotated[torch.Tensor, tensor("int32", "batch", domain=Index(axis="tokens"))],
    scale: Annotated[float, scalar("float32", low=0.01, high=0.5, default=0.0722)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "heads", "rank", name="output")]:
    """Multi-head latent attention with absorbed projections (DeepSeek-V2, arXiv 2405.04434).

    All heads share one latent vector a token, which is key and value at once; the position
    part has a key of its own. The usual scale is 1/sqrt(192).
    """
    latent = latent_cache.to(torch.float32)
    scores = q_latent.to(torch.float32) @ latent.transpose(-1, -2)
    scores = scores + q_rope.to(torch.float32) @ rope_cache.to(torch.float32).transpose(-1, -2)
    weights = _masked_softmax(scores * scale, positions, q_latent.dtype)
    return (weights @ latent).to(q_latent.dtype)


@problem(
    axes=_PAGED,
    # The first two are for CPUs; then Llama-3 8B and Qwen-2.5 7B.
    workloads=(
        {"batch": 4, "kv_heads": 1, "group": 4, "dim": 16, "pages": 24, "slots": 4},
        {"batch": 6, "kv_heads": 2, "group": 2, "dim": 16, "pages": 40, "slots": 6},
        {"batch": 64, "kv_heads": 8, "group": 4, "dim": 128, "pages": 8192, "slots": 128},
        {"batch": 32, "kv_heads": 4, "group": 7, "dim": 128, "pages": 4096, "slots": 128},
    ),
    reduction_axes=("slots",),
    growth_target={"slots": 8192},
)
def paged_attention_ragged(
    q: Annotated[torch.Tensor, tensor("bfloat16", "batch", "kv_heads*group", "dim", domain=QK)],
    k_cache: Annotated[
        torch.Tensor,
        tensor("bfloat16", "pages", PAGE, "kv_heads", "dim", domain=QK, stale=True),
    ],
    v_cache: Annotated[
        torch.Tensor, tensor("bfloat16", "pages", PAGE, "kv_heads", "dim", stale=True)
    ],
    page_table: Annotated[
        torch.Tensor,
        tensor("int32", "batch", "slots", domain=Index(axis="pages", lengths="lengths", per=PAGE)),
    ],
    lengths: Annotated[
        torch.Tensor, tensor("int32", "batch", domain=Lengths(axis=f"slots*{PAGE}", page=PAGE))
    ],
    scale: _Scale,
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "kv_heads*group", "dim", name="output")]:
    """Attention of one query a sequence to its tokens; zeros for a sequence of length 0.

    Token t of a sequence lies in page `page_table[sequence, t // 16]` at place t % 16; pages may
    be shared. Entries of the table beyond a sequence's last page may be any integer, and pages
    and places that no sequence uses may hold anything, NaN too.
    """
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    used = torch.arange(page_table.shape[1], device=q.device) * PAGE < lengths.unsqueeze(1)
    pages = page_table.long().masked_fill(~used, 0)
    seen = torch.arange(page_table.shape[1] * PAGE, device=q.device) < lengths.unsqueeze(1)
    keys, values = (
        cache[pages]
        .to(torch.float32)
        .reshape(batch, -1, kv_heads, dim)
        .masked_fill(~seen[:, :, None, None], 0.0)
        .transpose(1, 2)
        for cache in (k_cache, v_cache)
    )
    queries = q.to(torch.float32).reshape(batch, kv_heads, heads // kv_heads, dim)
    # A sequence without tokens attends to zeros alone, so that nothing is divided by zero.
    closed = (~seen & (lengths > 0).unsqueeze(1))[:, None, None, :]
    scores = (queries @ keys.transpose(-1, -2) * scale).masked_fill(closed, float("-inf"))
    weights = torch.softmax(scores, dim=-1).to(q.dtype).to(torch.float32)
    return (weights @ values).reshape(q.shape).to(q.dtype)


@problem(
    axes={"tokens": (1, 65_536), "free": (0, 1_048_576), "width": (1, 16_384)},
    # The first two are for CPUs; then Llama-3 8B's keys of a prefill and of a decode batch.
    workloads=(
        {"tokens": 24, "free": 40, "width": 32},
        {"tokens": 7, "free": 100, "width": 64},
        {"tokens": 4096, "free": 131_072, "width": 1024},
        {"tokens": 64, "free": 131_072, "width": 1024},
    ),
    index_inputs={"slot_mapping": ("cache_after",)},
)
def cache_write(
    rows: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "width")],
    cache: Annotated[torch.Tensor, tensor("bfloat16", "tokens+free", "width")],
    slot_mapping: Annotated[
        torch.Tensor,
        tensor(
            "int64",
            "tokens",
            domain=Index(axis="tokens+free", unique=True, sentinels=(-1,)),
        ),
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens+free", "width", name="cache_after")]:
    """The cache with each row at its slot; a row of slot -1 is padding and is not written."""
    spare = len(cache)  # where padding goes
    slots = torch.where(slot_mapping < 0, spare, slot_mapping)
    return torch.cat((cache, cache[:1])).index_copy(0, slots, rows)[:spare]
