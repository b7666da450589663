"""Matrix products: plain, with bias and GELU, batched, grouped by offsets. Sums in float32."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import Offsets
from cuassay.model.relation import AdditiveOver, LinearIn, RowsIndependent

_AXES = {"m": (1, 1_048_576), "n": (1, 262_144), "k": (1, 131_072)}
# The first three are for CPUs; then Llama-3 8B's qkv and down projections, Qwen-2.5 7B decode,
# Llama-3 70B's gate on 8 GPUs.
_WORKLOADS = (
    {"m": 64, "n": 96, "k": 128},
    {"m": 48, "n": 64, "k": 1024},
    {"m": 128, "n": 128, "k": 256},
    {"m": 2048, "n": 6144, "k": 4096},
    {"m": 2048, "n": 4096, "k": 14_336},
    {"m": 16, "n": 3584, "k": 18_944},
    {"m": 4096, "n": 3584, "k": 8192},
)
_A = Annotated[torch.Tensor, tensor("bfloat16", "m", "k")]
_B = Annotated[torch.Tensor, tensor("bfloat16", "k", "n")]
_Y = Annotated[torch.Tensor, tensor("bfloat16", "m", "n", name="y")]


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("k",),
    growth_target={"k": 131_072},
    relations=(
        RowsIndependent(axis="m"),
        LinearIn(input="a"),
        AdditiveOver(axis="k"),
    ),
)
def gemm(a: _A, b: _B) -> _Y:
    """a @ b."""
    return (a.to(torch.float32) @ b.to(torch.float32)).to(a.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("k",),
    growth_target={"k": 131_072},
    relations=(RowsIndependent(axis="m"),),
)
def gemm_bias_gelu(a: _A, weight: _B, bias: Annotated[torch.Tensor, tensor("bfloat16", "n")]) -> _Y:
    """gelu(a @ weight + bias), GELU in its exact form, one rounding at the end."""
    product = a.to(torch.float32) @ weight.to(torch.float32) + bias.to(torch.float32)
    return torch.nn.functional.gelu(product).to(a.dtype)


@problem(
    axes={"batch": (1, 65_536), **_AXES},
    # The first two are for CPUs; then attention scores and values of Llama-3 8B.
    workloads=(
        {"batch": 4, "m": 32, "n": 40, "k": 64},
        {"batch": 3, "m": 16, "n": 16, "k": 512},
        {"batch": 32, "m": 2048, "n": 2048, "k": 128},
        {"batch": 32, "m": 2048, "n": 128, "k": 2048},
    ),
    reduction_axes=("k",),
    growth_target={"k": 131_072},
    relations=(
        RowsIndependent(axis="batch"),
        LinearIn(input="a"),
        AdditiveOver(axis="k"),
    ),
)
def batched_gemm(
    a: Annotated[torch.Tensor, tensor("bfloat16", "batch", "m", "k")],
    b: Annotated[torch.Tensor, tensor("bfloat16", "batch", "k", "n")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "m", "n", name="y")]:
    """a[i] @ b[i] for every batch entry."""
    return torch.bmm(a.to(torch.float32), b.to(torch.float32)).to(a.dtype)


def grouped_product(
    rows: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    """Return rows[o[g]:o[g+1]] @ weight[g] for every group, concatenated; float32."""
    ends = offsets.tolist()
    spans = zip(ends[:-1], ends[1:], weight.to(torch.float32).unbind(0), strict=True)
    wide = rows.to(torch.float32)
    return torch.cat([wide[low:high] @ matrix for low, high, matrix in spans])


@problem(
    axes={"groups": (1, 1024), **_AXES},
    # The first two are for CPUs; then experts of Mixtral 8x7B and Qwen-2 57B-A14B.
    workloads=(
        {"groups": 4, "m": 96, "n": 32, "k": 64},
        {"groups": 8, "m": 64, "n": 16, "k": 256},
        {"groups": 8, "m": 4096, "n": 14_336, "k": 4096},
        {"groups": 64, "m": 8192, "n": 2560, "k": 3584},
    ),
    reduction_axes=("k",),
    growth_target={"k": 131_072},
    relations=(LinearIn(input="a"),),
)
def grouped_gemm(
    a: _A,
    weight: Annotated[torch.Tensor, tensor("bfloat16", "groups", "k", "n")],
    offsets: Annotated[torch.Tensor, tensor("int32", "groups+1", domain=Offsets(axis="m"))],
) -> _Y:
    """Rows offsets[g]..offsets[g+1] of `a` times weight[g]; groups may be empty."""
    return grouped_product(a, weight, offsets).to(a.dtype)
