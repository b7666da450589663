"""Arithmetic that a kernel may use inside: honest forms and faulty ones, as plain torch.

An operator under calibration is written once against `Arithmetic`; each variant swaps one
piece. Everything works on float32 tensors (the upcast inputs), on any device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Sum = Callable[[Tensor], Tensor]  # over the last axis, kept with size 1


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The pieces of an operator that variants swap."""

    sum: Sum
    exp: Callable[[Tensor], Tensor] = torch.exp
    rsqrt: Callable[[Tensor], Tensor] = torch.rsqrt
    sigmoid: Callable[[Tensor], Tensor] = torch.sigmoid
    matmul: Callable[[Tensor, Tensor], Tensor] = torch.matmul
    cumsum: Callable[[Tensor], Tensor] = lambda x: x.cumsum(-1)
    scatter: Callable[[Tensor, Tensor, int], Tensor] = lambda s, i, n: _scatter(s, i, n)
    wide: torch.dtype = torch.float32
    eps: float = 1.0  # factor
    divisor: int = 0  # subtracted from N in variances
    cap: bool = True
    shift: bool = True  # subtract the maximum before exp
    welford: bool = False


def _scatter(source: Tensor, index: Tensor, rows: int) -> Tensor:
    out = torch.zeros(rows, source.shape[1], dtype=source.dtype, device=source.device)
    return out.index_add_(0, index, source)


def plain_sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def reversed_sum(x: Tensor) -> Tensor:
    return x.flip(-1).contiguous().cumsum(-1)[..., -1:]


def split_sum(x: Tensor) -> Tensor:
    parts = torch.stack([part.sum(-1) for part in x.tensor_split(8, -1)], -1)
    return parts.cumsum(-1)[..., -1:]


def tree_sum(x: Tensor, round_to: torch.dtype | None = None) -> Tensor:
    size = 1 << max(0, math.ceil(math.log2(max(x.shape[-1], 1))))
    x = torch.nn.functional.pad(x, (0, size - x.shape[-1]))
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
        if round_to is not None:
            x = x.to(round_to).to(torch.float32)
    return x


def tiled_low_sum(tile: int, dtype: torch.dtype) -> Sum:
    """Return a running sum rounded to `dtype` after every `tile` terms (1: after each)."""

    def total(x: Tensor) -> Tensor:
        out = torch.zeros_like(x[..., :1])
        for part in x.split(tile, -1):
            out = (out + part.sum(-1, keepdim=True)).to(dtype).to(torch.float32)
        return out

    return total


