"""`torch._scaled_mm` of operands with a scale for every block: MXFP8, MXFP4, NVFP4.

torch has these products on GPUs alone that have the instructions. Here the operands are
dequantized and multiplied in a wider type. Scales lie as tensor cores want them, in tiles of
128 x 4: row r, column c of a tile at (r % 32) * 16 + (r // 32) * 4 + c (cuBLAS, layout of block
scaling factors).
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import Any

import torch

from cuassay.dispatch_modes import UntracedMode
from cuassay.hooks import Operation, stand_ins

aten = torch.ops.aten
_PACKED = torch.float4_e2m1fn_x2
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of a 4-bit code, its sign above
_BLOCKS = {torch.float8_e4m3fn: 16, torch.float8_e8m0fnu: 32}  # numbers that share a scale
_TALL, _WIDE = 128, 4


def named_arguments(args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of `aten._scaled_mm` by their names."""
    order = ("self", "mat2", "scale_a", "scale_b", "bias", "scale_result", "out_dtype")
    return {**dict(zip(order, args, strict=False)), **kwargs}


def has_blocks(named: Mapping[str, Any]) -> bool:
    """Whether a product's scales are those of blocks along K, in the layout of tensor cores."""
    scales, a = named["scale_a"], named["self"]
    if scales.dtype not in _BLOCKS:
        return False
    depth = a.shape[1] * (2 if a.dtype is _PACKED else 1)
    tiles = -(-a.shape[0] // _TALL) * -(-depth // _BLOCKS[scales.dtype] // _WIDE)
    return bool(scales.numel() == tiles * _TALL * _WIDE)


def dequantized(
    values: torch.Tensor, scales: torch.Tensor, block: int, to: torch.dtype
) -> torch.Tensor:
    """Return an operand (rows, K) in `to`: floats of 8 bits or packed pairs, times their scales.

    `values`: (rows, K), of packed pairs (rows, K / 2); `scales`: of any shape, in whole tiles.
    """
    if values.dtype is _PACKED:
        codes = values.contiguous().view(torch.uint8).to(torch.int64)
        table = torch.tensor(
            (*_MAGNITUDES, *(-one for one in _MAGNITUDES)), dtype=to, device=values.device
        )
        numbers = torch.stack((table[codes & 15], table[codes >> 4]), dim=-1).flatten(-2)
    else:
        numbers = values.to(to)
    rows, depth = numbers.shape
    down, across = -(-rows // _TALL), -(-depth // block // _WIDE)
    tiles = scales.to(to).reshape(down, across, 32, 4, _WIDE).permute(0, 3, 2, 1, 4)
    plain = tiles.reshape(down * _TALL, across * _WIDE)[:rows, : -(-depth // block)]
    return numbers * plain.repeat_interleave(block, dim=1)[:, :depth]


def product(
    named: Mapping[str, Any], scales: tuple[torch.Tensor, torch.Tensor], to: torch.dtype
) -> torch.Tensor:
    """Return (a scale_a) @ (b scale_b) in `to`; `scales` are what those of `named` hold."""
    blocks = (_BLOCKS[named[one].dtype] for one in ("scale_a", "scale_b"))
    operands = named["self"], named["mat2"].t()
    a, b = (
        dequantized(one, scale, block, to)
        for one, scale, block in zip(operands, scales, blocks, strict=True)
    )
    return a @ b.T


def is_missing_product(error: BaseException) -> bool:
    """Whether an exception came out of a call of `torch._scaled_mm`: this device lacks it."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        last = linecache.getline(code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return isinstance(error, RuntimeError | ValueError) and "scaled_mm" in last


def made_here(asked: Operation) -> Any:
    """Return a product of blocks made in float32 and rounded once; any other as the device has."""
    named = named_arguments(asked.args, asked.kwargs)
    if not has_blocks(named):
        return asked.op(*asked.args, **asked.kwargs)
    out = product(named, (named["scale_a"], named["scale_b"]), torch.float32)
    if named.get("bias") is not None:
        out = out + named["bias"].to(torch.float32)
    return out.to(named.get("out_dtype") or torch.float32)


stand_ins[aten._scaled_mm.default] = made_here


class BlockScaledProducts(UntracedMode):
    """Makes such products in float32, where the device has none."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not aten._scaled_mm.default:
            return func(*args, **(kwargs or {}))
        return made_here(Operation(func, args, kwargs or {}))
