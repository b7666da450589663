"""The operator that hostile candidates are tried on: small, exact, and quick to judge."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, tensor


@problem(axes={"rows": (1, 4096)}, workloads=({"rows": 64}, {"rows": 512}))
def scaled(
    x: Annotated[torch.Tensor, tensor("float32", "rows")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", name="y")]:
    """Return 2 x + 1."""
    return x * 2 + 1
