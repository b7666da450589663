"""Soft-max: soft-capped as in Gemma 2 (arXiv 2408.00118, section 2), masked, with dropout."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Mask
from cuassay.model.relation import RowsIndependent, RowsSumToOne, ShiftInvariant


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


_AXES = {"rows": (1, 1_048_576), "columns": (1, 262_144)}
# The first two are for CPUs; then attention rows of Llama-3 8B and GPT-2.
_WORKLOADS = (
    {"rows": 64, "columns": 512},
    {"rows": 96, "columns": 130},
    {"rows": 16_384, "columns": 2048},
    {"rows": 12_288, "columns": 1024},
)
_Scores = Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")]
_Scale = Annotated[float, scalar("float32", low=0.05, high=4.0, default=0.125)]


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("columns",),
    growth_target={"columns": 131_072},
    relations=(
        RowsIndependent(axis="rows"),
        RowsSumToOne(output="probabilities", axis="columns"),
    ),
)
def softmax_masked(
    scores: _Scores,
    mask: Annotated[torch.Tensor, tensor("bool", "rows", "columns", domain=Mask())],
    scale: _Scale,
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="probabilities")]:
    """Soft-max of scores * scale over the columns that each row's mask keeps."""
    scaled = scores.to(torch.float32) * scale
    return torch.softmax(scaled.masked_fill(~mask, float("-inf")), dim=-1).to(scores.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("columns",),
    growth_target={"columns": 131_072},
    relations=(
        RowsIndependent(axis="rows"),
        ShiftInvariant(input="scores", axis="columns"),
    ),
)
def softmax_dropout(
    scores: _Scores,
    kept: Annotated[torch.Tensor, tensor("bool", "rows", "columns", domain=Mask())],
    scale: _Scale,
    p: Annotated[float, scalar("float32", low=0.0, high=0.5, default=0.1)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="probabilities")]:
    """Soft-max of scores * scale, then dropout by a given mask: kept ones grow by 1/(1 - p)."""
    weights = torch.softmax(scores.to(torch.float32) * scale, dim=-1)
    return (weights * kept.to(torch.float32) / (1.0 - p)).to(scores.dtype)
