"""Pairs of 4-bit numbers in a byte: torch moves them, and computes nothing with them."""

from __future__ import annotations

import torch


def is_packed(value: torch.Tensor) -> bool:
    """Whether an element holds a pair of 4-bit numbers."""
    return value.dtype is torch.float4_e2m1fn_x2


def codes_of(value: torch.Tensor) -> torch.Tensor:
    """Return packed pairs as bytes (uint8, the same shape), any other tensor as it is."""
    return value.contiguous().view(torch.uint8) if is_packed(value) else value
