"""Products in block formats: MXFP8, MXFP4 and NVFP4, plain, grouped by offsets, and in experts.

MX formats (OCP Microscaling Formats 1.0) have one power of two for every 32 neighbours, as a code
of 8 bits with bias 127 (E8M0). NVFP4 has one float8 (e4m3) for every 16 and one float32 a tensor
(here `alpha`, of both operands together, or one an expert). Two codes of 4 bits lie in a byte, the
first in its lower half. Scales lie row by row, as the formats define them; the operators that are
called swizzled take them in the layouts of tensor cores. Sums in float32, one rounding at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import torch

from cuassay.catalog.gemm import grouped_product
from cuassay.formats.native.declaration import TensorAnnotation, problem, tensor
from cuassay.formats.native.scale_layouts import unswizzled
from cuassay.model.domain import (
    SCALE_TILES,
    IntegerRange,
    Offsets,
    Positive,
    Real,
    Swizzled,
)
from cuassay.model.relation import RowsIndependent

MX, NV = 32, 16  # numbers that share a scale
BIAS = 127  # of E8M0
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Powers of two around one; those of experts keep products of three matrices in float16's range.
_POWERS = IntegerRange(low=BIAS - 8, high=BIAS + 8)
_SMALL_FP4 = IntegerRange(low=BIAS - 12, high=BIAS - 3)
_SMALL_FP8 = IntegerRange(low=BIAS - 14, high=BIAS - 6)
_BLOCK_SCALES = Positive(low=2.0**-6, high=2.0**6)
_SMALL_SCALES = Positive(low=2.0**-6, high=2.0**-2)
_ALPHA = Positive(low=1e-4, high=1e2)
_SMALL_ALPHA = Positive(low=1e-4, high=4.0)
_ACTIVATION = Real(low=-16.0, high=16.0)

_Axes = Mapping[str, tuple[int, int] | tuple[int, int, int]]
_PLAIN: _Axes = {"m": (1, 1_048_576), "n": (1, 262_144), "k": (2 * MX, 131_072, MX)}
_GROUPED: _Axes = {"groups": (1, 1024), **_PLAIN}
_EXPERTS: _Axes = {
    "experts": (1, 1024),
    "slots": (1, 1_048_576),
    "hidden": (MX, 65_536, MX),
    "inner": (2 * MX, 65_536, MX),
}
# The first two are for CPUs; then Llama-3 8B's qkv and Llama-3 70B's gate on 8 GPUs.
_PRODUCTS = (
    {"m": 32, "n": 48, "k": 256},
    {"m": 24, "n": 40, "k": 128},
    {"m": 2048, "n": 6144, "k": 4096},
    {"m": 4096, "n": 3584, "k": 8192},
)
# The first two are for CPUs; then experts of DeepSeek-V3 and gpt-oss 120B (2880 is no multiple of
# 128) on 8 GPUs.
_GROUPS = (
    {"groups": 4, "m": 64, "n": 24, "k": 128},
    {"groups": 6, "m": 40, "n": 32, "k": 96},
    {"groups": 32, "m": 8192, "n": 4096, "k": 7168},
    {"groups": 16, "m": 4096, "n": 5760, "k": 2880},
)
_LAYERS = (
    {"experts": 4, "slots": 80, "hidden": 32, "inner": 64},
    {"experts": 6, "slots": 48, "hidden": 96, "inner": 64},
    {"experts": 32, "slots": 8192, "hidden": 7168, "inner": 2048},
    {"experts": 16, "slots": 4096, "hidden": 2880, "inner": 2880},
)
_Out = Annotated[torch.Tensor, tensor("bfloat16", "m", "n", name="y")]
_Offsets = Annotated[torch.Tensor, tensor("int32", "groups+1", domain=Offsets(axis="m"))]
_Rows = Annotated[torch.Tensor, tensor("bfloat16", "slots", "hidden", domain=_ACTIVATION)]
_Slots = Annotated[torch.Tensor, tensor("int32", "experts+1", domain=Offsets(axis="slots"))]
_RowsOut = Annotated[torch.Tensor, tensor("bfloat16", "slots", "hidden", name="y")]


def fp4_values(packed: torch.Tensor) -> torch.Tensor:
    """Return the float32 numbers of packed pairs of 4-bit codes; the last dimension doubles."""
    codes = packed.view(torch.uint8).to(torch.int64)
    signed = (*_E2M1, *(-value for value in _E2M1))
    table = torch.tensor(signed, dtype=torch.float32, device=packed.device)
    return torch.stack([table[codes & 15], table[codes >> 4]], dim=-1).flatten(-2)


def mx_values(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers times the power of two of their block of 32."""
    powers = torch.exp2(scales.to(torch.float32) - BIAS)
    return values.to(torch.float32) * powers.repeat_interleave(MX, dim=-1)


