"""Operators of models that the catalogue does not have, as users would state them: in float32.

`get` returns one in a working dtype: bfloat16 as written, float16 or float32 in its place.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch.nn import functional

from cuassay import problem, scalar, tensor
from cuassay.catalog.registry import retyped
from cuassay.model.domain import Index, IntegerRange, Mask, Positive, Probability, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem

_AXES = {"rows": (1, 65_536), "hidden": (2, 16_384)}
_SIZES = ({"rows": 64, "hidden": 352}, {"rows": 32, "hidden": 1408}, {"rows": 4096, "hidden": 4096})
_X = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")]
_Weight = Annotated[torch.Tensor, tensor("bfloat16", "hidden")]
_Y = Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]
_EXPONENT = Real(low=-10.0, high=10.0)
_Eps = Annotated[float, scalar("float32", low=1e-7, high=1e-3, default=1e-6)]


def get(name: str, dtype: str) -> Problem:
    """Return a problem of this file by its function's name, in a working dtype."""
    found: Problem = globals()[name].__cuassay_problem__
    return retyped(found, DType(dtype or DType.BFLOAT16))


@problem(axes=_AXES, workloads=_SIZES)
def gelu(x: _X) -> _Y:
    """GELU by the error function."""
    return functional.gelu(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def gelu_tanh(x: _X) -> _Y:
    """GELU in its tanh form."""
    return functional.gelu(x.float(), approximate="tanh").to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def gelu_clipped(x: _X) -> _Y:
    """GELU clipped to +-10."""
    return functional.gelu(x.float()).clamp(-10.0, 10.0).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def quick_gelu(x: _X) -> _Y:
    """X times the sigmoid of 1.702 x, as CLIP has it."""
    return (x.float() * torch.sigmoid(1.702 * x.float())).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def silu(x: _X) -> _Y:
    """SiLU."""
    return functional.silu(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def mish(x: _X) -> _Y:
    """Mish."""
    return functional.mish(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def relu(x: _X) -> _Y:
    """ReLU."""
    return functional.relu(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def relu_squared(x: _X) -> _Y:
    """ReLU, squared, as Nemotron and Primer have it."""
    return functional.relu(x.float()).square().to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def relu6(x: _X) -> _Y:
    """ReLU up to 6."""
    return functional.relu6(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def leaky_relu(x: _X) -> _Y:
    """ReLU with a slope of 0.01 below zero."""
    return functional.leaky_relu(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def hardswish(x: _X) -> _Y:
    """Hard swish."""
    return functional.hardswish(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def sigmoid(x: _X) -> _Y:
    """Sigmoid."""
    return torch.sigmoid(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def tanh(x: _X) -> _Y:
    """Hyperbolic tangent."""
    return torch.tanh(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def laplace(x: _X) -> _Y:
    """The distribution function of a normal number, as Mega's attention has it."""
    scaled = (x.float() - 0.707107) / (0.282095 * math.sqrt(2.0))
    return (0.5 * (1.0 + torch.erf(scaled))).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def sqrt_softplus(x: _X) -> _Y:
    """Square root of the softplus."""
    return functional.softplus(x.float()).sqrt().to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def add(x: _X, other: _X) -> _Y:
    """Elementwise sum."""
    return (x.float() + other.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def exp(x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", domain=_EXPONENT)]) -> _Y:
    """Exponential function."""
    return torch.exp(x.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def row_sum(x: _X) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", name="y")]:
    """Sum of each row."""
    return x.float().sum(dim=-1).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def softmax(x: _X) -> _Y:
    """Soft-max of each row."""
    return torch.softmax(x.float(), dim=-1).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def rmsnorm_from_zero(x: _X, weight: _Weight, eps: _Eps) -> _Y:
    """RMSNorm whose weight is a change from 1, as Gemma has it."""
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * (1.0 + weight.float())).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def rmsnorm_plain(x: _X, eps: _Eps) -> _Y:
    """RMSNorm without a weight."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def l2norm(x: _X, eps: _Eps) -> _Y:
    """Rows divided by the root of their sum of squares."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + eps)).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def rmsnorm_gated(x: _X, gate: _X, weight: _Weight, eps: _Eps) -> _Y:
    """RMSNorm, then times the SiLU of a gate, as Qwen3-Next has it."""
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float() * functional.silu(gate.float())).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def rmsnorm_gated_sigmoid(x: _X, gate: _X, weight: _Weight, eps: _Eps) -> _Y:
    """RMSNorm, then times the sigmoid of a gate, as Kimi-Linear has it."""
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float() * torch.sigmoid(gate.float())).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def rmsnorm_of_gated(x: _X, gate: _X, weight: _Weight, eps: _Eps) -> _Y:
    """RMSNorm of x times the SiLU of a gate, as Mamba-2 has it."""
    wide = x.float() * functional.silu(gate.float())
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def layernorm_unshifted(x: _X, weight: _Weight, eps: _Eps) -> _Y:
    """LayerNorm with a weight and no bias, as Cohere has it."""
    y = functional.layer_norm(x.float(), x.shape[-1:], weight.float(), None, eps)
    return y.to(x.dtype)


@problem(
    axes={"batch": (1, 64), "channels": (2, 2048), "height": (1, 256), "width": (1, 256)},
    workloads=(
        {"batch": 2, "channels": 48, "height": 7, "width": 9},
        {"batch": 32, "channels": 96, "height": 56, "width": 56},
    ),
    reduction_axes=("channels",),
)
def layernorm_channels(
    x: Annotated[torch.Tensor, tensor("bfloat16", "batch", "channels", "height", "width")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "channels")],
    bias: Annotated[torch.Tensor, tensor("bfloat16", "channels")],
    eps: _Eps,
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "channels", "height", "width", name="y")]:
    """LayerNorm over the channels of images, as ConvNeXt has it."""
    wide = x.float().permute(0, 2, 3, 1)
    y = functional.layer_norm(wide, wide.shape[-1:], weight.float(), bias.float(), eps)
    return y.permute(0, 3, 1, 2).to(x.dtype)


_IMAGES = {"batch": (1, 64), "channels": (2, 2048), "height": (1, 256), "width": (1, 256)}
_IMAGE_SIZES = (
    {"batch": 2, "channels": 48, "height": 7, "width": 9},
    {"batch": 32, "channels": 96, "height": 56, "width": 56},
)
_Image = Annotated[torch.Tensor, tensor("bfloat16", "batch", "channels", "height", "width")]
_Map = Annotated[torch.Tensor, tensor("bfloat16", "batch", "channels", "height", "width", name="y")]
_Channel = Annotated[torch.Tensor, tensor("bfloat16", "channels")]


@problem(axes=_IMAGES, workloads=_IMAGE_SIZES, reduction_axes=("channels",))
def rmsnorm_channels(x: _Image, weight: _Channel, eps: _Eps) -> _Map:
    """RMSNorm over the channels of images, as timm has it."""
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(1, keepdim=True) + eps)
    return (wide * rstd * weight.float()[:, None, None]).to(x.dtype)


@problem(axes=_IMAGES, workloads=_IMAGE_SIZES)
def frozen_batchnorm(
    x: _Image,
    weight: _Channel,
    bias: _Channel,
    mean: _Channel,
    variance: Annotated[
        torch.Tensor, tensor("bfloat16", "channels", domain=Positive(low=0.01, high=100))
    ],
    eps: _Eps,
) -> _Map:
    """Batch norm with the statistics of training, as detectors freeze it."""
    weight, bias, mean, variance = (
        t.float()[:, None, None] for t in (weight, bias, mean, variance)
    )
    scale = weight * torch.rsqrt(variance + eps)
    return (x.float() * scale + (bias - mean * scale)).to(x.dtype)


@problem(
    axes={**_IMAGES, "inner": (1, 1024)},
    workloads=tuple({**sizes, "inner": sizes["channels"] // 4} for sizes in _IMAGE_SIZES),
    reduction_axes=("channels", "height", "width", "inner"),
)
def squeeze_excite(
    x: _Image,
    w1: Annotated[torch.Tensor, tensor("bfloat16", "inner", "channels")],
    b1: Annotated[torch.Tensor, tensor("bfloat16", "inner")],
    w2: Annotated[torch.Tensor, tensor("bfloat16", "channels", "inner")],
    b2: _Channel,
) -> _Map:
    """Channels weighed by two layers over their means, as EfficientNet has it."""
    means = x.float().mean((2, 3))
    inner = functional.relu(functional.linear(means, w1.float(), b1.float()))
    gate = torch.sigmoid(functional.linear(inner, w2.float(), b2.float()))
    return (x.float() * gate[:, :, None, None]).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def hard_sigmoid(x: _X) -> _Y:
    """Relu6(x + 3) / 6."""
    return (functional.relu6(x.float() + 3.0) / 6.0).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES)
def hard_mish(x: _X) -> _Y:
    """Half of x times x + 2 clipped to 0 and 2."""
    return (0.5 * x.float() * (x.float() + 2.0).clamp(0.0, 2.0)).to(x.dtype)


@problem(axes=_AXES, workloads=_SIZES, reduction_axes=("hidden",))
def simple_norm(x: _X, weight: _Weight, eps: _Eps) -> _Y:
    """Rows over their standard deviation, the mean not taken off."""
    wide = x.float()
    rstd = torch.rsqrt(wide.var(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


@problem(
    axes={"batch": (1, 64), "tokens": (1, 8192), "hidden": (2, 4096), "inner": (1, 4096)},
    workloads=(
        {"batch": 2, "tokens": 20, "hidden": 64, "inner": 48},
        {"batch": 2, "tokens": 4096, "hidden": 1536, "inner": 1536},
    ),
    reduction_axes=("hidden", "inner"),
)
def layernorm_modulated(
    x: Annotated[torch.Tensor, tensor("bfloat16", "batch", "tokens", "hidden")],
    conditions: Annotated[torch.Tensor, tensor("bfloat16", "batch", "inner")],
    projection: Annotated[torch.Tensor, tensor("bfloat16", "2*hidden", "inner")],
    offset: Annotated[torch.Tensor, tensor("bfloat16", "2*hidden")],
    eps: _Eps,
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "tokens", "hidden", name="y")]:
    """LayerNorm shifted and scaled by a layer over conditions, as diffusion models have it."""
    bent = functional.silu(conditions.float())
    made = functional.linear(bent, projection.float(), offset.float())
    shift, scale = made[:, None, :].chunk(2, dim=-1)
    y = functional.layer_norm(x.float(), x.shape[-1:], eps=eps)
    return (y * (1.0 + scale) + shift).to(x.dtype)


# Products of matrices: bounds keep what models store between them within float16's range.
_MLP_AXES = {"rows": (1, 65_536), "hidden": (1, 16_384), "inner": (1, 65_536)}
_MLP_SIZES = (
    {"rows": 48, "hidden": 64, "inner": 96},
    {"rows": 20, "hidden": 128, "inner": 200},
    {"rows": 2048, "hidden": 2048, "inner": 5632},
)
_Rows = Annotated[
    torch.Tensor, tensor("bfloat16", "rows", "hidden", domain=Real(low=-8.0, high=8.0))
]
_MATRIX = Real(low=-0.25, high=0.25)
_EXPERT = Real(low=-0.03125, high=0.03125)  # products of two sums over 8192 stay within float16
_In = Annotated[torch.Tensor, tensor("bfloat16", "inner", "hidden", domain=_MATRIX)]
_Out = Annotated[torch.Tensor, tensor("bfloat16", "hidden", "inner", domain=_MATRIX)]
_InBias = Annotated[torch.Tensor, tensor("bfloat16", "inner", domain=_MATRIX)]
_OutBias = Annotated[torch.Tensor, tensor("bfloat16", "hidden", domain=_MATRIX)]


def _gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> object:
    wide, gate, up, down = (t.float() for t in (x, gate, up, down))
    return wide @ gate.T, wide @ up.T, down.T


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_swiglu(x: _Rows, gate: _In, up: _In, down: _Out) -> _Y:
    """A gated layer with SiLU, as Llama has it."""
    gated, raised, out = _gated(x, gate, up, down)
    return ((functional.silu(gated) * raised) @ out).to(x.dtype)


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_geglu(x: _Rows, gate: _In, up: _In, down: _Out) -> _Y:
    """A gated layer with the tanh form of GELU, as Gemma has it."""
    gated, raised, out = _gated(x, gate, up, down)
    return ((functional.gelu(gated, approximate="tanh") * raised) @ out).to(x.dtype)


def _plain(
    x: torch.Tensor, first: tuple[torch.Tensor, torch.Tensor], second: object, bend: object
) -> torch.Tensor:
    inner = bend(functional.linear(x.float(), *(t.float() for t in first)))
    return functional.linear(inner, *(t.float() for t in second)).to(x.dtype)


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_gelu(x: _Rows, w1: _In, b1: _InBias, w2: _Out, b2: _OutBias) -> _Y:
    """Two layers with GELU between them, as BERT has them."""
    return _plain(x, (w1, b1), (w2, b2), functional.gelu)


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_gelu_tanh(x: _Rows, w1: _In, b1: _InBias, w2: _Out, b2: _OutBias) -> _Y:
    """Two layers with the tanh form of GELU between them, as GPT-2 has them."""
    return _plain(x, (w1, b1), (w2, b2), lambda t: functional.gelu(t, approximate="tanh"))


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_quick_gelu(x: _Rows, w1: _In, b1: _InBias, w2: _Out, b2: _OutBias) -> _Y:
    """Two layers with CLIP's GELU between them."""
    return _plain(x, (w1, b1), (w2, b2), lambda t: t * torch.sigmoid(1.702 * t))


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_relu(x: _Rows, w1: _In, b1: _InBias, w2: _Out, b2: _OutBias) -> _Y:
    """Two layers with ReLU between them, as OPT and DETR have them."""
    return _plain(x, (w1, b1), (w2, b2), functional.relu)


@problem(axes=_MLP_AXES, workloads=_MLP_SIZES, reduction_axes=("hidden", "inner"))
def mlp_relu_squared(x: _Rows, w1: _In, w2: _Out) -> _Y:
    """Two layers with a squared ReLU between them, as Nemotron has them."""
    inner = functional.relu(x.float() @ w1.float().T).square()
    return (inner @ w2.float().T).to(x.dtype)


_HEADS = ("batch", "heads", "queries", "dim")
_ATTENDED = (
    {"batch": 1, "heads": 2, "queries": 24, "dim": 32},
    {"batch": 2, "heads": 3, "queries": 40, "dim": 16},
    {"batch": 4, "heads": 12, "queries": 512, "dim": 64},
)
_ATTENTION_AXES = {"batch": (1, 64), "heads": (1, 64), "queries": (1, 4096), "dim": (1, 256)}
_QK = Real(low=-30.0, high=30.0)
_Query = Annotated[torch.Tensor, tensor("bfloat16", *_HEADS, domain=_QK)]
_Value = Annotated[torch.Tensor, tensor("bfloat16", *_HEADS)]
_Attended = Annotated[torch.Tensor, tensor("bfloat16", *_HEADS, name="y")]
_Scale = Annotated[float, scalar("float32", low=0.02, high=0.5, default=0.125)]


@problem(axes=_ATTENTION_AXES, workloads=_ATTENDED, reduction_axes=("queries",))
def attention_full(q: _Query, k: _Query, v: _Value, scale: _Scale) -> _Attended:
    """Attention to every position, as encoders have it."""
    scores = q.float() @ k.float().transpose(-1, -2) * scale
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)


@problem(axes=_ATTENTION_AXES, workloads=_ATTENDED, reduction_axes=("queries",))
def attention_sinks(
    q: _Query,
    k: _Query,
    v: _Value,
    sinks: Annotated[torch.Tensor, tensor("bfloat16", "heads")],
    scale: _Scale,
) -> _Attended:
    """Attention to every position and to one more logit a head, as gpt-oss has it."""
    scores = q.float() @ k.float().transpose(-1, -2) * scale
    sink = sinks.float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :-1]
    return (weights @ v.float()).to(q.dtype)


@problem(axes=_ATTENTION_AXES, workloads=_ATTENDED, reduction_axes=("queries",))
def attention_biased(
    q: _Query,
    k: _Query,
    v: _Value,
    bias: Annotated[torch.Tensor, tensor("bfloat16", "heads", "queries", "queries")],
) -> _Attended:
    """Attention without a scale and with a bias for each pair of places, as T5 has it."""
    scores = q.float() @ k.float().transpose(-1, -2) + bias.float()
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)


_EXPERTS, _TOP = 16, 4
_ROUTED = ({"rows": 64, "hidden": 48}, {"rows": 200, "hidden": 128}, {"rows": 4096, "hidden": 2048})
_Router = Annotated[
    torch.Tensor, tensor("bfloat16", _EXPERTS, "hidden", domain=Real(low=-1.0, high=1.0))
]
_Scores = Annotated[torch.Tensor, tensor("bfloat16", "rows", _TOP, name="weights")]
_Wide = Annotated[torch.Tensor, tensor("float32", "rows", _TOP, name="weights")]
_Chosen = Annotated[torch.Tensor, tensor("int64", "rows", _TOP, name="experts")]
_Hidden = Annotated[
    torch.Tensor, tensor("bfloat16", "rows", "hidden", domain=Real(low=-8.0, high=8.0))
]


@problem(axes=_AXES, workloads=_ROUTED, reduction_axes=("hidden",))
def route_normalized(x: _Hidden, router: _Router) -> tuple[_Wide, _Chosen]:
    """Soft-max, the best 4 of 16 experts, weights that add up to 1, as Mixtral has it."""
    logits = functional.linear(x, router)
    weights, chosen = torch.topk(torch.softmax(logits.float(), dim=-1), _TOP, dim=-1)
    return weights / weights.sum(dim=-1, keepdim=True), chosen


@problem(axes=_AXES, workloads=_ROUTED, reduction_axes=("hidden",))
def route_plain(x: _Hidden, router: _Router) -> tuple[_Scores, _Chosen]:
    """Soft-max and the best 4 of 16 experts, as Jamba has it."""
    logits = functional.linear(x, router)
    weights, chosen = torch.topk(torch.softmax(logits.float(), dim=-1), _TOP, dim=-1)
    return weights.to(x.dtype), chosen


@problem(axes=_AXES, workloads=_ROUTED, reduction_axes=("hidden",))
def route_chosen(x: _Hidden, router: _Router) -> tuple[_Scores, _Chosen]:
    """The best 4 of 16 experts and a soft-max over them, as Granite has it."""
    logits = functional.linear(x, router)
    best, chosen = torch.topk(logits.float(), _TOP, dim=-1)
    return torch.softmax(best, dim=-1).to(x.dtype), chosen


_MOE_AXES = {"tokens": (1, 16_384), "hidden": (1, 8192), "inner": (1, 16_384)}
_MOE_SIZES = (
    {"tokens": 24, "hidden": 32, "inner": 48},
    {"tokens": 40, "hidden": 64, "inner": 40},
    {"tokens": 512, "hidden": 1024, "inner": 2048},
)
_SOME = 8


@problem(axes=_MOE_AXES, workloads=_MOE_SIZES, reduction_axes=("hidden", "inner"))
def experts_swiglu(
    x: Annotated[
        torch.Tensor, tensor("bfloat16", "tokens", "hidden", domain=Real(low=-8.0, high=8.0))
    ],
    chosen: Annotated[
        torch.Tensor, tensor("int64", "tokens", 2, domain=IntegerRange(low=0, high=_SOME - 1))
    ],
    weights: Annotated[torch.Tensor, tensor("bfloat16", "tokens", 2, domain=Probability())],
    gate_up: Annotated[
        torch.Tensor, tensor("bfloat16", _SOME, "2*inner", "hidden", domain=_EXPERT)
    ],
    down: Annotated[torch.Tensor, tensor("bfloat16", _SOME, "hidden", "inner", domain=_EXPERT)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden", name="y")]:
    """Each token through two of eight gated layers, weighted, as Mixtral has it."""
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in range(_SOME):
        share = (weights.float() * (chosen == expert)).sum(dim=-1, keepdim=True)
        gate, up = (x.float() @ gate_up[expert].float().T).chunk(2, dim=-1)
        total = total + (functional.silu(gate) * up) @ down[expert].float().T * share
    return total.to(x.dtype)


@problem(
    axes={"tokens": (1, 65_536), "vocab": (2, 65_536), "hidden": (1, 8192)},
    workloads=(
        {"tokens": 100, "vocab": 300, "hidden": 48},
        {"tokens": 4096, "vocab": 32_000, "hidden": 1024},
    ),
)
def embedding_scaled(
    ids: Annotated[torch.Tensor, tensor("int64", "tokens", domain=Index(axis="vocab"))],
    table: Annotated[torch.Tensor, tensor("bfloat16", "vocab", "hidden")],
    scale: Annotated[float, scalar("float32", low=1.0, high=100.0, default=45.0)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden", name="y")]:
    """Rows of a table times a number that is kept in the table's type, as Gemma has it."""
    factor = torch.tensor(scale, device=table.device).to(table.dtype)
    return (table[ids].float() * factor.float()).to(table.dtype)


_LossAxes = {"rows": (2, 65_536), "vocab": (2, 65_536)}
_LOSSES = (
    {"rows": 64, "vocab": 512},
    {"rows": 200, "vocab": 1000},
    {"rows": 2048, "vocab": 32_000},
)


@problem(axes=_LossAxes, workloads=_LOSSES, reduction_axes=("vocab",))
def causal_loss(
    logits: Annotated[torch.Tensor, tensor("bfloat16", "rows", "vocab")],
    labels: Annotated[torch.Tensor, tensor("int64", "rows", domain=Index(axis="vocab"))],
) -> Annotated[torch.Tensor, tensor("float32", name="loss")]:
    """Mean loss of the next token in one sequence."""
    return functional.cross_entropy(logits[:-1].float(), labels[1:])


@problem(axes={"rows": (2, 4096)}, workloads=({"rows": 48}, {"rows": 100}, {"rows": 1024}))
def contrastive_loss(
    similarity: Annotated[
        torch.Tensor, tensor("float32", "rows", "rows", domain=Real(low=-30.0, high=30.0))
    ],
) -> Annotated[torch.Tensor, tensor("float32", name="loss")]:
    """Loss of pairs of texts and images both ways, as CLIP has it."""
    places = torch.arange(len(similarity), device=similarity.device)
    there, back = (functional.cross_entropy(t, places) for t in (similarity, similarity.T))
    return (there + back) / 2.0


_TOKENS = {"rows": (1, 1024), "vocab": (64, 262_144)}
_VOCABS = ({"rows": 32, "vocab": 512}, {"rows": 16, "vocab": 1000}, {"rows": 64, "vocab": 32_000})
_Logits = Annotated[
    torch.Tensor, tensor("float32", "rows", "vocab", domain=Real(low=-20.0, high=20.0))
]
_Kept = Annotated[torch.Tensor, tensor("float32", "rows", "vocab", name="scores")]


@problem(axes=_TOKENS, workloads=_VOCABS)
def warp_temperature(
    logits: _Logits,
    temperature: Annotated[float, scalar("float32", low=0.25, high=4.0, default=0.7)],
) -> _Kept:
    """Logits divided by a temperature."""
    return logits / temperature


@problem(axes=_TOKENS, workloads=_VOCABS)
def warp_top_k(logits: _Logits) -> _Kept:
    """Logits below the 50th largest of their row are -inf."""
    least = torch.topk(logits, 50, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, -math.inf)


@problem(axes=_TOKENS, workloads=_VOCABS)
def warp_min_p(logits: _Logits) -> _Kept:
    """Logits of tokens less likely than 0.05 times the most likely one are -inf."""
    shares = torch.softmax(logits, dim=-1)
    return logits.masked_fill(shares < 0.05 * shares.amax(dim=-1, keepdim=True), -math.inf)


@problem(axes=_TOKENS, workloads=_VOCABS)
def warp_epsilon(logits: _Logits) -> _Kept:
    """Logits of tokens less likely than 0.001 are -inf, but for the best one."""
    shares = torch.softmax(logits, dim=-1)
    least = torch.topk(logits, 1, dim=-1).values[:, -1:]
    return logits.masked_fill((shares < 1e-3) & (logits < least), -math.inf)


@problem(axes=_TOKENS, workloads=_VOCABS)
def log_shares(logits: _Logits) -> _Kept:
    """Log-soft-max of each row."""
    return torch.log_softmax(logits, dim=-1)


@problem(
    axes={"tokens": (1, 65_536), "half": (1, 256)},
    workloads=({"tokens": 50, "half": 32}, {"tokens": 8192, "half": 64}),
)
def rope_tables(
    position_ids: Annotated[
        torch.Tensor, tensor("int64", "tokens", domain=IntegerRange(low=0, high=32_767))
    ],
    like: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "2*half")],
) -> tuple[
    Annotated[torch.Tensor, tensor("bfloat16", "tokens", "2*half", name="cos")],
    Annotated[torch.Tensor, tensor("bfloat16", "tokens", "2*half", name="sin")],
]:
    """Cosines and sines of a rotary embedding's angles, base 10,000, both halves alike."""
    half = like.shape[-1] // 2
    places = torch.arange(half, device=like.device, dtype=torch.float32)
    frequencies = 1.0 / 10_000.0 ** (places / half)
    angles = position_ids.float().unsqueeze(-1) * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return torch.cos(angles).to(like.dtype), torch.sin(angles).to(like.dtype)


@problem(axes=_TOKENS, workloads=_VOCABS)
def focal_loss(
    logits: _Logits,
    labels: Annotated[torch.Tensor, tensor("bool", "rows", "vocab", domain=Mask())],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "vocab", name="loss")]:
    """Focal loss of each logit, alpha 0.25, gamma 2, as RetinaNet has it."""
    targets = labels.to(logits.dtype)
    p = torch.sigmoid(logits)
    missed = 1.0 - torch.where(labels, p, 1.0 - p)
    loss = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return torch.where(labels, 0.25, 0.75) * loss * missed.square()


@problem(
    axes={"batch": (1, 64), "length": (1, 4096)},
    workloads=({"batch": 2, "length": 40}, {"batch": 4, "length": 2048}),
)
def alibi(
    mask: Annotated[torch.Tensor, tensor("bool", "batch", "length", domain=Mask())],
) -> Annotated[torch.Tensor, tensor("float32", "batch", 8, "length", name="bias")]:
    """ALiBi's bias of 8 heads, places counted over what is not padding, as Bloom has it."""
    kept = mask.long()
    places = (kept.cumsum(dim=-1) - 1) * kept
    powers = torch.arange(1, 9, device=mask.device, dtype=torch.float32)
    return (2.0**-powers).reshape(1, -1, 1) * places.unsqueeze(1)


@problem(
    axes={"queries": (1, 2048), "keys": (1, 2048)},
    workloads=({"queries": 40, "keys": 50}, {"queries": 512, "keys": 512}),
)
def layer_scale(
    x: Annotated[torch.Tensor, tensor("bfloat16", "queries", "keys")],
    weight: Annotated[torch.Tensor, tensor("float32", "keys", domain=Positive(low=0.01, high=10))],
) -> Annotated[torch.Tensor, tensor("bfloat16", "queries", "keys", name="y")]:
    """Columns times their scales, as layer scale in vision models has it."""
    return (x.float() * weight).to(x.dtype)
