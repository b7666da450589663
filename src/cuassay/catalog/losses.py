"""Cross-entropy of each row, with label smoothing and ignored rows."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native import problem, scalar, tensor
from cuassay.model.domain import Index

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
