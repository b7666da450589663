"""Gated linear units: SwiGLU and GeGLU (Shazeer, arXiv 2002.05202), forward and backward."""

from __future__ import annotations

import math
from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.relation import LinearIn, RowsIndependent

_AXES = {"rows": (1, 1_048_576), "hidden": (1, 131_072)}
# The first two are for CPUs; then Llama-2 7B, Llama-3 8B, Gemma-2 9B and Qwen-2.5 72B on 8 GPUs.
_WORKLOADS = (
    {"rows": 64, "hidden": 352},
    {"rows": 32, "hidden": 1408},
    {"rows": 2048, "hidden": 11_008},
    {"rows": 8192, "hidden": 14_336},
    {"rows": 4096, "hidden": 14_336},
    {"rows": 8192, "hidden": 3696},
)
_Rows = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")]
_Y = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]
_GradGate = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="grad_gate")]
_GradUp = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="grad_up")]
_ROOT = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715  # both of the tanh form of GELU (Hendrycks and Gimpel, arXiv 1606.08415)


@problem(axes=_AXES, workloads=_WORKLOADS)
def swiglu(gate: _Rows, up: _Rows) -> _Y:
    """silu(gate) * up, elementwise."""
    return (torch.nn.functional.silu(gate.to(torch.float32)) * up.to(torch.float32)).to(gate.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    relations=(
        RowsIndependent(axis="rows"),
        LinearIn(input="grad_output"),
    ),
)
def swiglu_backward(grad_output: _Rows, gate: _Rows, up: _Rows) -> tuple[_GradGate, _GradUp]:
    """Gradients of silu(gate) * up."""
    grad, wide = grad_output.to(torch.float32), gate.to(torch.float32)
    sigmoid = torch.sigmoid(wide)
    silu = wide * sigmoid
    slope = sigmoid + silu * (1.0 - sigmoid)
    grad_gate = grad * up.to(torch.float32) * slope
    return grad_gate.to(gate.dtype), (grad * silu).to(gate.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    relations=(
        RowsIndependent(axis="rows"),
        LinearIn(input="up"),
    ),
)
def geglu(gate: _Rows, up: _Rows) -> _Y:
    """gelu(gate) * up, elementwise, GELU in its tanh form (Gemma)."""
    wide = torch.nn.functional.gelu(gate.to(torch.float32), approximate="tanh")
    return (wide * up.to(torch.float32)).to(gate.dtype)


@problem(
    axes=_AXES,
    workloads=_WORKLOADS,
    relations=(
        RowsIndependent(axis="rows"),
        LinearIn(input="grad_output"),
    ),
)
def geglu_backward(grad_output: _Rows, gate: _Rows, up: _Rows) -> tuple[_GradGate, _GradUp]:
    """Gradients of gelu(gate) * up, GELU in its tanh form."""
    grad, wide = grad_output.to(torch.float32), gate.to(torch.float32)
    square = wide * wide
    # 1 + tanh(u) = 2 sigmoid(2 u), which keeps its digits where tanh is close to -1 or 1.
    inner = 2.0 * _ROOT * wide * (1.0 + _CUBIC * square)
    share, rest = torch.sigmoid(inner), torch.sigmoid(-inner)
    slope = share + wide * share * rest * (2.0 * _ROOT * (1.0 + 3.0 * _CUBIC * square))
    grad_gate = grad * up.to(torch.float32) * slope
    return grad_gate.to(gate.dtype), (grad * wide * share).to(gate.dtype)
