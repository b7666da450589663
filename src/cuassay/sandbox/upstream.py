"""Gradients of outputs as they reach a backward pass: the same values in worker and judge.

Drawn on the CPU, whose generator gives the same numbers wherever it runs, then laid out in
memory as real graphs do. Gaps between elements hold NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuassay.model.steps import Upstream


def drawn(
    kind: Upstream, shape: Sequence[int], dtype: torch.dtype, *, seed: int, number: int
) -> torch.Tensor:
    """Return the gradient of output `number`, contiguous, on the CPU."""
    if kind is Upstream.ONES:
        return torch.ones(tuple(shape), dtype=dtype)
    generator = torch.Generator().manual_seed((seed + number) & (2**63 - 1))
    return torch.randn(tuple(shape), generator=generator).to(dtype)


def laid_out(kind: Upstream, values: torch.Tensor) -> torch.Tensor:
    """Return the same values in the memory layout of `kind`, as far as they have the axes."""
    match kind:
        case Upstream.ONES:
            one = torch.ones((), dtype=values.dtype, device=values.device)
            return one.expand(values.shape)
        case Upstream.TRANSPOSED if values.dim() > 1:
            return values.transpose(-1, -2).contiguous().transpose(-1, -2)
        case Upstream.SLICED if values.dim() > 1:
            last = values.shape[-1]
            wide = values.new_full((*values.shape[:-1], 2 * last + 1), float("nan"))
            wide[..., last : 2 * last] = values
            return wide[..., last : 2 * last]
        case Upstream.SLICED | Upstream.TRANSPOSED if values.dim():
            column = values.new_full((*values.shape, 2), float("nan"))  # one of two columns
            column[..., 1] = values
            return column[..., 1]
        case _:
            return values.clone()
