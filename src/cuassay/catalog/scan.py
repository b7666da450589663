"""State-space layers of Mamba (arXiv 2312.00752), and linear attention with gates."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import Real
from cuassay.model.relation import LinearIn, PrefixStable, RowsIndependent

WIDTH = 4  # taps of Mamba's convolution

_Signal = ("batch", "channels", "length")
# The first three are for CPUs, the third with a state that is no multiple of a warp's 32; then
# Mamba-130M, Mamba-2.8B and Jamba's inner widths.
_WORKLOADS = (
    {"batch": 2, "channels": 16, "length": 96, "state": 8},
    {"batch": 1, "channels": 24, "length": 200, "state": 16},
    {"batch": 2, "channels": 12, "length": 80, "state": 40},
    {"batch": 4, "channels": 1536, "length": 2048, "state": 16},
    {"batch": 1, "channels": 5120, "length": 2048, "state": 16},
    {"batch": 1, "channels": 8192, "length": 1024, "state": 16},
)


def linear_recurrence(decay: torch.Tensor, inflow: torch.Tensor) -> torch.Tensor:
    """Return h with h[t] = decay[t] * h[t-1] + inflow[t] along the last axis, h[-1] = 0.

    By doubling (Hillis and Steele): after step s every place knows its last 2**s terms. No
    division, so strong decay is as exact as weak.
    """
    length, reach = decay.shape[-1], 1
    while reach < length:
        kept = decay[..., reach:] * inflow[..., :-reach] + inflow[..., reach:]
        inflow = torch.cat((inflow[..., :reach], kept), dim=-1)
        shorter = decay[..., reach:] * decay[..., :-reach]
        decay = torch.cat((decay[..., :reach], shorter), dim=-1)
        reach *= 2
    return inflow


@problem(
    axes={
        "batch": (1, 4096),
        "channels": (1, 65_536),
        "length": (1, 262_144),
        "state": (1, 256),
    },
    workloads=_WORKLOADS,
    reduction_axes=("length",),
    growth_target={"length": 131_072},
    relations=(
        RowsIndependent(axis="batch"),
        PrefixStable(axis="length"),
        LinearIn(input="u"),
    ),
)
def selective_scan(
    u: Annotated[torch.Tensor, tensor("bfloat16", *_Signal)],
    delta: Annotated[torch.Tensor, tensor("bfloat16", *_Signal, domain=Real(low=-8.0, high=2.0))],
    a: Annotated[
        torch.Tensor, tensor("float32", "channels", "state", domain=Real(low=-16.0, high=-0.01))
    ],
    b: Annotated[torch.Tensor, tensor("bfloat16", "batch", "state", "length")],
    c: Annotated[torch.Tensor, tensor("bfloat16", "batch", "state", "length")],
    d: Annotated[torch.Tensor, tensor("float32", "channels")],
) -> Annotated[torch.Tensor, tensor("bfloat16", *_Signal, name="y")]:
    """y[t] = c[t] h[t] + d u[t] with h[t] = exp(s a) h[t-1] + s b[t] u[t], s = softplus(delta).

    `a` is negative, one decay rate for each channel and state; b and c are shared by channels.
    """
    wide = u.to(torch.float32)
    step = torch.nn.functional.softplus(delta.to(torch.float32))
    decay = torch.exp(step.unsqueeze(2) * a.unsqueeze(-1))
    inflow = (step * wide).unsqueeze(2) * b.to(torch.float32).unsqueeze(1)
    state = linear_recurrence(decay, inflow)
    y = (state * c.to(torch.float32).unsqueeze(1)).sum(dim=2) + d.unsqueeze(-1) * wide
    return y.to(u.dtype)


@problem(
    axes={"batch": (1, 4096), "channels": (1, 65_536), "length": (1, 1_048_576)},
    # The first two are for CPUs; then Mamba-130M and Mamba-2.8B.
    workloads=(
        {"batch": 2, "channels": 48, "length": 128},
        {"batch": 3, "channels": 16, "length": 500},
        {"batch": 8, "channels": 1536, "length": 2048},
        {"batch": 2, "channels": 5120, "length": 2048},
    ),
    relations=(
        RowsIndependent(axis="batch"),
        PrefixStable(axis="length"),
    ),
)
def causal_conv1d(
    x: Annotated[torch.Tensor, tensor("bfloat16", *_Signal)],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "channels", WIDTH)],
    bias: Annotated[torch.Tensor, tensor("bfloat16", "channels")],
) -> Annotated[torch.Tensor, tensor("bfloat16", *_Signal, name="y")]:
    """silu(bias + sum of weight[j] * x[t - 3 + j]) for each channel, zeros before the start."""
    wide, taps = x.to(torch.float32), weight.to(torch.float32)
    padded = torch.nn.functional.pad(wide, (WIDTH - 1, 0))
    total = (padded.unfold(-1, WIDTH, 1) * taps.unsqueeze(1)).sum(dim=-1)
    return torch.nn.functional.silu(total + bias.to(torch.float32).unsqueeze(-1)).to(x.dtype)


_TOKENS = ("batch", "heads", "tokens")


@problem(
    axes={
        "batch": (1, 4096),
        "heads": (1, 256),
        "tokens": (1, 262_144),
        "key": (1, 256),
        "value": (1, 256),
    },
    # The first two are for CPUs; then layers of 2.7 B and of Qwen3-Next's size.
    workloads=(
        {"batch": 1, "heads": 2, "tokens": 96, "key": 16, "value": 16},
        {"batch": 2, "heads": 1, "tokens": 150, "key": 8, "value": 24},
        {"batch": 4, "heads": 20, "tokens": 2048, "key": 64, "value": 128},
        {"batch": 2, "heads": 32, "tokens": 2048, "key": 128, "value": 128},
    ),
    reduction_axes=("tokens",),
    growth_target={"tokens": 8192},
    relations=(RowsIndependent(axis="batch"),),
)
def gated_linear_attention(
    q: Annotated[torch.Tensor, tensor("bfloat16", *_TOKENS, "key")],
    k: Annotated[torch.Tensor, tensor("bfloat16", *_TOKENS, "key")],
    v: Annotated[torch.Tensor, tensor("bfloat16", *_TOKENS, "value")],
    log_decay: Annotated[
        torch.Tensor, tensor("float32", *_TOKENS, domain=Real(low=-4.0, high=-1e-3))
    ],
    state: Annotated[torch.Tensor, tensor("float32", "batch", "heads", "key", "value")],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", *_TOKENS, "value", name="output")],
    Annotated[
        torch.Tensor, tensor("float32", "batch", "heads", "key", "value", name="state_after")
    ],
]:
    """o[t] = q[t] S[t] with S[t] = exp(log_decay[t]) S[t-1] + k[t]^T v[t], S[-1] = `state`.

    Kernels go through the tokens in chunks. `state_after` is the state after the last token.
    """
    wide_q, wide_k, wide_v = (part.to(torch.float32) for part in (q, k, v))
    reach = log_decay.cumsum(dim=-1)  # of the decay from the start up to each token
    between = reach.unsqueeze(-1) - reach.unsqueeze(-2)
    later = torch.ones(between.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    decay = between.masked_fill(later, float("-inf")).exp()
    scores = wide_q @ wide_k.transpose(-1, -2) * decay
    output = scores @ wide_v + reach.exp().unsqueeze(-1) * (wide_q @ state)
    last = reach[..., -1:]
    kept = (last - reach).exp().unsqueeze(-1) * wide_k
    after = last.exp().unsqueeze(-1) * state + kept.transpose(-1, -2) @ wide_v
    return output.to(q.dtype), after
