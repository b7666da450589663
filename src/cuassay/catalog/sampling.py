"""The k largest, and sampling by given uniform numbers: top-k, and top-p (arXiv 1904.09751)."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Real
from cuassay.model.relation import RowsIndependent

_AXES = {"rows": (1, 65_536), "vocab": (2, 262_144)}
# The first two are for CPUs; then Llama-2, Llama-3, Qwen-2.5 and Gemma-2 vocabularies.
_WORKLOADS = (
    {"rows": 96, "vocab": 512},
    {"rows": 64, "vocab": 1000},
    {"rows": 256, "vocab": 32_000},
    {"rows": 128, "vocab": 128_256},
    {"rows": 64, "vocab": 151_936},
    {"rows": 64, "vocab": 256_000},
)
# Wider logits put all weight on one token, where no uniform number matters.
_Logits = Annotated[
    torch.Tensor, tensor("float32", "rows", "vocab", domain=Real(low=-20.0, high=20.0))
]
_Uniform = Annotated[torch.Tensor, tensor("float32", "rows", domain=Real(low=0.0, high=0.999))]
_Temperature = Annotated[float, scalar("float32", low=0.5, high=4.0, default=1.0)]
_Token = Annotated[torch.Tensor, tensor("int64", "rows", name="token")]


def _draw(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The first token whose cumulated weight, in vocabulary order, exceeds uniform * total."""
    cumulative = weights.cumsum(dim=-1)
    goal = uniform.unsqueeze(-1) * cumulative[:, -1:]
    return (cumulative <= goal).sum(dim=-1).clamp_max(weights.shape[-1] - 1)


@problem(axes=_AXES, workloads=_WORKLOADS, relations=(RowsIndependent(axis="rows"),))
def sample_top_k(
    logits: _Logits,
    uniform: _Uniform,
    temperature: _Temperature,
    k: Annotated[int, scalar("int32", low=1, high=256, default=40)],
) -> _Token:
    """Inverse-CDF sampling, in vocabulary order, among the k largest logits of each row."""
    weights = torch.softmax(logits / temperature, dim=-1)
    least = torch.topk(logits, min(k, logits.shape[-1]), dim=-1).values[:, -1:]
    return _draw(torch.where(logits >= least, weights, 0.0), uniform)


@problem(axes=_AXES, workloads=_WORKLOADS, relations=(RowsIndependent(axis="rows"),))
def sample_top_p(
    logits: _Logits,
    uniform: _Uniform,
    temperature: _Temperature,
    top_p: Annotated[float, scalar("float32", low=0.1, high=1.0, default=0.9)],
) -> _Token:
    """Inverse-CDF sampling, in vocabulary order, among the most likely tokens of each row.

    A token is kept where the tokens before it weigh less than top_p together: those more likely
    and, among equals, those earlier in the vocabulary. A kernel that keeps every token which is
    as likely as the last kept one computes another function of tied logits.
    """
    weights = torch.softmax(logits / temperature, dim=-1)
    ordered, order = torch.sort(weights, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    kept = torch.where(before < top_p, ordered, 0.0)
    return _draw(torch.zeros_like(weights).scatter(1, order, kept), uniform)


@problem(
    axes={"rows": (1, 65_536), "k": (1, 256), "others": (0, 262_144)},
    # The first two are for CPUs; then DeepSeek-V3's experts, and candidates of a vocabulary.
    workloads=(
        {"rows": 48, "k": 5, "others": 200},
        {"rows": 16, "k": 16, "others": 500},
        {"rows": 8192, "k": 8, "others": 248},
        {"rows": 64, "k": 64, "others": 128_192},
    ),
    relations=(RowsIndependent(axis="rows"),),
)
def top_k(
    x: Annotated[
        torch.Tensor, tensor("float32", "rows", "k+others", domain=Real(low=-1e6, high=1e6))
    ],
    count: Annotated[int, scalar("int32", size_of="k")],
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", "k", name="values")],
    Annotated[torch.Tensor, tensor("int64", "rows", "k", name="indices")],
]:
    """The `count` largest of each row, the largest first, and where they lie.

    Of equal numbers any may be taken, but each element once.
    """
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[:, :count].contiguous(), indices[:, :count].contiguous()
