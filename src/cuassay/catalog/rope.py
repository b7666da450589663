"""Rotary position embeddings (Su et al., arXiv 2104.09864): halves, pairs, Llama-3 scaling."""

from __future__ import annotations

import math
from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Index, IntegerRange, Real
from cuassay.model.relation import LinearIn, RowsIndependent

TRAINED = 8192  # positions that Llama 3 was first trained with
LOW_FACTOR, HIGH_FACTOR = 1.0, 4.0  # wavelengths kept and scaled, in shares of TRAINED

_AXES = {
    "tokens": (1, 1_048_576),
    "heads": (1, 256),
    "kv_heads": (1, 256),
    "half": (1, 256),
    "positions": (1, 1_048_576),
}
# The first two are for CPUs; then Llama-3 8B, Llama-3 70B and Qwen-2.5 7B.
_WORKLOADS = (
    {"tokens": 48, "heads": 4, "kv_heads": 2, "half": 16, "positions": 64},
    {"tokens": 96, "heads": 8, "kv_heads": 1, "half": 32, "positions": 256},
    {"tokens": 8192, "heads": 32, "kv_heads": 8, "half": 64, "positions": 8192},
    {"tokens": 4096, "heads": 64, "kv_heads": 8, "half": 64, "positions": 131_072},
    {"tokens": 4096, "heads": 28, "kv_heads": 4, "half": 64, "positions": 32_768},
)
_Q = ("bfloat16", "tokens", "heads", "2*half")
_K = ("bfloat16", "tokens", "kv_heads", "2*half")
_Query = Annotated[torch.Tensor, tensor(*_Q)]
_Key = Annotated[torch.Tensor, tensor(*_K)]
_Table = Annotated[
    torch.Tensor, tensor("float32", "positions", "half", domain=Real(low=-1.0, high=1.0))
]
_Places = Annotated[torch.Tensor, tensor("int64", "tokens", domain=Index(axis="positions"))]
_QOut = Annotated[torch.Tensor, tensor(*_Q, name="q_out")]
_KOut = Annotated[torch.Tensor, tensor(*_K, name="k_out")]


def _halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate (x[i], x[i + half]) by the angle of each token: the NeoX layout."""
    first, second = x.to(torch.float32).chunk(2, dim=-1)
    c, s = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1).to(x.dtype)


def _pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate (x[2 i], x[2 i + 1]) by the angle of each token: the interleaved layout."""
    even, odd = x.to(torch.float32).reshape(*x.shape[:-1], -1, 2).unbind(-1)
    c, s = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2).to(x.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    relations=(
        RowsIndependent(axis="heads", outputs=("q_out",)),
        LinearIn(input="q", outputs=("q_out",)),
    ),
)
def rope_neox(
    q: _Query, k: _Key, cos: _Table, sin: _Table, position_ids: _Places
) -> tuple[_QOut, _KOut]:
    """Rotary embedding of queries and keys, halves rotated, tables and positions given."""
    c, s = cos[position_ids], sin[position_ids]
    return _halves(q, c, s), _halves(k, c, s)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    relations=(
        RowsIndependent(axis="heads", outputs=("q_out",)),
        LinearIn(input="q", outputs=("q_out",)),
    ),
)
def rope_interleaved(
    q: _Query, k: _Key, cos: _Table, sin: _Table, position_ids: _Places
) -> tuple[_QOut, _KOut]:
    """Rotary embedding of queries and keys, neighbours rotated, tables and positions given."""
    c, s = cos[position_ids], sin[position_ids]
    return _pairs(q, c, s), _pairs(k, c, s)


@problem(
    axes=_AXES, workloads=_WORKLOADS, relations=(LinearIn(input="grad_q", outputs=("q_out",)),)
)
def rope_neox_backward(
    grad_q: Annotated[torch.Tensor, tensor(*_Q)],
    grad_k: Annotated[torch.Tensor, tensor(*_K)],
    cos: _Table,
    sin: _Table,
    position_ids: _Places,
) -> tuple[_QOut, _KOut]:
    """Gradients of rope_neox with respect to q and k: the rotation back."""
    c, s = cos[position_ids], -sin[position_ids]
    return _halves(grad_q, c, s), _halves(grad_k, c, s)


@problem(
    axes={"tokens": (1, 1_048_576), "heads": (1, 256), "half": (1, 256)},
    # The first two are for CPUs; then Llama-3.1 8B and 405B on 8 GPUs.
    workloads=(
        {"tokens": 64, "heads": 4, "half": 32},
        {"tokens": 40, "heads": 8, "half": 64},
        {"tokens": 8192, "heads": 32, "half": 64},
        {"tokens": 16_384, "heads": 16, "half": 64},
    ),
    relations=(
        RowsIndependent(axis="tokens"),
        LinearIn(input="x"),
    ),
)
def rope_llama3(
    x: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "heads", "2*half")],
    position_ids: Annotated[
        torch.Tensor, tensor("int64", "tokens", domain=IntegerRange(low=0, high=32_767))
    ],
    theta: Annotated[float, scalar("float32", low=1e4, high=1e6, default=5e5)],
    factor: Annotated[float, scalar("float32", low=1.0, high=32.0, default=8.0)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "heads", "2*half", name="y")]:
    """Rotary embedding by halves with frequencies computed and scaled as in Llama 3.1.

    Waves of fewer than 8192/4 positions stay, those of more than 8192 are `factor` times
    slower, those between are blended.
    """
    # Llama-3's angular frequencies: long waves are slowed down by `factor`.
    half = x.shape[-1] // 2
    exponent = torch.arange(half, dtype=torch.float32, device=x.device) / half
    frequency = 1.0 / theta**exponent
    wavelength = 2.0 * math.pi / frequency
    share = (TRAINED / wavelength - LOW_FACTOR) / (HIGH_FACTOR - LOW_FACTOR)
    kept = share.clamp(0.0, 1.0)
    frequency = frequency * (kept + (1.0 - kept) / factor)
    angle = position_ids.to(torch.float32).unsqueeze(-1) * frequency
    return _halves(x, torch.cos(angle), torch.sin(angle))
