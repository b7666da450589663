"""The bytes that a tensor's values are, whatever its dtype and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor, uint8 of shape (elements * itemsize,)."""
    import torch

    whole = tensor.detach().contiguous()
    # One element counts as contiguous whatever its strides, and keeps them in any reshape.
    return whole.as_strided((whole.numel(),), (1,)).view(torch.uint8)
