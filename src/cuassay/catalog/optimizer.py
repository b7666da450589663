"""One optimizer step on float32 parameters and states: AdamW, SGD with momentum, Muon.

Gradients come in the working dtype. Nothing is written in place: new values are returned.
"""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.domain import Real
from cuassay.model.relation import RowsIndependent

# Newton-Schulz coefficients and steps of Muon (Jordan et al., 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
STEPS = 5


def _rate(value: float, like: torch.Tensor) -> torch.Tensor:
    """Return a decay rate as kernels receive it: float32, in which 1 - rate loses digits."""
    return torch.tensor(value, dtype=torch.float32, device=like.device)


_SIZE = {"size": (1, 2**31 - 1)}
# The first two are for CPUs; then a norm, an attention and an MLP matrix of Llama-3 8B.
_WORKLOADS = (
    {"size": 4096},
    {"size": 30_000},
    {"size": 4096 * 4096},
    {"size": 4096 * 14_336},
)
_Grad = Annotated[torch.Tensor, tensor("bfloat16", "size")]
_Vector = Annotated[torch.Tensor, tensor("float32", "size")]
_NewParam = Annotated[torch.Tensor, tensor("float32", "size", name="new_param")]
_Lr = Annotated[float, scalar("float32", low=1e-5, high=1e-1, default=1e-3)]
_Decay = Annotated[float, scalar("float32", low=0.0, high=0.2, default=0.1)]


@problem(axes=_SIZE, workloads=_WORKLOADS, relations=(RowsIndependent(axis="size"),))
def adamw_step(
    param: _Vector,
    grad: _Grad,
    exp_avg: _Vector,
    exp_avg_sq: Annotated[torch.Tensor, tensor("float32", "size", domain=Real(low=0.0))],
    lr: _Lr,
    beta1: Annotated[float, scalar("float32", low=0.5, high=0.95, default=0.9)],
    beta2: Annotated[float, scalar("float32", low=0.9, high=0.99, default=0.95)],
    eps: Annotated[float, scalar("float32", low=1e-9, high=1e-6, default=1e-8)],
    weight_decay: _Decay,
    step: Annotated[int, scalar("int32", low=1, high=1000, default=10)],
) -> tuple[
    _NewParam,
    Annotated[torch.Tensor, tensor("float32", "size", name="new_exp_avg")],
    Annotated[torch.Tensor, tensor("float32", "size", name="new_exp_avg_sq")],
]:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101): decoupled decay, bias correction."""
    wide, kept, kept_sq = grad.to(torch.float32), _rate(beta1, grad), _rate(beta2, grad)
    first = exp_avg * kept + wide * (1.0 - kept)
    second = exp_avg_sq * kept_sq + wide * wide * (1.0 - kept_sq)
    root = torch.sqrt(second / (1.0 - kept_sq**step)) + eps
    update = first / (1.0 - kept**step) / root
    return param * (1.0 - lr * weight_decay) - lr * update, first, second


@problem(axes=_SIZE, workloads=_WORKLOADS, relations=(RowsIndependent(axis="size"),))
def sgd_momentum_step(
    param: _Vector,
    grad: _Grad,
    momentum_buffer: _Vector,
    lr: _Lr,
    momentum: Annotated[float, scalar("float32", low=0.0, high=0.99, default=0.9)],
    weight_decay: _Decay,
    nesterov: Annotated[bool, scalar("bool", default=False)],
) -> tuple[
    _NewParam, Annotated[torch.Tensor, tensor("float32", "size", name="new_momentum_buffer")]
]:
    """SGD with momentum as torch.optim.SGD: coupled decay, no dampening, Nesterov if asked."""
    total = grad.to(torch.float32) + weight_decay * param
    buffer = momentum * momentum_buffer + total
    direction = total + momentum * buffer if nesterov else buffer
    return param - lr * direction, buffer


@problem(
    axes={"rows": (1, 65_536), "columns": (1, 65_536)},
    # The first three are for CPUs; then GPT-2 small's and Moonlight's matrices.
    workloads=(
        {"rows": 48, "columns": 64},
        {"rows": 96, "columns": 32},
        {"rows": 64, "columns": 128},
        {"rows": 768, "columns": 3072},
        {"rows": 2048, "columns": 2048},
    ),
)
def muon_step(
    param: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
    grad: Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")],
    momentum_buffer: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
    lr: Annotated[float, scalar("float32", low=1e-3, high=1e-1, default=2e-2)],
    momentum: Annotated[float, scalar("float32", low=0.5, high=0.99, default=0.95)],
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="new_param")],
    Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="new_momentum_buffer")],
]:
    """Muon (Jordan et al., 2024): Nesterov momentum, made orthogonal, times lr.

    The iteration runs in the working dtype; tall matrices take steps of sqrt(rows / columns).
    """
    wide, kept = grad.to(torch.float32), _rate(momentum, grad)
    buffer = kept * momentum_buffer + (1.0 - kept) * wide
    direction = kept * buffer + (1.0 - kept) * wide
    stretch = max(1.0, grad.shape[0] / grad.shape[1]) ** 0.5
    # Five Newton-Schulz steps towards the nearest orthogonal matrix, in the dtype `low`.
    tall = direction.shape[0] > direction.shape[1]
    x = direction.T if tall else direction
    x = (x / (x.norm() + 1e-7)).to(grad.dtype)
    first, second, third = QUINTIC
    for _ in range(STEPS):
        gram = x @ x.T
        x = first * x + (second * gram + third * (gram @ gram)) @ x
    made: torch.Tensor = x.T if tall else x
    return param - lr * stretch * made.to(torch.float32), buffer
