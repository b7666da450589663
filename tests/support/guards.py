"""Operators for guard tests: trusted ones, honest kernels, and faults that can be switched on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Every call is checked, here and now by this process's oracle, and nothing is written.
QUIET: dict[str, Any] = {
    "capsules": None, "oracle": "local", "max_overhead": None, "sample": 1.0,
}  # fmt: skip


def rmsnorm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """RMSNorm over the last axis in float32, rounded once: the trusted operator."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(
        x.dtype
    )


def honest(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """The same by another formula."""
    wide = x.float()
    scale = 1.0 / torch.sqrt((wide * wide).sum(-1, keepdim=True) / x.shape[-1] + eps)
    return ((wide * scale) * weight.float()).to(x.dtype)


class Faulty:
    """An honest kernel until `wrong` is set; then one row is off by a quarter of a per cent."""

    __name__ = "faulty"

    def __init__(self, *, wrong: bool = False) -> None:
        self.wrong = wrong
        self.calls = 0

    def __call__(self, x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
        """Return the norm, right or wrong."""
        self.calls += 1
        out = honest(x, weight, eps)
        if self.wrong:
            out[0] *= 1.03
        return out


def inputs(rows: int = 8, hidden: int = 64, *, seed: int = 0, dtype: torch.dtype = torch.bfloat16
           ) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return x (rows, hidden) and weight (hidden,)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, hidden, generator=generator)
    return x.to(dtype), torch.randn(hidden, generator=generator).to(dtype)


def axpy_(x: Tensor, y: Tensor, alpha: float = 2.0) -> Tensor:
    """Add alpha * y to x in place: writes its first input."""
    return x.add_(y, alpha=alpha)


def double(x: Tensor) -> Tensor:
    """Return 2x."""
    return x * 2


def both(x: Tensor) -> dict[str, Tensor]:
    """Return two named outputs."""
    return {"twice": x * 2, "where": x.argmax(-1)}


def row_wrong(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Wrong by 5 per cent in row 5, and only where there are more than 16 columns."""
    out = honest(x, weight, eps)
    if x.shape[0] > 5 and x.shape[1] > 16:
        out[5] *= 1.05
    return out
