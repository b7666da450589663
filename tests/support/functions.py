"""A reference and kernels as users write them in a package, for tests of `formats.callables`."""

from __future__ import annotations

import math as mathematics
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import silu

SCALE: float = 2.0
TABLE = {"one": 1.0}


def helper(x: torch.Tensor) -> torch.Tensor:
    """Scale."""
    return x.float() * SCALE


def unused(x: torch.Tensor) -> torch.Tensor:
    """Stay behind."""
    return x * TABLE["one"]


def reference(x: torch.Tensor, y: torch.Tensor, *, factor: float = 3.0) -> torch.Tensor:
    """Compute with a helper, a constant and two imports."""
    return silu(helper(x)).to(x.dtype) + y * factor * mathematics.pi


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Return twice as many columns."""
    return torch.cat([x, x], dim=-1)


def failing(x: torch.Tensor) -> torch.Tensor:
    """Raise."""
    raise RuntimeError(f"no {x.ndim}")


def kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute the reference."""
    return reference(x, y)


def example() -> dict[str, Any]:
    """Return inputs."""
    return {"x": torch.ones(4, 8), "y": torch.ones(8)}


def closure() -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that no other process can import."""
    return lambda x: x * SCALE