def nv_values(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the numbers of 4-bit codes times the float8 scale of their block of 16."""
    return fp4_values(packed) * scales.to(torch.float32).repeat_interleave(NV, dim=-1)


def _experts(
    rows: torch.Tensor, offsets: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    """Return SwiGLU experts of float32 weights; the activation is rounded between products."""
    gate, up = grouped_product(rows, gate_up.mT, offsets).chunk(2, dim=-1)
    inner = (torch.nn.functional.silu(gate) * up).to(rows.dtype)
    return grouped_product(inner, down.mT, offsets).to(rows.dtype)


def _tiled(rows: str, columns: str, layout: str) -> tuple[str, str]:
    """Return the axes of a tensor of scales that is padded to whole tiles of a layout."""
    tall, wide = SCALE_TILES[layout]
    return (
        f"({rows}+{tall - 1})//{tall}*{tall}",
        f"({columns}+{wide - 1})//{wide}*{wide}",
    )


def _codes(rows: str) -> TensorAnnotation:
    """Return the powers of two of an operand, in tiles of 128 x 4."""
    columns = f"k//{MX}"
    domain = Swizzled(rows=rows, columns=columns, low=_POWERS.low, high=_POWERS.high)
    return tensor("uint8", *_tiled(rows, columns, domain.layout), domain=domain)


def _block_scales(rows: str, layout: str) -> TensorAnnotation:
    """Return the scales of an operand in NVFP4, in the tiles of a layout."""
    columns = f"k//{NV}"
    domain = Swizzled(rows=rows, columns=columns, layout=layout)
    return tensor("float8_e4m3fn", *_tiled(rows, columns, layout), domain=domain)


_product = partial(
    problem,
    axes=_PLAIN,
    workloads=_PRODUCTS,
    reduction_axes=("k",),
    growth_target={"k": 16_384},
)
_grouped_product = partial(_product, axes=_GROUPED, workloads=_GROUPS)
_experts_of = partial(
    problem,
    axes=_EXPERTS,
    workloads=_LAYERS,
    reduction_axes=("hidden", "inner"),
    growth_target={"hidden": 16_384},
)
_ROWS = (RowsIndependent(axis="m"),)
_Left8 = Annotated[torch.Tensor, tensor("float8_e4m3fn", "m", "k")]
_Right8 = Annotated[torch.Tensor, tensor("float8_e4m3fn", "n", "k")]
_Left4 = Annotated[torch.Tensor, tensor("float4_e2m1fn_x2", "m", "k//2")]
_Right4 = Annotated[torch.Tensor, tensor("float4_e2m1fn_x2", "n", "k//2")]
_Weight4 = Annotated[torch.Tensor, tensor("float4_e2m1fn_x2", "groups", "n", "k//2")]
_GateUp4 = Annotated[torch.Tensor, tensor("float4_e2m1fn_x2", "experts", "2*inner", "hidden//2")]
_Down4 = Annotated[torch.Tensor, tensor("float4_e2m1fn_x2", "experts", "hidden", "inner//2")]
_LeftCodes = Annotated[torch.Tensor, tensor("uint8", "m", f"k//{MX}", domain=_POWERS)]
_RightCodes = Annotated[torch.Tensor, tensor("uint8", "n", f"k//{MX}", domain=_POWERS)]
_WeightCodes = Annotated[torch.Tensor, tensor("uint8", "groups", "n", f"k//{MX}", domain=_POWERS)]
_LeftScales = Annotated[
    torch.Tensor, tensor("float8_e4m3fn", "m", f"k//{NV}", domain=_BLOCK_SCALES)
]
_Alpha = Annotated[torch.Tensor, tensor("float32", 1, domain=_ALPHA)]
_SmallAlpha = Annotated[torch.Tensor, tensor("float32", "experts", domain=_SMALL_ALPHA)]


@_product(relations=_ROWS)
def mxfp8_gemm(a: _Left8, b: _Right8, scale_a: _LeftCodes, scale_b: _RightCodes) -> _Out:
    """a @ b.T, both in MXFP8 (e4m3)."""
    return (mx_values(a, scale_a) @ mx_values(b, scale_b).T).to(torch.bfloat16)


@_product(relations=_ROWS)
def mxfp4_gemm(a: _Left4, b: _Right4, scale_a: _LeftCodes, scale_b: _RightCodes) -> _Out:
    """a @ b.T, both in MXFP4."""
    left, right = mx_values(fp4_values(a), scale_a), mx_values(fp4_values(b), scale_b)
    return (left @ right.T).to(torch.bfloat16)


@_product(relations=_ROWS)
def nvfp4_gemm(
    a: _Left4,
    b: _Right4,
    scale_a: _LeftScales,
    scale_b: Annotated[
        torch.Tensor, tensor("float8_e4m3fn", "n", f"k//{NV}", domain=_BLOCK_SCALES)
    ],
    alpha: _Alpha,
) -> _Out:
    """alpha * a @ b.T, both in NVFP4."""
    return (alpha * (nv_values(a, scale_a) @ nv_values(b, scale_b).T)).to(torch.bfloat16)


@_product()
def mxfp8_gemm_swizzled(
    a: _Left8,
    b: _Right8,
    scale_a: Annotated[torch.Tensor, _codes("m")],
    scale_b: Annotated[torch.Tensor, _codes("n")],
) -> _Out:
    """a @ b.T in MXFP8, scales of both in tiles of 128 x 4; what pads them may be anything."""
    columns = a.shape[1] // MX
    left = mx_values(a, unswizzled(scale_a, len(a), columns))
    right = mx_values(b, unswizzled(scale_b, len(b), columns))
    return (left @ right.T).to(torch.bfloat16)


@_product()
def nvfp4_gemm_swizzled(
    a: _Left4,
    b: _Right4,
    scale_a: Annotated[torch.Tensor, _block_scales("m", "8x4")],
    scale_b: Annotated[torch.Tensor, _block_scales("n", "128x4")],
    alpha: _Alpha,
) -> _Out:
    """alpha * a @ b.T in NVFP4, scales of `a` in tiles of 8 x 4 and of `b` in tiles of 128 x 4."""
    columns = a.shape[1] * 2 // NV
    left = nv_values(a, unswizzled(scale_a, len(a), columns, layout="8x4"))
    right = nv_values(b, unswizzled(scale_b, len(b), columns))
    return (alpha * (left @ right.T)).to(torch.bfloat16)


@_grouped_product()
def mxfp8_grouped_gemm(
    a: _Left8,
    weight: Annotated[torch.Tensor, tensor("float8_e4m3fn", "groups", "n", "k")],
    scale_a: _LeftCodes,
    scale_w: _WeightCodes,
    offsets: _Offsets,
) -> _Out:
    """Rows offsets[g]..offsets[g+1] of `a` times weight[g].T in MXFP8; groups may be empty."""
    wide = mx_values(weight, scale_w).mT
    return grouped_product(mx_values(a, scale_a), wide, offsets).to(torch.bfloat16)


@_grouped_product()
def mxfp4_grouped_gemm(
    a: _Left4, weight: _Weight4, scale_a: _LeftCodes, scale_w: _WeightCodes, offsets: _Offsets
) -> _Out:
    """Rows offsets[g]..offsets[g+1] of `a` times weight[g].T in MXFP4; groups may be empty."""
    wide = mx_values(fp4_values(weight), scale_w).mT
    return grouped_product(mx_values(fp4_values(a), scale_a), wide, offsets).to(torch.bfloat16)


@_grouped_product()
def nvfp4_grouped_gemm(
    a: _Left4,
    weight: _Weight4,
    scale_a: _LeftScales,
    scale_w: Annotated[
        torch.Tensor, tensor("float8_e4m3fn", "groups", "n", f"k//{NV}", domain=_BLOCK_SCALES)
    ],
    alpha: Annotated[torch.Tensor, tensor("float32", "groups", domain=_ALPHA)],
    offsets: _Offsets,
) -> _Out:
    """Rows offsets[g]..offsets[g+1] of `a` times alpha[g] * weight[g].T in NVFP4."""
    wide = nv_values(weight, scale_w).mT * alpha[:, None, None]
    return grouped_product(nv_values(a, scale_a), wide, offsets).to(torch.bfloat16)


@_experts_of()
def mxfp8_moe_experts(
    rows: _Rows,
    offsets: _Slots,
    gate_up: Annotated[torch.Tensor, tensor("float8_e4m3fn", "experts", "2*inner", "hidden")],
    scale_gate_up: Annotated[
        torch.Tensor, tensor("uint8", "experts", "2*inner", f"hidden//{MX}", domain=_SMALL_FP8)
    ],
    down: Annotated[torch.Tensor, tensor("float8_e4m3fn", "experts", "hidden", "inner")],
    scale_down: Annotated[
        torch.Tensor, tensor("uint8", "experts", "hidden", f"inner//{MX}", domain=_SMALL_FP8)
    ],
) -> _RowsOut:
    """SwiGLU experts with weights in MXFP8 on rows in the working dtype, grouped by offsets."""
    wide = mx_values(gate_up, scale_gate_up), mx_values(down, scale_down)
    return _experts(rows, offsets, *wide)


@_experts_of()
def mxfp4_moe_experts(
    rows: _Rows,
    offsets: _Slots,
    gate_up: _GateUp4,
    scale_gate_up: Annotated[
        torch.Tensor, tensor("uint8", "experts", "2*inner", f"hidden//{MX}", domain=_SMALL_FP4)
    ],
    down: _Down4,
    scale_down: Annotated[
        torch.Tensor, tensor("uint8", "experts", "hidden", f"inner//{MX}", domain=_SMALL_FP4)
    ],
) -> _RowsOut:
    """SwiGLU experts with weights in MXFP4, as gpt-oss has them, on rows grouped by offsets."""
    wide = mx_values(fp4_values(gate_up), scale_gate_up), mx_values(fp4_values(down), scale_down)
    return _experts(rows, offsets, *wide)


@_experts_of()
def nvfp4_moe_experts(
    rows: _Rows,
    offsets: _Slots,
    gate_up: _GateUp4,
    scale_gate_up: Annotated[
        torch.Tensor,
        tensor("float8_e4m3fn", "experts", "2*inner", f"hidden//{NV}", domain=_SMALL_SCALES),
    ],
    alpha_gate_up: _SmallAlpha,
    down: _Down4,
    scale_down: Annotated[
        torch.Tensor,
        tensor("float8_e4m3fn", "experts", "hidden", f"inner//{NV}", domain=_SMALL_SCALES),
    ],
    alpha_down: _SmallAlpha,
) -> _RowsOut:
    """SwiGLU experts with weights in NVFP4 on rows in the working dtype, grouped by offsets."""
    wide_gate_up = nv_values(gate_up, scale_gate_up) * alpha_gate_up[:, None, None]
    wide_down = nv_values(down, scale_down) * alpha_down[:, None, None]
    return _experts(rows, offsets, wide_gate_up, wide_down)
