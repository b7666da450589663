"""Operators and fills of the calibration: none of them is among those that shaped the rule.

Each operator has a reference as people write it (bfloat16 and float16 references upcast and
cast once, or round in the middle) and the same mathematics against `Arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from calibration_arithmetic import Arithmetic, kahan_free_welford
from torch import Tensor

Shape = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """`uses` names the pieces of arithmetic that matter; `kinds` the inputs to draw."""

    name: str
    reference: Callable[..., Tensor]
    kernel: Callable[..., Tensor]
    uses: frozenset[str]
    inputs: Callable[[Shape, Callable[[int, int], Tensor]], tuple[Tensor, ...]]
    indexed: bool = False


def _one(shape: Shape, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return (fill(*shape),)


def _two(shape: Shape, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return fill(*shape), fill(*shape)


def _affine(shape: Shape, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    weight = 1.0 + 0.25 * torch.randn(shape[1])
    return fill(*shape), weight, 0.1 * torch.randn(shape[1])


def _matrices(shape: Shape, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return fill(*shape), fill(40, shape[1])


def _kernel(shape: Shape, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    channels = max(2, shape[0] // 4)
    return fill(channels * 2, shape[1]).view(2, channels, -1), torch.randn(24, channels, 5)


def _segments(shape: Shape, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    rows = 16 * shape[0]
    chance = 1.0 / torch.arange(1, shape[0] + 1).double()
    index = torch.multinomial(chance, rows, replacement=True)
    return fill(rows, min(shape[1], 96)), index


def l2_reference(x: Tensor) -> Tensor:
    y = x.float()
    return (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def l2_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    return x * a.rsqrt(a.sum(x * x) + 1e-6 * a.eps)


def standard_reference(x: Tensor) -> Tensor:
    y = x.float()
    var, mean = torch.var_mean(y, dim=-1, keepdim=True, correction=0)
    return ((y - mean) / torch.sqrt(var + 1e-5)).to(x.dtype)


def standard_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    n = x.shape[-1]
    if a.welford:
        mean, var = kahan_free_welford(x)
    else:
        mean = a.sum(x) / n
        var = a.sum((x - mean).square()) / (n - a.divisor)
    return (x - mean) * a.rsqrt(var + 1e-5 * a.eps)


def group_reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x.float(), 4, weight.float(), bias.float()).to(x.dtype)


def group_kernel(a: Arithmetic, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    y = standard_kernel(a, x.view(x.shape[0], 4, -1)).reshape(x.shape)
    return y * weight + bias


def log_softmax_reference(x: Tensor) -> Tensor:
    return torch.log_softmax(x.float(), -1).to(x.dtype)


def log_softmax_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    top = x.amax(-1, keepdim=True) if a.shift else torch.zeros_like(x[..., :1])
    return x - top - a.sum(a.exp(x - top)).log()


def softcap_reference(x: Tensor) -> Tensor:
    y = 5.0 * torch.tanh(x.float() / 5.0)
    return torch.softmax(y, -1).to(x.dtype)


def softcap_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    y = 5.0 * torch.tanh(x * 0.2) if a.cap else x
    e = a.exp(y - y.amax(-1, keepdim=True))
    return e / a.sum(e)


def swiglu_reference(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up  # rounds to the working dtype in the middle


def swiglu_kernel(a: Arithmetic, gate: Tensor, up: Tensor) -> Tensor:
    return gate * a.sigmoid(gate) * up


def rope_reference(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[0], device=x.device).float()[:, None] * 0.37
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    low, high = x[..., :half], x[..., half : 2 * half]
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def rope_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[0], device=x.device, dtype=x.dtype)[:, None] * 0.37
    cos, sin = angle.cos(), angle.sin()
    low, high = x[..., :half], x[..., half : 2 * half]
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def cosine_reference(x: Tensor, y: Tensor) -> Tensor:
    return F.cosine_similarity(x.float(), y.float(), dim=-1).to(x.dtype)


def cosine_kernel(a: Arithmetic, x: Tensor, y: Tensor) -> Tensor:
    norms = a.sum(x * x).sqrt().clamp_min(1e-8) * a.sum(y * y).sqrt().clamp_min(1e-8)
    return (a.sum(x * y) / norms).squeeze(-1)


def kl_reference(x: Tensor, y: Tensor) -> Tensor:
    p, q = torch.log_softmax(x.float(), -1), torch.log_softmax(y.float(), -1)
    return (p.exp() * (p - q)).sum(-1).to(x.dtype)


def kl_kernel(a: Arithmetic, x: Tensor, y: Tensor) -> Tensor:
    p, q = log_softmax_kernel(a, x), log_softmax_kernel(a, y)
    return a.sum(a.exp(p) * (p - q)).squeeze(-1)


def amax_reference(x: Tensor) -> Tensor:
    y = x.float()
    return (y / y.abs().amax(-1, keepdim=True).clamp_min(1e-12) * 448.0).to(x.dtype)


def amax_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    return x * (448.0 / x.abs().amax(-1, keepdim=True).clamp_min(1e-12))


def scores_reference(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("ik,jk->ij", x, y)


def scores_kernel(a: Arithmetic, x: Tensor, y: Tensor) -> Tensor:
    return a.matmul(x, y.transpose(0, 1).contiguous())


def cumsum_reference(x: Tensor) -> Tensor:
    return x.float().cumsum(-1).to(x.dtype)


def cumsum_kernel(a: Arithmetic, x: Tensor) -> Tensor:
    return a.cumsum(x)


def conv_reference(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv1d(x, weight, padding=2)


def conv_kernel(a: Arithmetic, x: Tensor, weight: Tensor) -> Tensor:
    columns = F.pad(x, (2, 2)).unfold(2, weight.shape[2], 1).permute(0, 2, 1, 3)
    flat = columns.reshape(x.shape[0], x.shape[2], -1)
    return a.matmul(flat, weight.flatten(1).t().contiguous()).transpose(1, 2)


def segment_reference(x: Tensor, index: Tensor) -> Tensor:
    rows = int(x.shape[0]) // 16
    out = torch.zeros(rows, x.shape[1], dtype=torch.float32, device=x.device)
    return out.index_add_(0, index, x.float()).to(x.dtype)


def segment_kernel(a: Arithmetic, x: Tensor, index: Tensor) -> Tensor:
    return a.scatter(x, index, int(x.shape[0]) // 16)


def _operator(
    name: str, reference: object, kernel: object, uses: str, inputs: object, indexed: bool = False
) -> Operator:
    return Operator(
        name=name,
        reference=reference,  # type: ignore[arg-type]
        kernel=kernel,  # type: ignore[arg-type]
        uses=frozenset(uses.split()),
        inputs=inputs,  # type: ignore[arg-type]
        indexed=indexed,
    )


OPERATORS = (
    _operator("l2 normalise", l2_reference, l2_kernel, "sum rsqrt eps", _one),
    _operator("standardise", standard_reference, standard_kernel, "sum rsqrt eps variance", _one),
    _operator("group norm", group_reference, group_kernel, "sum rsqrt eps variance", _affine),
    _operator("log-softmax", log_softmax_reference, log_softmax_kernel, "sum exp shift", _one),
    _operator("softcap softmax", softcap_reference, softcap_kernel, "sum exp cap", _one),
    _operator("swiglu", swiglu_reference, swiglu_kernel, "sigmoid", _two),
    _operator("rope", rope_reference, rope_kernel, "", _one),
    _operator("cosine similarity", cosine_reference, cosine_kernel, "sum", _two),
    _operator("KL rows", kl_reference, kl_kernel, "sum exp", _two),
    _operator("amax scale", amax_reference, amax_kernel, "", _one),
    _operator("scores", scores_reference, scores_kernel, "matmul", _matrices),
    _operator("cumsum", cumsum_reference, cumsum_kernel, "cumsum", _one),
    _operator("conv1d", conv_reference, conv_kernel, "matmul", _kernel),
    _operator("segment sum", segment_reference, segment_kernel, "scatter", _segments, True),
)


def log_normal(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns).mul(1.5).exp()


def student(rows: int, columns: int) -> Tensor:
    return torch.distributions.StudentT(2.5).sample((rows, columns))


def block_scaled(rows: int, columns: int) -> Tensor:
    scale = torch.exp2(torch.randint(-4, 5, (1, -(-columns // 16))).float())
    return torch.randn(rows, columns) * scale.repeat_interleave(16, 1)[:, :columns]


def alternating(rows: int, columns: int) -> Tensor:
    sign = 1.0 - 2.0 * (torch.arange(columns) % 2)
    return (1.0 + 0.05 * torch.randn(rows, columns)) * sign


def ascending(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns).sort(-1).values


def near_integers(rows: int, columns: int) -> Tensor:
    return torch.randint(-4, 5, (rows, columns)) + 1e-3 * torch.randn(rows, columns)


def paired(rows: int, columns: int) -> Tensor:
    """Each value is followed by almost its negative: sums cancel to a thousandth."""
    half = torch.randn(rows, -(-columns // 2)).repeat_interleave(2, 1)[:, :columns]
    sign = 1.0 - 2.0 * (torch.arange(columns) % 2)
    return half * sign + 1e-3 * torch.randn(rows, columns)


FILLS: dict[str, Callable[[int, int], Tensor]] = {
    "log-normal": log_normal,
    "student": student,
    "block-scaled": block_scaled,
    "alternating": alternating,
    "ascending": ascending,
    "near-integers": near_integers,
    "paired": paired,
}
