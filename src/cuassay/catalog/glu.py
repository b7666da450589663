"""Gated linear units: SwiGLU (Shazeer, arXiv 2002.05202)."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native import problem, tensor


@problem(
    axes={"rows": (1, 1_048_576), "hidden": (1, 131_072)},
    workloads=(
        {"rows": 64, "hidden": 352},
        {"rows": 32, "hidden": 1408},
        {"rows": 2048, "hidden": 11_008},
        {"rows": 8192, "hidden": 14_336},
    ),
)
def swiglu(
    gate: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    up: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]:
    """silu(gate) * up, elementwise."""
    return (torch.nn.functional.silu(gate.to(torch.float32)) * up.to(torch.float32)).to(gate.dtype)
