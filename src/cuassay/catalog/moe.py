"""Mixture of experts: routing, permutation to experts, the experts, and the way back."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.catalog.gemm import grouped_product
from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import Index, Offsets, Probability, Real
from cuassay.model.relation import LinearIn, RowsIndependent

TOP = 2  # experts a token, as in Mixtral (arXiv 2401.04088)
GROUPS, KEPT_GROUPS, GROUP_TOP = 8, 4, 8  # DeepSeek-V3 (arXiv 2412.19437, section 2.1.2)
SCALING = 2.5  # of DeepSeek-V3's routing weights

_Tokens = (1, 1_048_576)
_Weights = Annotated[torch.Tensor, tensor("float32", "tokens", TOP, name="weights")]
_GroupWeights = Annotated[torch.Tensor, tensor("float32", "tokens", GROUP_TOP, name="weights")]


@problem(
    axes={"tokens": _Tokens, "experts": (TOP, 1024)},
    # The first two are for CPUs; then Mixtral 8x7B, Qwen-2 57B-A14B.
    workloads=(
        {"tokens": 128, "experts": 8},
        {"tokens": 256, "experts": 60},
        {"tokens": 65_536, "experts": 8},
        {"tokens": 8192, "experts": 64},
    ),
    relations=(RowsIndependent(axis="tokens"),),
)
def moe_route(
    logits: Annotated[
        torch.Tensor, tensor("float32", "tokens", "experts", domain=Real(low=-15.0, high=15.0))
    ],
) -> tuple[_Weights, Annotated[torch.Tensor, tensor("int64", "tokens", TOP, name="experts_of")]]:
    """The two most likely experts of each token, weights renormalised, most likely first."""
    weights, chosen = torch.topk(torch.softmax(logits, dim=-1), TOP, dim=-1)
    return weights / weights.sum(dim=-1, keepdim=True), chosen


@problem(
    axes={"tokens": _Tokens, "width": (2, 128)},
    # The first two are for CPUs; then DeepSeek-V3 with 256 experts in 8 groups.
    workloads=(
        {"tokens": 128, "width": 4},
        {"tokens": 64, "width": 16},
        {"tokens": 8192, "width": 32},
    ),
    relations=(RowsIndependent(axis="tokens"),),
)
def moe_route_grouped(
    logits: Annotated[
        torch.Tensor,
        tensor("float32", "tokens", f"{GROUPS}*width", domain=Real(low=-6.0, high=6.0)),
    ],
    bias: Annotated[
        torch.Tensor, tensor("float32", f"{GROUPS}*width", domain=Real(low=-0.5, high=0.5))
    ],
) -> tuple[
    _GroupWeights, Annotated[torch.Tensor, tensor("int64", "tokens", GROUP_TOP, name="experts_of")]
]:
    """Group-limited routing of DeepSeek-V3: 8 experts out of the best 4 of 8 groups.

    Scores are sigmoids. The bias takes part in the choice alone: a group counts by the sum of
    its two best biased scores. Weights are scores normalised over the chosen, times 2.5.
    """
    scores = torch.sigmoid(logits)
    biased = (scores + bias).reshape(len(scores), GROUPS, -1)
    group_scores = torch.topk(biased, 2, dim=-1).values.sum(dim=-1)
    kept = torch.topk(group_scores, KEPT_GROUPS, dim=-1).indices
    closed = torch.ones_like(group_scores, dtype=torch.bool).scatter(1, kept, False)
    open_scores = biased.masked_fill(closed.unsqueeze(-1), float("-inf")).flatten(1)
    chosen = torch.topk(open_scores, GROUP_TOP, dim=-1).indices
    weights = scores.gather(1, chosen)
    return weights / weights.sum(dim=-1, keepdim=True) * SCALING, chosen


@problem(
    axes={"tokens": _Tokens, "hidden": (1, 65_536), "experts": 16},
    # The first two are for CPUs; then Mixtral 8x7B's and Phi-3.5-MoE's hidden sizes.
    workloads=(
        {"tokens": 96, "hidden": 64},
        {"tokens": 200, "hidden": 24},
        {"tokens": 16_384, "hidden": 4096},
    ),
)
def moe_gather(
    x: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden")],
    experts_of: Annotated[
        torch.Tensor, tensor("int64", "tokens", TOP, domain=Index(axis="experts"))
    ],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", f"tokens*{TOP}", "hidden", name="rows")],
    Annotated[torch.Tensor, tensor("int64", f"tokens*{TOP}", name="source")],
    Annotated[torch.Tensor, tensor("int64", "experts", name="counts")],
]:
    """Rows in order of expert (of 16), ties in token order; their source slots; counts.

    Slot i stands for choice i % 2 of token i // 2.
    """
    source = torch.argsort(experts_of.flatten(), stable=True)
    counts = torch.bincount(experts_of.flatten(), minlength=16)
    return x[source // TOP], source, counts


@problem(
    axes={"tokens": _Tokens, "hidden": (1, 65_536)},
    # The first two are for CPUs; then Mixtral 8x7B's and 8x22B's hidden sizes.
    workloads=(
        {"tokens": 96, "hidden": 64},
        {"tokens": 200, "hidden": 24},
        {"tokens": 16_384, "hidden": 4096},
        {"tokens": 8192, "hidden": 6144},
    ),
    relations=(LinearIn(input="rows"),),
)
def moe_combine(
    rows: Annotated[torch.Tensor, tensor("bfloat16", f"tokens*{TOP}", "hidden")],
    slots: Annotated[
        torch.Tensor,
        tensor("int64", "tokens", TOP, domain=Index(axis=f"tokens*{TOP}", unique=True)),
    ],
    weights: Annotated[torch.Tensor, tensor("float32", "tokens", TOP, domain=Probability())],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden", name="y")]:
    """Weighted sum of each token's expert rows, which lie at its slots."""
    return (rows[slots].to(torch.float32) * weights.unsqueeze(-1)).sum(dim=1).to(rows.dtype)


