"""Quantisation to int8 and float8 (e4m3, largest number 448), and back. Scales are float32.

A scale is the largest magnitude of its row or block over the format's largest number, at least
1e-10 so that rows of zeros stay zeros. Rounding is to nearest even.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import IntegerRange, Positive
from cuassay.model.relation import LinearIn, RowsIndependent

INT8_MAX, FP8_MAX, LEAST = 127.0, 448.0, 1e-10
BLOCK = 128  # of DeepSeek-V3's block-wise scales (arXiv 2412.19437, section 3.3.2)

_AXES = {"rows": (1, 1_048_576), "columns": (1, 131_072)}
_BLOCKS = {"rows": (1, 1_048_576), "blocks": (1, 1024)}
# The first two are for CPUs; then activations of Llama-3 8B and 70B, Qwen-2.5 7B.
_WORKLOADS = (
    {"rows": 64, "columns": 256},
    {"rows": 32, "columns": 1000},
    {"rows": 8192, "columns": 4096},
    {"rows": 4096, "columns": 8192},
    {"rows": 8192, "columns": 3584},
)
# The first two are for CPUs; then activations of DeepSeek-V3 (7168) and its experts (2048).
_BLOCK_WORKLOADS = (
    {"rows": 48, "blocks": 2},
    {"rows": 17, "blocks": 5},
    {"rows": 8192, "blocks": 56},
    {"rows": 8192, "blocks": 16},
)
_Rows = Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")]
_Wide = Annotated[torch.Tensor, tensor("bfloat16", "rows", f"blocks*{BLOCK}")]
_RowScale = Annotated[torch.Tensor, tensor("float32", "rows", name="scale")]
_SCALES = Positive(low=1e-4, high=1e2)


@problem(axes=_AXES, workloads=_WORKLOADS, relations=(RowsIndependent(axis="rows"),))
def quantize_int8_per_row(
    x: _Rows,
) -> tuple[Annotated[torch.Tensor, tensor("int8", "rows", "columns", name="codes")], _RowScale]:
    """Symmetric int8 codes with one dynamic scale a row (token)."""
    wide = x.to(torch.float32)
    scale = (wide.abs().amax(dim=-1) / INT8_MAX).clamp_min(LEAST)
    codes = torch.round(wide / scale.unsqueeze(-1)).clamp(-INT8_MAX, INT8_MAX)
    return codes.to(torch.int8), scale


@problem(axes=_AXES, workloads=_WORKLOADS)
def quantize_fp8_per_tensor(
    x: _Rows, scale: Annotated[torch.Tensor, tensor("float32", 1, domain=_SCALES)]
) -> Annotated[torch.Tensor, tensor("float8_e4m3fn", "rows", "columns", name="codes")]:
    """Float8 codes of x / scale, saturated, with a given (static) scale."""
    scaled = (x.to(torch.float32) / scale).clamp(-FP8_MAX, FP8_MAX)
    return scaled.to(torch.float8_e4m3fn)


@problem(axes=_AXES, workloads=_WORKLOADS, relations=(RowsIndependent(axis="rows"),))
def quantize_fp8_per_row(
    x: _Rows,
) -> tuple[
    Annotated[torch.Tensor, tensor("float8_e4m3fn", "rows", "columns", name="codes")], _RowScale
]:
    """Float8 codes with one dynamic scale a row (token)."""
    wide = x.to(torch.float32)
    scale = (wide.abs().amax(dim=-1) / FP8_MAX).clamp_min(LEAST)
    scaled = (wide / scale.unsqueeze(-1)).clamp(-FP8_MAX, FP8_MAX)
    return scaled.to(torch.float8_e4m3fn), scale


@problem(axes=_BLOCKS, workloads=_BLOCK_WORKLOADS, relations=(RowsIndependent(axis="rows"),))
def quantize_fp8_block(
    x: _Wide,
) -> tuple[
    Annotated[torch.Tensor, tensor("float8_e4m3fn", "rows", f"blocks*{BLOCK}", name="codes")],
    Annotated[torch.Tensor, tensor("float32", "rows", "blocks", name="scale")],
]:
    """Float8 codes with one dynamic scale for every 128 neighbours of a row (DeepSeek-V3)."""
    wide = x.to(torch.float32).reshape(len(x), -1, BLOCK)
    scale = (wide.abs().amax(dim=-1) / FP8_MAX).clamp_min(LEAST)
    scaled = (wide / scale.unsqueeze(-1)).clamp(-FP8_MAX, FP8_MAX)
    return scaled.flatten(-2).to(torch.float8_e4m3fn), scale


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    relations=(
        RowsIndependent(axis="rows"),
        LinearIn(input="scale"),
    ),
)
def dequantize_int8_per_row(
    codes: Annotated[
        torch.Tensor, tensor("int8", "rows", "columns", domain=IntegerRange(low=-127, high=127))
    ],
    scale: Annotated[torch.Tensor, tensor("float32", "rows", domain=_SCALES)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="y")]:
    """codes * scale, rounded once."""
    return (codes.to(torch.float32) * scale.unsqueeze(-1)).to(torch.bfloat16)


@problem(
    axes=_BLOCKS,
    workloads=_BLOCK_WORKLOADS,
    relations=(
        RowsIndependent(axis="rows"),
        LinearIn(input="scale"),
    ),
)
def dequantize_fp8_block(
    codes: Annotated[torch.Tensor, tensor("float8_e4m3fn", "rows", f"blocks*{BLOCK}")],
    scale: Annotated[torch.Tensor, tensor("float32", "rows", "blocks", domain=_SCALES)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", f"blocks*{BLOCK}", name="y")]:
    """Float8 codes times the scale of their block of 128, rounded once."""
    wide = codes.to(torch.float32).reshape(len(codes), -1, BLOCK)
    return (wide * scale.unsqueeze(-1)).flatten(-2).to(torch.bfloat16)
