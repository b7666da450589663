"""Cross-entropy of each row, with label smoothing and ignored rows, and behind a linear layer.

The fused linear forms keep logits in the working dtype, as the plain `lm_head` layer that they
replace does; a kernel that keeps them wider is more exact.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Index, Real
from cuassay.model.relation import AdditiveOver, LinearIn, RowsIndependent

IGNORED = -100  # PyTorch's ignore_index


@problem(
    axes={"rows": (1, 1_048_576), "vocab": (2, 262_144)},
    workloads=(
        {"rows": 64, "vocab": 512},
        {"rows": 32, "vocab": 4096},
        {"rows": 4096, "vocab": 32_000},
        {"rows": 8192, "vocab": 65_536},
        {"rows": 2048, "vocab": 151_936},
    ),
    reduction_axes=("vocab",),
    growth_target={"vocab": 262_144},
)
def cross_entropy(
    logits: Annotated[torch.Tensor, tensor("bfloat16", "rows", "vocab")],
    targets: Annotated[
        torch.Tensor, tensor("int64", "rows", domain=Index(axis="vocab", sentinels=(IGNORED,)))
    ],
    label_smoothing: Annotated[float, scalar("float32", low=0.0, high=0.5, default=0.0)],
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", name="loss")],
    Annotated[torch.Tensor, tensor("float32", "rows", name="log_normaliser")],
]:
    """Loss of each row (0 where the target is -100) and its log-sum-exp for the backward pass."""
    wide = logits.to(torch.float32)
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=IGNORED, reduction="none", label_smoothing=label_smoothing
    )
    return loss, torch.logsumexp(wide, dim=-1)


_Targets = Annotated[
    torch.Tensor, tensor("int64", "rows", domain=Index(axis="vocab", sentinels=(IGNORED,)))
]
_GradLoss = Annotated[torch.Tensor, tensor("float32", "rows")]
_Smoothing = Annotated[float, scalar("float32", low=0.0, high=0.5, default=0.0)]


def _grad_logits(
    wide: torch.Tensor, targets: torch.Tensor, grad_loss: torch.Tensor, *, smoothing: float
) -> torch.Tensor:
    """(softmax - smoothed one-hot) * grad_loss, 0 where the target is ignored; float32.

    The soft-max is multiplied by the sum of the smoothed one-hot, which is 1, as the gradient of
    log_softmax does: its float32 sum of so many equal terms errs by up to 1e-5, in torch too.
    """
    valid = targets != IGNORED
    share = torch.full_like(wide, smoothing / wide.shape[-1])
    rows = torch.arange(len(targets), device=wide.device)
    share[rows, targets.clamp_min(0)] += 1.0 - smoothing
    factor = torch.where(valid, grad_loss, 0.0).unsqueeze(-1)
    return (torch.softmax(wide, dim=-1) * share.sum(dim=-1, keepdim=True) - share) * factor


@problem(
    axes={"rows": (1, 1_048_576), "vocab": (2, 262_144)},
    # The first two are for CPUs; then Llama-2, Llama-3 and Qwen-2.5 vocabularies.
    workloads=(
        {"rows": 64, "vocab": 512},
        {"rows": 32, "vocab": 2048},
        {"rows": 4096, "vocab": 32_000},
        {"rows": 4096, "vocab": 128_256},
        {"rows": 2048, "vocab": 151_936},
    ),
    reduction_axes=("vocab",),
    growth_target={"vocab": 262_144},
    relations=(
        RowsIndependent(axis="rows"),
        LinearIn(input="grad_loss"),
    ),
)
def cross_entropy_backward(
    logits: Annotated[torch.Tensor, tensor("bfloat16", "rows", "vocab")],
    targets: _Targets,
    grad_loss: _GradLoss,
    label_smoothing: _Smoothing,
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "vocab", name="grad_logits")]:
    """Gradient of each row's loss with respect to the logits; every row has its own factor."""
    wide = logits.to(torch.float32)
    grad = _grad_logits(wide, targets, grad_loss, smoothing=label_smoothing)
    return grad.to(logits.dtype)


_LINEAR_AXES = {"rows": (1, 1_048_576), "hidden": (1, 65_536), "vocab": (2, 262_144)}
# The first two are for CPUs; then Llama-3 8B and Qwen-2.5 7B, one micro-batch.
_LINEAR_WORKLOADS = (
    {"rows": 48, "hidden": 64, "vocab": 384},
    {"rows": 96, "hidden": 32, "vocab": 200},
    {"rows": 1024, "hidden": 4096, "vocab": 128_256},
    {"rows": 1024, "hidden": 3584, "vocab": 152_064},
)
# Bounds that keep logits within the hundreds: beyond, a soft-max is all or nothing.
_HiddenRows = Annotated[
    torch.Tensor, tensor("bfloat16", "rows", "hidden", domain=Real(low=-8.0, high=8.0))
]
_HeadWeight = Annotated[
    torch.Tensor, tensor("bfloat16", "vocab", "hidden", domain=Real(low=-1.0, high=1.0))
]


def _logits(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    product = hidden.to(torch.float32) @ weight.to(torch.float32).T
    return product.to(hidden.dtype).to(torch.float32)


@problem(
    axes=_LINEAR_AXES,
    workloads=_LINEAR_WORKLOADS,
    reduction_axes=("vocab", "hidden"),
    growth_target={"vocab": 262_144},
    relations=(RowsIndependent(axis="rows"),),
)
def linear_cross_entropy(
    hidden_states: _HiddenRows, weight: _HeadWeight, targets: _Targets
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", name="loss")],
    Annotated[torch.Tensor, tensor("float32", "rows", name="log_normaliser")],
]:
    """Cross-entropy of hidden @ weight.T: loss of each row (0 if ignored) and log-sum-exp."""
    logits = _logits(hidden_states, weight)
    normaliser = torch.logsumexp(logits, dim=-1)
    picked = logits.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1)
    return torch.where(targets == IGNORED, 0.0, normaliser - picked), normaliser


@problem(
    axes=_LINEAR_AXES,
    workloads=_LINEAR_WORKLOADS,
    reduction_axes=("rows", "vocab"),
    growth_target={"rows": 65_536},
    relations=(
        LinearIn(input="grad_loss"),
        AdditiveOver(axis="rows", outputs=("grad_weight",)),
    ),
)
def linear_cross_entropy_backward(
    hidden_states: _HiddenRows, weight: _HeadWeight, targets: _Targets, grad_loss: _GradLoss
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="grad_hidden")],
    Annotated[torch.Tensor, tensor("bfloat16", "vocab", "hidden", name="grad_weight")],
]:
    """Gradients of linear_cross_entropy; logit gradients are rounded before the products."""
    low = hidden_states.dtype
    logits = _logits(hidden_states, weight)
    grad = _grad_logits(logits, targets, grad_loss, smoothing=0.0).to(low).to(torch.float32)
    grad_hidden = grad @ weight.to(torch.float32)
    grad_weight = grad.T @ hidden_states.to(torch.float32)
    return grad_hidden.to(low), grad_weight.to(low)
