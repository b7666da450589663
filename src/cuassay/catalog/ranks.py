"""Operators that several ranks share: collectives, and kernels that are fused with one.

An output without the axis `ranks` is one tensor that all ranks hold. Rows that `split` names are
cut as torch.chunk cuts them: the last ranks have fewer, or none.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Index
from cuassay.model.problem import Tolerance

_RANKS = (2, 3, 4)
_ROWS, _COLUMNS = (1, 65_536), (1, 65_536)
_TOLERANCE = Tolerance(atol=1e-2, rtol=1e-2)
_Count = Annotated[int, scalar("int32", size_of="ranks")]
_Part = Annotated[torch.Tensor, tensor("bfloat16", "ranks", "rows", "hidden")]
_Whole = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]


@problem(
    ranks=_RANKS,
    axes={"columns": (1, 4_194_304)},
    workloads=({"columns": 1000}, {"ranks": 4, "columns": 65_536}),
    tolerance=_TOLERANCE,
)
def all_reduce(
    x: Annotated[torch.Tensor, tensor("float32", "ranks", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "columns", name="y")]:
    """Sum of all ranks' tensors, on every rank."""
    return x.sum(0)


@problem(
    ranks=_RANKS,
    axes={"rows": _ROWS, "hidden": _COLUMNS},
    workloads=({"rows": 12, "hidden": 64}, {"ranks": 4, "rows": 1024, "hidden": 128}),
    split=("y",),
    tolerance=_TOLERANCE,
)
def reduce_scatter(
    x: Annotated[torch.Tensor, tensor("float32", "ranks", "rows", "hidden")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "hidden", name="y")]:
    """Sum of all ranks' tensors; each rank has a part of its rows."""
    return x.sum(0)


@problem(
    ranks=_RANKS,
    axes={"rows": _ROWS, "hidden": _COLUMNS},
    workloads=({"rows": 12, "hidden": 64}, {"ranks": 4, "rows": 1024, "hidden": 128}),
    split=("x",),
    tolerance=_TOLERANCE,
)
def all_gather(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "hidden")], count: _Count
) -> Annotated[torch.Tensor, tensor("float32", "rows", "hidden", name="y")]:
    """Parts of rows of all ranks, on every rank; `count` is how many ranks there are."""
    return x.clone()


@problem(
    ranks=_RANKS,
    axes={"tokens": (1, 65_536), "hidden": _COLUMNS},
    workloads=({"tokens": 16, "hidden": 32}, {"ranks": 4, "tokens": 512, "hidden": 128}),
    tolerance=_TOLERANCE,
)
def expert_exchange(
    x: Annotated[torch.Tensor, tensor("float32", "ranks", "tokens", "hidden")],
    expert: Annotated[torch.Tensor, tensor("int64", "ranks", "tokens", domain=Index(axis="ranks"))],
    weight: Annotated[torch.Tensor, tensor("float32", "ranks", "hidden")],
) -> Annotated[torch.Tensor, tensor("float32", "ranks", "tokens", "hidden", name="y")]:
    """Tokens times the weight of the rank that is their expert, back on the rank they are from."""
    return x * weight[expert]


@problem(
    ranks=_RANKS,
    axes={"rows": _ROWS, "inner": (1, 16_384), "columns": _COLUMNS},
    workloads=(
        {"rows": 12, "inner": 32, "columns": 48},
        {"ranks": 4, "rows": 256, "inner": 128, "columns": 256},
    ),
    split=("y",),
    reduction_axes=("inner",),
    tolerance=_TOLERANCE,
)
def gemm_reduce_scatter(
    a: Annotated[torch.Tensor, tensor("bfloat16", "ranks", "rows", "inner")],
    b: Annotated[torch.Tensor, tensor("bfloat16", "ranks", "inner", "columns")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="y")]:
    """Sum over the ranks of a @ b, summed in float32; each rank has a part of its rows."""
    products = torch.bmm(a.to(torch.float32), b.to(torch.float32))
    return products.sum(0).to(a.dtype)


@problem(
    ranks=_RANKS,
    axes={"rows": _ROWS, "hidden": _COLUMNS},
    workloads=({"rows": 6, "hidden": 64}, {"ranks": 4, "rows": 64, "hidden": 1024}),
    reduction_axes=("hidden",),
    tolerance=_TOLERANCE,
)
def all_reduce_rmsnorm(
    x: _Part,
    residual: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "hidden")],
    eps: Annotated[float, scalar("float32", low=1e-8, high=1e-2, default=1e-6)],
) -> tuple[
    _Whole, Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="residual_out")]
]:
    """RMSNorm of residual + the sum of all ranks' x, and that sum; on every rank."""
    total = residual.to(torch.float32) + x.to(torch.float32).sum(0)
    scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * scale * weight.to(torch.float32)).to(x.dtype), total.to(x.dtype)


@problem(
    ranks=_RANKS,
    axes={"heads": (1, 64), "length": (1, 65_536), "head_dim": {16, 32, 64, 128}},
    workloads=(
        {"heads": 2, "length": 8, "head_dim": 16},
        {"ranks": 4, "heads": 4, "length": 128, "head_dim": 64},
    ),
    reduction_axes=("length",),
    tolerance=_TOLERANCE,
)
def ring_attention(
    q: Annotated[torch.Tensor, tensor("bfloat16", "ranks", "heads", "length", "head_dim")],
    k: Annotated[torch.Tensor, tensor("bfloat16", "ranks", "heads", "length", "head_dim")],
    v: Annotated[torch.Tensor, tensor("bfloat16", "ranks", "heads", "length", "head_dim")],
) -> Annotated[
    torch.Tensor, tensor("bfloat16", "ranks", "heads", "length", "head_dim", name="out")
]:
    """Causal attention over a sequence of which each rank has `length` tokens, in order."""
    ranks, heads, length, head_dim = q.shape

    def whole(part: torch.Tensor) -> torch.Tensor:
        return part.transpose(0, 1).reshape(heads, ranks * length, head_dim).to(torch.float32)

    scores = whole(q) @ whole(k).transpose(-1, -2) * head_dim**-0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    out: torch.Tensor = (weights @ whole(v)).reshape(heads, ranks, length, head_dim)
    return out.transpose(0, 1).to(q.dtype)