def kahan_free_welford(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return (mean, population variance) over the last axis by Welford's update, kept axes."""
    mean, m2 = torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
    for count, column in enumerate(x.unbind(-1), 1):
        delta = column - mean
        mean = mean + delta / count
        m2 = m2 + delta * (column - mean)
    return mean.unsqueeze(-1), (m2 / x.shape[-1]).unsqueeze(-1)


def dropped(share: float) -> Sum:
    """Return a sum that forgets the last `share` of the terms, one at least."""

    def total(x: Tensor) -> Tensor:
        keep = x.shape[-1] - max(1, int(x.shape[-1] * share))
        return x[..., :keep].sum(-1, keepdim=True)

    return total


def tf32(x: Tensor) -> Tensor:
    """Return float32 values rounded to TF32's 10 explicit significand bits."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def through(dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: a.to(dtype).float() @ b.to(dtype).float()


def split_k(a: Tensor, b: Tensor) -> Tensor:
    parts = zip(a.tensor_split(8, -1), b.tensor_split(8, -2), strict=True)
    total = None
    for left, right in parts:
        total = left @ right if total is None else total + left @ right
    assert total is not None
    return total


def tiled_low_matmul(tile: int) -> Callable[[Tensor, Tensor], Tensor]:
    def product(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(*a.shape[:-1], b.shape[-1], device=a.device)
        for left, right in zip(a.split(tile, -1), b.split(tile, -2), strict=True):
            total = (total + left @ right).to(torch.bfloat16).float()
        return total

    return product


def blocked_cumsum(x: Tensor) -> Tensor:
    parts = [part.cumsum(-1) for part in x.split(64, -1)]
    carry, out = torch.zeros_like(x[..., :1]), []
    for part in parts:
        out.append(part + carry)
        carry = out[-1][..., -1:]
    return torch.cat(out, -1)


def low_cumsum(x: Tensor) -> Tensor:
    carry, out = torch.zeros_like(x[..., :1]), []
    for part in x.split(32, -1):
        out.append(part.cumsum(-1) + carry)
        carry = out[-1][..., -1:].to(torch.bfloat16).float()
    return torch.cat(out, -1)


def shuffled_scatter(source: Tensor, index: Tensor, rows: int) -> Tensor:
    order = torch.randperm(index.numel(), generator=torch.Generator().manual_seed(5))
    order = order.to(index.device)
    return _scatter(source[order], index[order], rows)


def low_scatter(tile: int) -> Callable[[Tensor, Tensor, int], Tensor]:
    def scatter(source: Tensor, index: Tensor, rows: int) -> Tensor:
        out = torch.zeros(rows, source.shape[1], device=source.device)
        for part, where in zip(source.split(tile), index.split(tile), strict=True):
            out = (out + _scatter(part, where, rows)).to(torch.bfloat16).float()
        return out

    return scatter


BASE = Arithmetic(sum=plain_sum)
HONEST: dict[str, tuple[str, Arithmetic]] = {
    "float32": ("", BASE),
    "split sum": ("sum", replace(BASE, sum=split_sum)),
    "tree sum": ("sum", replace(BASE, sum=tree_sum)),
    "reversed sum": ("sum", replace(BASE, sum=reversed_sum)),
    "exp2": ("exp", replace(BASE, exp=lambda x: torch.exp2(x * 1.4426950408889634))),
    "1/sqrt": ("rsqrt", replace(BASE, rsqrt=lambda x: 1.0 / x.sqrt())),
    "tanh sigmoid": ("sigmoid", replace(BASE, sigmoid=lambda x: 0.5 + 0.5 * (x * 0.5).tanh())),
    "split-K": ("matmul", replace(BASE, matmul=split_k)),
    "blocked scan": ("cumsum", replace(BASE, cumsum=blocked_cumsum)),
    "shuffled scatter": ("scatter", replace(BASE, scatter=shuffled_scatter)),
    "welford": ("variance", replace(BASE, welford=True)),
    "float64 inside": ("", replace(BASE, wide=torch.float64)),
}
FAULTY: dict[str, tuple[str, Arithmetic]] = {
    "bf16 running sum": ("sum", replace(BASE, sum=tiled_low_sum(1, torch.bfloat16))),
    "bf16 tile 32 sum": ("sum", replace(BASE, sum=tiled_low_sum(32, torch.bfloat16))),
    "bf16 tile 128 sum": ("sum", replace(BASE, sum=tiled_low_sum(128, torch.bfloat16))),
    "bf16 pairwise sum": ("sum", replace(BASE, sum=lambda x: tree_sum(x, torch.bfloat16))),
    "dropped tail": ("sum", replace(BASE, sum=dropped(1 / 16))),
    "TF32 product": ("matmul", replace(BASE, matmul=lambda a, b: tf32(a) @ tf32(b))),
    "float16 product": ("matmul", replace(BASE, matmul=through(torch.float16))),
    "bf16 product": ("matmul", replace(BASE, matmul=through(torch.bfloat16))),
    "bf16 tile 32 product": ("matmul", replace(BASE, matmul=tiled_low_matmul(32))),
    "bf16 carry scan": ("cumsum", replace(BASE, cumsum=low_cumsum)),
    "bf16 tile 1 scatter": ("scatter", replace(BASE, scatter=low_scatter(1))),
    "bf16 tile 32 scatter": ("scatter", replace(BASE, scatter=low_scatter(32))),
    "N-1 variance": ("variance", replace(BASE, divisor=1)),
    "eps x10": ("eps", replace(BASE, eps=10.0)),
    "missing cap": ("cap", replace(BASE, cap=False)),
    "no max-subtraction": ("shift", replace(BASE, shift=False)),
}
