"""RMSNorm (Zhang and Sennrich, arXiv 1910.07467): forward, backward, fused residual add.

y = x * rsqrt(mean(x^2) + eps) * weight over the last axis, in float32, rounded once.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Positive

_ROWS, _HIDDEN = (1, 1_048_576), (1, 65_536)
# The first is for CPUs; the others are prefill and decode shapes of 8B and 70B models.
_WORKLOADS = (
    {"rows": 128, "hidden": 256},
    {"rows": 64, "hidden": 1024},
    {"rows": 16, "hidden": 8192},
    {"rows": 4096, "hidden": 4096},
    {"rows": 16384, "hidden": 4096},
    {"rows": 8192, "hidden": 8192},
)


@problem(
    axes={"rows": _ROWS, "hidden": _HIDDEN},
    workloads=_WORKLOADS,
    reduction_axes=("hidden",),
    growth_target={"hidden": 65_536},
)
def rmsnorm(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "hidden")],
    eps: Annotated[float, scalar("float32", low=1e-7, high=1e-3, default=1e-6)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]:
    """RMSNorm over the last axis with a learned weight."""
    wide = x.to(torch.float32)
    rstd = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight.to(torch.float32)).to(x.dtype)


@problem(
    axes={"rows": _ROWS, "hidden": _HIDDEN},
    workloads=_WORKLOADS,
    reduction_axes=("rows", "hidden"),
    growth_target={"rows": 1_000_000},
)
def rmsnorm_backward(
    grad_output: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "hidden")],
    rstd: Annotated[torch.Tensor, tensor("float32", "rows", domain=Positive(low=1e-2, high=1e3))],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="grad_x")],
    Annotated[torch.Tensor, tensor("bfloat16", "hidden", name="grad_weight")],
]:
    """Gradients of RMSNorm from the saved reciprocal root mean square of each row."""
    grad, scale = grad_output.to(torch.float32), rstd.unsqueeze(-1)
    normed = x.to(torch.float32) * scale
    weighted = grad * weight.to(torch.float32)
    along = (weighted * normed).mean(dim=-1, keepdim=True)
    grad_x = (weighted - normed * along) * scale
    grad_weight = (grad * normed).sum(dim=0)
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype)


@problem(
    axes={"rows": _ROWS, "hidden": _HIDDEN},
    workloads=_WORKLOADS,
    reduction_axes=("hidden",),
    growth_target={"hidden": 65_536},
)
def fused_add_rmsnorm(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    residual: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "hidden")],
    eps: Annotated[float, scalar("float32", low=1e-7, high=1e-3, default=1e-6)],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")],
    Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="new_residual")],
]:
    """RMSNorm of x + residual, and the sum itself for the next layer."""
    total = x.to(torch.float32) + residual.to(torch.float32)
    rstd = torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + eps)
    normed = total * rstd * weight.to(torch.float32)
    return normed.to(x.dtype), total.to(x.dtype)
