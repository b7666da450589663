"""Products of float8 (e4m3) matrices with scales of tensors, rows and blocks, summed in float32."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.catalog.quant import BLOCK
from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import Positive
from cuassay.model.relation import LinearIn, RowsIndependent

_SCALES = Positive(low=1e-4, high=1e2)


@problem(
    axes={"m": (1, 1_048_576), "n": (1, 262_144), "k": (1, 131_072)},
    # The first two are for CPUs; then Llama-3 8B and Llama-3 70B on 8 GPUs.
    workloads=(
        {"m": 64, "n": 48, "k": 128},
        {"m": 24, "n": 40, "k": 512},
        {"m": 2048, "n": 6144, "k": 4096},
        {"m": 4096, "n": 3584, "k": 8192},
    ),
    reduction_axes=("k",),
    growth_target={"k": 131_072},
    relations=(
        RowsIndependent(axis="m"),
        LinearIn(input="scale_a"),
    ),
)
def fp8_gemm(
    a: Annotated[torch.Tensor, tensor("float8_e4m3fn", "m", "k")],
    b: Annotated[torch.Tensor, tensor("float8_e4m3fn", "n", "k")],
    scale_a: Annotated[torch.Tensor, tensor("float32", "m", domain=_SCALES)],
    scale_b: Annotated[torch.Tensor, tensor("float32", "n", domain=_SCALES)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "m", "n", name="y")]:
    """(a * scale_a) @ (b * scale_b).T with one scale a row of each."""
    product = a.to(torch.float32) @ b.to(torch.float32).T
    return (product * scale_a.unsqueeze(1) * scale_b).to(torch.bfloat16)


@problem(
    axes={
        "m": (1, 1_048_576),
        "n": (BLOCK, 262_144, BLOCK),
        "k": (2 * BLOCK, 131_072, BLOCK),
    },
    # The first two are for CPUs; then DeepSeek-V3's query and expert projections.
    workloads=(
        {"m": 24, "n": 128, "k": 384},
        {"m": 16, "n": 256, "k": 256},
        {"m": 4096, "n": 1536, "k": 7168},
        {"m": 4096, "n": 4096, "k": 7168},
    ),
    reduction_axes=("k",),
    growth_target={"k": 18_432},
    relations=(RowsIndependent(axis="m"),),
)
def fp8_gemm_block(
    a: Annotated[torch.Tensor, tensor("float8_e4m3fn", "m", "k")],
    b: Annotated[torch.Tensor, tensor("float8_e4m3fn", "n", "k")],
    scale_a: Annotated[torch.Tensor, tensor("float32", "m", f"k//{BLOCK}", domain=_SCALES)],
    scale_b: Annotated[
        torch.Tensor, tensor("float32", f"n//{BLOCK}", f"k//{BLOCK}", domain=_SCALES)
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "m", "n", name="y")]:
    """a @ b.T with scales for 1 x 128 blocks of a and 128 x 128 blocks of b (DeepSeek-V3)."""
    left = a.to(torch.float32).reshape(len(a), -1, BLOCK) * scale_a.unsqueeze(-1)
    blocks = (len(b) // BLOCK, BLOCK, -1, BLOCK)
    right = b.to(torch.float32).reshape(blocks) * scale_b.unsqueeze(1).unsqueeze(-1)
    product = left.flatten(1) @ right.reshape(b.shape).T
    return product.to(torch.bfloat16)


@problem(
    axes={"m": (1, 1_048_576), "n": (1, 262_144), "k": (1, 131_072)},
    # The first two are for CPUs; then Llama-3 8B and Llama-3 70B on 8 GPUs.
    workloads=(
        {"m": 48, "n": 32, "k": 192},
        {"m": 16, "n": 24, "k": 512},
        {"m": 2048, "n": 6144, "k": 4096},
        {"m": 4096, "n": 3584, "k": 8192},
    ),
    reduction_axes=("k",),
    growth_target={"k": 131_072},
    relations=(RowsIndependent(axis="m"), LinearIn(input="scale_a")),
)
def fp8_gemm_tensor(
    a: Annotated[torch.Tensor, tensor("float8_e4m3fn", "m", "k")],
    b: Annotated[torch.Tensor, tensor("float8_e4m3fn", "n", "k")],
    scale_a: Annotated[torch.Tensor, tensor("float32", 1, domain=_SCALES)],
    scale_b: Annotated[torch.Tensor, tensor("float32", 1, domain=_SCALES)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "m", "n", name="y")]:
    """(a * scale_a) @ (b * scale_b).T with one scale of each matrix."""
    product = a.to(torch.float32) @ b.to(torch.float32).T
    return (product * (scale_a * scale_b)).to(torch.bfloat16)