@problem(
    axes={"tokens": _Tokens, "hidden": (1, 65_536)},
    workloads=(
        {"tokens": 96, "hidden": 64},
        {"tokens": 200, "hidden": 24},
        {"tokens": 16_384, "hidden": 4096},
    ),
    index_inputs={"token_of": ("y",)},
    relations=(LinearIn(input="rows"),),
)
def moe_scatter(
    rows: Annotated[torch.Tensor, tensor("bfloat16", f"tokens*{TOP}", "hidden")],
    token_of: Annotated[
        torch.Tensor, tensor("int64", f"tokens*{TOP}", domain=Index(axis="tokens"))
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden", name="y")]:
    """Rows added to their tokens (the gradient of moe_gather); a token may own any number."""
    count, hidden = rows.shape
    total = torch.zeros(count // TOP, hidden, dtype=torch.float32, device=rows.device)
    return total.index_add_(0, token_of, rows.to(torch.float32)).to(rows.dtype)


# Beyond these sizes products of three matrices leave float16's range.
_ACTIVATION, _MATRIX = Real(low=-16.0, high=16.0), Real(low=-2.0, high=2.0)


@problem(
    axes={
        "experts": (1, 1024),
        "slots": (1, 1_048_576),
        "hidden": (1, 65_536),
        "inner": (1, 65_536),
    },
    # The first two are for CPUs; then Mixtral 8x7B, and DeepSeek-V3 on 32 GPUs.
    workloads=(
        {"experts": 4, "slots": 80, "hidden": 32, "inner": 48},
        {"experts": 8, "slots": 64, "hidden": 64, "inner": 16},
        {"experts": 8, "slots": 4096, "hidden": 4096, "inner": 14_336},
        {"experts": 8, "slots": 8192, "hidden": 7168, "inner": 2048},
    ),
    reduction_axes=("hidden", "inner"),
    growth_target={"hidden": 16_384},
)
def moe_experts(
    rows: Annotated[torch.Tensor, tensor("bfloat16", "slots", "hidden", domain=_ACTIVATION)],
    offsets: Annotated[torch.Tensor, tensor("int32", "experts+1", domain=Offsets(axis="slots"))],
    gate_up: Annotated[
        torch.Tensor, tensor("bfloat16", "experts", "hidden", "2*inner", domain=_MATRIX)
    ],
    down: Annotated[torch.Tensor, tensor("bfloat16", "experts", "inner", "hidden", domain=_MATRIX)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "slots", "hidden", name="y")]:
    """SwiGLU experts on rows grouped by offsets; the activation is rounded between products."""
    gate, up = grouped_product(rows, gate_up, offsets).chunk(2, dim=-1)
    inner = (torch.nn.functional.silu(gate) * up).to(rows.dtype)
    return grouped_product(inner, down, offsets).to(rows.dtype)


@problem(
    axes={"tokens": _Tokens, "hidden": (1, 65_536), "inner": (1, 65_536), "experts": (2, 1024)},
    # The first two are for CPUs; then Mixtral 8x7B's up projection.
    workloads=(
        {"tokens": 24, "hidden": 32, "inner": 48, "experts": 4},
        {"tokens": 40, "hidden": 64, "inner": 16, "experts": 8},
        {"tokens": 512, "hidden": 4096, "inner": 14_336, "experts": 8},
    ),
    reduction_axes=("hidden",),
    growth_target={"hidden": 16_384},
    relations=(RowsIndependent(axis="tokens"),),
)
def moe_gemm(
    x: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "experts", "hidden", "inner")],
    experts_of: Annotated[
        torch.Tensor,
        tensor("int32", "tokens", TOP, domain=Index(axis="experts", sentinels=(-1,))),
    ],
    gates: Annotated[torch.Tensor, tensor("float32", "tokens", TOP, domain=Probability())],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "inner", name="y")]:
    """Sum of gate times x @ weight[expert] over each token's experts; -1 is padding: no expert."""
    experts = weight.shape[0]
    chosen = torch.where(experts_of < 0, experts, experts_of).long()
    share = torch.zeros(len(x), experts + 1, dtype=torch.float32, device=x.device)
    share = share.scatter_add(1, chosen, gates)[:, :experts]
    products = x.to(torch.float32) @ weight.to(torch.float32)  # experts, tokens, inner
    return (share.T.unsqueeze(-1) * products).sum(dim=0).to(x.dtype)
