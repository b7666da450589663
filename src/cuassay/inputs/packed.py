"""Floats of 4 and 8 bits: torch moves them, and neither compares nor computes with most of them."""

from __future__ import annotations

import torch


def is_packed(value: torch.Tensor) -> bool:
    """Whether an element holds a pair of 4-bit numbers."""
    return value.dtype is torch.float4_e2m1fn_x2


def codes_of(value: torch.Tensor) -> torch.Tensor:
    """Return packed pairs as bytes (uint8, the same shape), any other tensor as it is."""
    return value.view(torch.uint8) if is_packed(value) else value


def comparable(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor that torch can compare: pairs of 4 bits as bytes, floats of 8 as float32."""
    if value.is_floating_point() and value.dtype.itemsize == 1 and not is_packed(value):
        return value.float()
    return codes_of(value)
