"""Soft-max over soft-capped logits, as in Gemma 2 (arXiv 2408.00118, section 2)."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native import problem, scalar, tensor


@problem(
    axes={"rows": (1, 1_048_576), "columns": (1, 262_144)},
    workloads=(
        {"rows": 64, "columns": 512},
        {"rows": 32, "columns": 2048},
        {"rows": 4096, "columns": 4096},
        {"rows": 16_384, "columns": 2048},
        {"rows": 1024, "columns": 131_072},
    ),
    reduction_axes=("columns",),
    growth_target={"columns": 131_072},
)
def softmax_softcap(
    logits: Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")],
    cap: Annotated[float, scalar("float32", low=5.0, high=100.0, default=30.0)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="probabilities")]:
    """softmax(cap * tanh(logits / cap)) over the last axis."""
    capped = cap * torch.tanh(logits.to(torch.float32) / cap)
    return torch.softmax(capped, dim=-1).to(logits.dtype)
