"""Products of float8 (e4m3) matrices with row-wise and block-wise scales, summed in float32."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.catalog.quant import BLOCK
from cuassay.formats.native import problem, tensor
from cuassay.model.domain import Positive

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
    axes={"m": (1, 1_048_576), "n_blocks": (1, 1024), "k_blocks": (1, 1024)},
    # The first two are for CPUs; then DeepSeek-V3's query and expert projections.
    workloads=(
        {"m": 24, "n_blocks": 1, "k_blocks": 3},
        {"m": 16, "n_blocks": 2, "k_blocks": 2},
        {"m": 4096, "n_blocks": 12, "k_blocks": 56},
        {"m": 4096, "n_blocks": 32, "k_blocks": 56},
    ),
    reduction_axes=("k_blocks",),
    growth_target={"k_blocks": 144},
)
def fp8_gemm_block(
    a: Annotated[torch.Tensor, tensor("float8_e4m3fn", "m", f"k_blocks*{BLOCK}")],
    b: Annotated[torch.Tensor, tensor("float8_e4m3fn", f"n_blocks*{BLOCK}", f"k_blocks*{BLOCK}")],
    scale_a: Annotated[torch.Tensor, tensor("float32", "m", "k_blocks", domain=_SCALES)],
    scale_b: Annotated[torch.Tensor, tensor("float32", "n_blocks", "k_blocks", domain=_SCALES)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "m", f"n_blocks*{BLOCK}", name="y")]:
    """a @ b.T with scales for 1 x 128 blocks of a and 128 x 128 blocks of b (DeepSeek-V3)."""
    left = a.to(torch.float32).unflatten(-1, (-1, BLOCK)) * scale_a.unsqueeze(-1)
    right = b.to(torch.float32).unflatten(-1, (-1, BLOCK)).unflatten(0, (-1, BLOCK))
    right = right * scale_b.unsqueeze(1).unsqueeze(-1)
    product = left.flatten(1) @ right.flatten(0, 1).flatten(1).T
    return product.to(torch.bfloat16)
