"""A reference whose helpers have names that cuassay's own text has too."""

from __future__ import annotations

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    """Return twice x."""
    return 2 * x


def _reference(x: torch.Tensor, run: float) -> torch.Tensor:
    return x + run


def reference(x: torch.Tensor) -> torch.Tensor:
    """Return 2 x + 1."""
    return _reference(run(x), run=1.0)


def several(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return 2 x + 1 by name."""
    return {"made": _reference(run(x), run=1.0)}


def kernel(x: torch.Tensor) -> torch.Tensor:
    """Return 2 x + 1."""
    return 2 * x + 1


def several_kernel(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return 2 x + 1 by name."""
    return {"made": 2 * x + 1}
