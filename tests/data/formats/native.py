"""Two native problems and a plain function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Index


@problem(
    axes={"rows": (1, 64), "width": (4, 64, 4), "twice": "2 * width", "fixed": 3},
    workloads=[{"rows": 4, "width": 8}, {"rows": 2, "width": 4, "gain": 0.5}],
    reduction_axes=["width"],
    growth_target={"width": 4096},
)
def stretched(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "width")],
    gain: Annotated[float, scalar("float32", low=0.25, high=4.0, default=1.0)],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", "rows", "twice", name="y")],
    Annotated[torch.Tensor, tensor("float32", name="total")],
]:
    """Repeat each row after itself."""
    y = torch.cat([x, x], dim=1) * gain
    return y, y.float().sum()


def draw_rows(axes_and_scalars: Mapping[str, int], device: str) -> Mapping[str, object]:
    """Draw only the ids; the rest follows the domains."""
    rows = axes_and_scalars["rows"]
    return {"ids": torch.zeros(rows, dtype=torch.int64, device=device)}


@problem(
    axes={"rows": (1, 64), "slots": 5},
    workloads=[{"rows": 6}],
    generator=draw_rows,
)
def counted(
    ids: Annotated[torch.Tensor, tensor("int64", "rows", domain=Index(axis="slots"))],
    values: Annotated[torch.Tensor, tensor("float32", "rows")],
) -> Annotated[torch.Tensor, tensor("float32", "slots")]:
    """Sum the values of each id."""
    return torch.zeros(5, device=values.device).index_add_(0, ids, values)


def plain(x: torch.Tensor) -> torch.Tensor:
    """Return x."""
    return x
