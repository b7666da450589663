"""LayerNorm (Ba et al., arXiv 1607.06450) and GroupNorm (Wu and He, arXiv 1803.08494).

y = (x - mean) * rsqrt(variance + eps) * weight + bias with the biased variance, in float32,
rounded once. The backward passes recompute the statistics, so that no input contradicts another.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.relation import AdditiveOver, LinearIn, RowsIndependent

GROUPS = 32  # of diffusion models' GroupNorm; no input's shape tells it

_AXES = {"rows": (1, 1_048_576), "hidden": (2, 65_536)}
# The first three are for CPUs; then GPT-2 XL, BERT-large, OPT-66B.
_WORKLOADS = (
    {"rows": 128, "hidden": 256},
    {"rows": 64, "hidden": 1024},
    {"rows": 16, "hidden": 8192},
    {"rows": 8192, "hidden": 1600},
    {"rows": 16_384, "hidden": 1024},
    {"rows": 4096, "hidden": 9216},
)
_IMAGE_AXES = {
    "batch": (1, 4096),
    "width": (1, 256),
    "spatial": (4, 1_048_576),
}
# The first two are for CPUs; then levels of Stable Diffusion XL and its decoder.
_IMAGES = (
    {"batch": 2, "width": 2, "spatial": 64},
    {"batch": 3, "width": 3, "spatial": 120},
    {"batch": 4, "width": 20, "spatial": 4096},
    {"batch": 2, "width": 40, "spatial": 1024},
    {"batch": 1, "width": 8, "spatial": 262_144},
)
_Rows = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")]
_Weight = Annotated[torch.Tensor, tensor("bfloat16", "hidden")]
_Image = Annotated[torch.Tensor, tensor("bfloat16", "batch", f"{GROUPS}*width", "spatial")]
_Channel = Annotated[torch.Tensor, tensor("bfloat16", f"{GROUPS}*width")]
_Eps = Annotated[float, scalar("float32", low=1e-7, high=1e-3, default=1e-5)]


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("hidden",),
    growth_target={"hidden": 65_536},
    relations=(RowsIndependent(axis="rows"),),
)
def layernorm(
    x: _Rows, weight: _Weight, bias: _Weight, eps: _Eps
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]:
    """LayerNorm over the last axis with weight and bias."""
    wide, scale, shift = (t.to(torch.float32) for t in (x, weight, bias))
    y = torch.nn.functional.layer_norm(wide, (x.shape[-1],), scale, shift, eps)
    return y.to(x.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    reduction_axes=("rows", "hidden"),
    growth_target={"rows": 1_000_000},
    relations=(
        LinearIn(input="grad_output"),
        AdditiveOver(axis="rows", outputs=("grad_weight", "grad_bias")),
    ),
)
def layernorm_backward(
    grad_output: _Rows, x: _Rows, weight: _Weight, eps: _Eps
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="grad_x")],
    Annotated[torch.Tensor, tensor("bfloat16", "hidden", name="grad_weight")],
    Annotated[torch.Tensor, tensor("bfloat16", "hidden", name="grad_bias")],
]:
    """Gradients of LayerNorm, statistics recomputed from x."""
    grad, wide = grad_output.to(torch.float32), x.to(torch.float32)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
    normed = centred * rstd
    weighted = grad * weight.to(torch.float32)
    along = (weighted * normed).mean(dim=-1, keepdim=True)
    grad_x = (weighted - weighted.mean(dim=-1, keepdim=True) - normed * along) * rstd
    grad_weight = (grad * normed).sum(dim=0).to(weight.dtype)
    return grad_x.to(x.dtype), grad_weight, grad.sum(dim=0).to(weight.dtype)


@problem(
    axes=_IMAGE_AXES,
    workloads=_IMAGES,
    reduction_axes=("spatial",),
    growth_target={"spatial": 262_144},
    relations=(RowsIndependent(axis="batch"),),
)
def groupnorm(
    x: _Image, weight: _Channel, bias: _Channel, eps: _Eps
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", f"{GROUPS}*width", "spatial", name="y")]:
    """GroupNorm with 32 groups of `width` neighbouring channels, as in diffusion models."""
    wide, scale, shift = (t.to(torch.float32) for t in (x, weight, bias))
    return torch.nn.functional.group_norm(wide, GROUPS, scale, shift, eps).to(x.dtype)


@problem(
    axes=_IMAGE_AXES,
    workloads=_IMAGES,
    reduction_axes=("spatial", "batch"),
    growth_target={"spatial": 262_144},
    relations=(
        LinearIn(input="grad_output"),
        AdditiveOver(axis="batch", outputs=("grad_weight", "grad_bias")),
    ),
)
def groupnorm_backward(
    grad_output: _Image, x: _Image, weight: _Channel, eps: _Eps
) -> tuple[
    Annotated[
        torch.Tensor, tensor("bfloat16", "batch", f"{GROUPS}*width", "spatial", name="grad_x")
    ],
    Annotated[torch.Tensor, tensor("bfloat16", f"{GROUPS}*width", name="grad_weight")],
    Annotated[torch.Tensor, tensor("bfloat16", f"{GROUPS}*width", name="grad_bias")],
]:
    """Gradients of GroupNorm with 32 groups, statistics recomputed from x."""
    grouped = (x.shape[0], GROUPS, -1)
    grad, wide = grad_output.to(torch.float32), x.to(torch.float32).reshape(grouped)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
    normed = centred * rstd
    weighted = (grad * weight.to(torch.float32).unsqueeze(-1)).reshape(grouped)
    along = (weighted * normed).mean(dim=-1, keepdim=True)
    grad_x = (weighted - weighted.mean(dim=-1, keepdim=True) - normed * along) * rstd
    grad_weight = (grad * normed.reshape(x.shape)).sum(dim=(0, 2)).to(weight.dtype)
    grad_bias = grad.sum(dim=(0, 2)).to(weight.dtype)
    return grad_x.reshape(x.shape).to(x.dtype), grad_weight, grad_bias
