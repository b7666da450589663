"""The operators of the kernels beside this file, as their users would declare them."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay import problem, scalar, tensor
from cuassay.model.domain import Index, IntegerRange, Real

T = torch.Tensor
ROWS = {"rows": (1, 4096), "cols": (1, 4096)}
LISTED = [{"rows": 16, "cols": 256}, {"rows": 5, "cols": 100}]


@problem(axes=ROWS, workloads=LISTED)
def rms_norm(
    x: Annotated[T, tensor("bfloat16", "rows", "cols")],
    weight: Annotated[T, tensor("bfloat16", "cols")],
    eps: Annotated[float, scalar("float32", low=1e-6, high=1e-5, default=1e-6)],
) -> Annotated[T, tensor("bfloat16", "rows", "cols", name="y")]:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


@problem(axes=ROWS, workloads=LISTED)
def softmax(
    x: Annotated[T, tensor("float32", "rows", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return torch.softmax(x, -1)


@problem(axes={"rows": (1, 4096), "cols": (2, 4096)}, workloads=LISTED)
def layer_norm(
    x: Annotated[T, tensor("float32", "rows", "cols")],
    weight: Annotated[T, tensor("float32", "cols")],
    bias: Annotated[T, tensor("float32", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


@problem(axes=ROWS, workloads=LISTED)
def swiglu(
    gate: Annotated[T, tensor("float32", "rows", "cols")],
    up: Annotated[T, tensor("float32", "rows", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return gate * torch.sigmoid(gate) * up


@problem(
    axes={"m": (1, 1024), "k": (1, 4096), "n": (1, 1024)},
    workloads=[{"m": 32, "k": 128, "n": 48}, {"m": 7, "k": 200, "n": 33}],
)
def linear(
    x: Annotated[T, tensor("float32", "m", "k")],
    weight: Annotated[T, tensor("float32", "n", "k")],
    bias: Annotated[T, tensor("float32", "n")],
) -> Annotated[T, tensor("float32", "m", "n", name="y")]:
    return x @ weight.t() + bias


@problem(axes=ROWS, workloads=LISTED)
def row_mean(
    x: Annotated[T, tensor("bfloat16", "rows", "cols")],
) -> Annotated[T, tensor("float32", "rows", name="mean")]:
    return x.float().mean(-1)


@problem(
    axes={"rows": (1, 2048), "vocab": (2, 8192)},
    workloads=[{"rows": 16, "vocab": 512}, {"rows": 3, "vocab": 1000}],
)
def cross_entropy(
    logits: Annotated[T, tensor("float32", "rows", "vocab")],
    target: Annotated[T, tensor("int64", "rows", domain=Index(axis="vocab"))],
) -> Annotated[T, tensor("float32", "rows", name="loss")]:
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


@problem(
    axes={"tokens": (1, 8192), "vocab": (1, 4096), "hidden": (1, 512)},
    workloads=[{"tokens": 300, "vocab": 64, "hidden": 16}, {"tokens": 64, "vocab": 100, "hidden": 8}],
)
def embedding_gradient(
    grad: Annotated[T, tensor("bfloat16", "tokens", "hidden")],
    ids: Annotated[T, tensor("int64", "tokens", domain=Index(axis="vocab"))],
    start: Annotated[T, tensor("float32", "vocab", "hidden")],
) -> Annotated[T, tensor("float32", "vocab", "hidden", name="table")]:
    return start.index_add(0, ids, grad.float())


@problem(
    axes={"heads": (1, 16), "length": (1, 1024), "dim": (1, 128)},
    workloads=[{"heads": 2, "length": 64, "dim": 16}, {"heads": 3, "length": 37, "dim": 8}],
)
def attention(
    q: Annotated[T, tensor("float32", "heads", "length", "dim")],
    k: Annotated[T, tensor("float32", "heads", "length", "dim")],
    v: Annotated[T, tensor("float32", "heads", "length", "dim")],
) -> Annotated[T, tensor("float32", "heads", "length", "dim", name="o")]:
    s = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    upper = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
    return s.masked_fill(upper, float("-inf")).softmax(-1) @ v


@problem(
    axes={"tokens": (1, 4096), "half": (1, 128)},
    workloads=[{"tokens": 64, "half": 32}, {"tokens": 9, "half": 24}],
)
def rotary(
    x: Annotated[T, tensor("float32", "tokens", "half*2")],
    cos: Annotated[T, tensor("float32", "tokens", "half", domain=Real(low=-1.0, high=1.0))],
    sin: Annotated[T, tensor("float32", "tokens", "half", domain=Real(low=-1.0, high=1.0))],
) -> Annotated[T, tensor("float32", "tokens", "half*2", name="y")]:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


@problem(axes=ROWS, workloads=LISTED)
def bias_gelu(
    x: Annotated[T, tensor("float32", "rows", "cols")],
    bias: Annotated[T, tensor("float32", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return torch.nn.functional.gelu(x + bias)


@problem(
    axes={"rows": (1, 2048), "groups": (1, 64)},
    workloads=[{"rows": 16, "groups": 4}, {"rows": 5, "groups": 3}],
)
def dequantize(
    codes: Annotated[T, tensor("int8", "rows", "groups*32", domain=IntegerRange(low=-127, high=127))],
    scales: Annotated[T, tensor("float32", "rows", "groups", domain=Real(low=0.001, high=0.1))],
) -> Annotated[T, tensor("float32", "rows", "groups*32", name="y")]:
    return codes.float() * scales.repeat_interleave(32, 1)


@problem(axes=ROWS, workloads=LISTED)
def running_sum(
    x: Annotated[T, tensor("float32", "rows", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return x.cumsum(-1)


@problem(axes={"n": (1, 65536)}, workloads=[{"n": 1000}, {"n": 4096}])
def adam_step(
    p: Annotated[T, tensor("float32", "n")],
    g: Annotated[T, tensor("float32", "n")],
    m: Annotated[T, tensor("float32", "n")],
    v: Annotated[T, tensor("float32", "n", domain=Real(low=0.0, high=10.0))],
    lr: Annotated[float, scalar("float32", low=1e-4, high=1e-1, default=1e-2)],
) -> tuple[
    Annotated[T, tensor("float32", "n", name="p_out")],
    Annotated[T, tensor("float32", "n", name="m_out")],
    Annotated[T, tensor("float32", "n", name="v_out")],
]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - lr * m / (v.sqrt() + 1e-8), m, v


@problem(
    axes={"batch": (1, 64), "length": (1, 512), "dim": (1, 256)},
    workloads=[{"batch": 4, "length": 32, "dim": 16}, {"batch": 3, "length": 50, "dim": 8}],
)
def mean_pool(
    x: Annotated[T, tensor("float32", "batch", "length", "dim")],
    keep: Annotated[T, tensor("bool", "batch", "length")],
) -> Annotated[T, tensor("float32", "batch", "dim", name="y")]:
    w = keep.float().unsqueeze(-1)
    return (x * w).sum(1) / w.sum(1).clamp_min(1.0)


@problem(axes=ROWS, workloads=LISTED)
def quantize(
    x: Annotated[T, tensor("float32", "rows", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    """Rows rounded to 127 steps of their largest value."""
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127.0
    return torch.round(x / scale) * scale
