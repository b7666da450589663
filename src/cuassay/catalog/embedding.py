"""Embeddings: the look-up, and gradients that sum over all tokens that share an id.

Frequent tokens put thousands of terms on one row, so the precision of the running sum
decides; the sum is kept in float32 and rounded once.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Index, Positive
from cuassay.model.problem import Tolerance

_TOKENS, _HIDDEN, _VOCAB = (1, 4_194_304), (1, 65_536), (1, 1_048_576)
_WORKLOADS = (
    {"tokens": 512, "hidden": 64, "vocab": 512},
    {"tokens": 1024, "hidden": 128, "vocab": 1024},
    {"tokens": 8192, "hidden": 2048, "vocab": 32_000},
    {"tokens": 16_384, "hidden": 4096, "vocab": 65_536},
    {"tokens": 32_768, "hidden": 4096, "vocab": 65_536},
)
# The rule that the known benchmark judges such gradients by.
_TOLERANCE = Tolerance(atol=1e-2, rtol=5e-2, required_matched_ratio=0.99)

# No input of the fused operator carries the vocabulary, so it is a constant of the problem.
_SMALL_VOCAB, _LARGE_VOCAB = 2048, 65_536
_Grad = Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden")]
_Ids = Annotated[torch.Tensor, tensor("int64", "tokens", domain=Index(axis="vocab"))]
_Hidden = Annotated[torch.Tensor, tensor("float32", "tokens", "hidden")]
_Rstd = Annotated[torch.Tensor, tensor("float32", "tokens", domain=Positive(low=1e-2, high=1e3))]
_Weight = Annotated[torch.Tensor, tensor("bfloat16", "hidden")]
_GradEmbed = Annotated[
    torch.Tensor, tensor("bfloat16", "vocab", "hidden", name="grad_embed_weight")
]
_GradNorm = Annotated[torch.Tensor, tensor("bfloat16", "hidden", name="grad_norm_weight")]


@problem(
    axes={"tokens": _TOKENS, "hidden": _HIDDEN, "vocab": _VOCAB},
    workloads=_WORKLOADS,
    tolerance=_TOLERANCE,
    reduction_axes=("tokens",),
    index_inputs={"input_ids": ("grad_weight",)},
    growth_target={"tokens": 1_000_000},
)
def embedding_grad(
    grad_output: _Grad,
    input_ids: _Ids,
    weight: Annotated[torch.Tensor, tensor("bfloat16", "vocab", "hidden")],
    scale: Annotated[float, scalar("float32", low=0.125, high=64.0, default=1.0)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "vocab", "hidden", name="grad_weight")]:
    """Gradient of scale * weight[input_ids] with respect to weight (only its shape is used)."""
    total = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    total.index_add_(0, input_ids, grad_output.to(torch.float32) * scale)
    return total.to(grad_output.dtype)


@problem(axes={"tokens": _TOKENS, "hidden": _HIDDEN, "vocab": _VOCAB}, workloads=_WORKLOADS)
def embedding(
    input_ids: _Ids,
    weight: Annotated[torch.Tensor, tensor("bfloat16", "vocab", "hidden")],
    scale: Annotated[float, scalar("float32", low=0.125, high=64.0, default=1.0)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden", name="y")]:
    """scale * weight[input_ids]; Gemma scales by the root of the hidden size."""
    return (weight[input_ids].to(torch.float32) * scale).to(weight.dtype)


def fused_backward(
    grad_output: torch.Tensor,
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    *,
    rstd: torch.Tensor,
    norm_weight: torch.Tensor,
    vocab: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of a table of `vocab` rows and of the norm's weight; sums in float32."""
    grad, scale = grad_output.to(torch.float32), rstd.unsqueeze(-1)
    normed = hidden_states * scale
    weighted = grad * norm_weight.to(torch.float32)
    along = (weighted * normed).mean(dim=-1, keepdim=True)
    grad_hidden = (weighted - normed * along) * scale
    shape = (vocab, grad_output.shape[-1])
    table = torch.zeros(shape, dtype=torch.float32, device=grad_output.device)
    table.index_add_(0, input_ids, grad_hidden)
    return table.to(grad_output.dtype), (grad * normed).sum(dim=0).to(norm_weight.dtype)


@problem(
    axes={"tokens": _TOKENS, "hidden": _HIDDEN, "vocab": _SMALL_VOCAB},
    workloads=(
        {"tokens": 512, "hidden": 32},
        {"tokens": 1024, "hidden": 64},
        {"tokens": 8192, "hidden": 2048},
        {"tokens": 32_768, "hidden": 4096},
    ),
    tolerance=_TOLERANCE,
    reduction_axes=("tokens",),
    index_inputs={"input_ids": ("grad_embed_weight",)},
    growth_target={"tokens": 1_000_000},
)
def embedding_rmsnorm_backward(
    grad_output: _Grad, input_ids: _Ids, hidden_states: _Hidden, rstd: _Rstd, norm_weight: _Weight
) -> tuple[_GradEmbed, _GradNorm]:
    """Gradients of RMSNorm(embedding[input_ids]) for a vocabulary of 2048."""
    return fused_backward(
        grad_output,
        input_ids,
        hidden_states,
        rstd=rstd,
        norm_weight=norm_weight,
        vocab=_SMALL_VOCAB,
    )


@problem(
    axes={"tokens": _TOKENS, "hidden": _HIDDEN, "vocab": _LARGE_VOCAB},
    workloads=(
        {"tokens": 512, "hidden": 64},
        {"tokens": 8192, "hidden": 2048},
        {"tokens": 32_768, "hidden": 4096},
    ),
    tolerance=_TOLERANCE,
    reduction_axes=("tokens",),
    index_inputs={"input_ids": ("grad_embed_weight",)},
    growth_target={"tokens": 1_000_000},
)
def embedding_rmsnorm_backward_64k(
    grad_output: _Grad, input_ids: _Ids, hidden_states: _Hidden, rstd: _Rstd, norm_weight: _Weight
) -> tuple[_GradEmbed, _GradNorm]:
    """The same for the vocabulary of 65 536 of production models (meant for a GPU)."""
    return fused_backward(
        grad_output,
        input_ids,
        hidden_states,
        rstd=rstd,
        norm_weight=norm_weight,
        vocab=_LARGE_VOCAB,
    )
