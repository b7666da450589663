"""What the Triton kernels of the corpus compute, in torch, and on which inputs they are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

Tensors: TypeAlias = Sequence[torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonCase:
    """A wrapper by name, its inputs, its right answers, how close they are.

    `module` is the file of tests/machine that holds it, `arch` what Triton compiles for.
    """

    name: str
    function: str
    make: Callable[[], Tensors]
    expect: Callable[..., Tensors]
    tolerance: float = 1e-4
    module: str = "triton_kernels"
    arch: int = 80


def _normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def _layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Tensors:
    x = x.double()
    r = (x.var(1, unbiased=False) + 1e-5).rsqrt()
    mean = x.mean(1)
    return ((x - mean[:, None]) * r[:, None] * w.double() + b.double(), mean, r)


def _grads(
    function: Callable[..., torch.Tensor], up: torch.Tensor, *inputs: torch.Tensor
) -> Tensors:
    leaves = [value.double().requires_grad_() for value in inputs]
    return torch.autograd.grad(function(*leaves), leaves, up.double())


def _layer_inputs() -> Tensors:
    x, w, b = _normal(9, 100), _normal(100), _normal(100)
    _, mean, r = _layer(x, w, b)
    return _normal(9, 100), x, w, mean.float(), r.float()


def _layer_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *_: torch.Tensor) -> Tensors:
    b = torch.zeros_like(w)
    return _grads(lambda x, w, b: _layer(x, w, b)[0], g, x, w, b)


def _rms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt() * w


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    s = q @ k.transpose(1, 2) * q.shape[2] ** -0.5
    masked: torch.Tensor = s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
    return masked


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Tensors:
    s = _scores(q.double(), k.double())
    return s.softmax(-1) @ v.double(), s.logsumexp(-1)


def _attention_inputs() -> Tensors:
    q, k, v, g = (_normal(2, 50, 32, dtype=torch.float16) for _ in range(4))
    o, lse = _attention(q, k, v)
    return q, k, v, g, o.half(), lse.float()


def _attention_backward(*inputs: torch.Tensor) -> Tensors:
    q, k, v, g = inputs[:4]
    return _grads(lambda q, k, v: _scores(q, k).softmax(-1) @ v, g, q, k, v)


def _cross_entropy(x: torch.Tensor, ids: torch.Tensor) -> Tensors:
    x = x.double()
    hot = torch.nn.functional.one_hot(ids.long(), x.shape[1])
    return x.logsumexp(1) - (x * hot).sum(1), x.softmax(1) - hot


def _ids(high: int, count: int) -> torch.Tensor:
    return torch.randint(0, high, (count,), dtype=torch.int32)


BF16, F16 = torch.bfloat16, torch.float16
CASES = (
    TritonCase(name="triton_add", function="add", make=lambda: (_normal(1000), _normal(1000)),
               expect=lambda x, y: (x.double() + y.double(),)),
    TritonCase(name="triton_softmax", function="softmax", make=lambda: (_normal(5, 300),),
               expect=lambda x: (x.double().softmax(1),)),
    TritonCase(name="triton_softmax_bf16", function="softmax", make=lambda: (_normal(5, 77, dtype=BF16),),
               expect=lambda x: (x.double().softmax(1),), tolerance=5e-3),
    TritonCase(name="triton_layer_norm", function="layer_norm", make=lambda: (_normal(6, 200), _normal(200), _normal(200)),
               expect=_layer),
    TritonCase(name="triton_layer_norm_backward", function="layer_norm_backward", make=_layer_inputs,
               expect=_layer_backward, tolerance=1e-3),
    TritonCase(name="triton_rms_backward", function="rms_backward", make=lambda: (_normal(7, 256), _normal(7, 256), _normal(256)),
               expect=lambda g, x, w: _grads(_rms, g, x, w), tolerance=1e-3),
    TritonCase(name="triton_matmul_f16", function="matmul", make=lambda: (_normal(50, 70, dtype=F16), _normal(70, 40, dtype=F16)),
               expect=lambda a, b: (a.double() @ b.double(),), tolerance=2e-3),
    TritonCase(name="triton_matmul_bf16", function="matmul", make=lambda: (_normal(64, 96, dtype=BF16), _normal(96, 64, dtype=BF16)),
               expect=lambda a, b: (a.double() @ b.double(),), tolerance=1e-2),
    TritonCase(name="triton_matmul_f32", function="matmul", make=lambda: (_normal(40, 33), _normal(33, 20)),
               expect=lambda a, b: (a.double() @ b.double(),), tolerance=5e-3),
    TritonCase(name="triton_attention", function="attention",
               make=lambda: tuple(_normal(2, 50, 32, dtype=F16) for _ in range(3)),
               expect=_attention, tolerance=5e-3),
    TritonCase(name="triton_attention_backward", function="attention_backward", make=_attention_inputs,
               expect=_attention_backward, tolerance=1e-2),
    TritonCase(name="triton_grouped_gemm", function="grouped_gemm",
               make=lambda: (_normal(40, 48, dtype=F16), _normal(48, 40, dtype=F16), _normal(20, 30, dtype=F16), _normal(30, 70, dtype=F16)),
               expect=lambda a, b, c, d: (a.double() @ b.double(), c.double() @ d.double()), tolerance=2e-3),
    TritonCase(name="triton_cross_entropy", function="cross_entropy", make=lambda: (_normal(6, 300), _ids(300, 6)),
               expect=_cross_entropy),
    TritonCase(name="triton_cumsum", function="cumsum", make=lambda: (_normal(4, 200),),
               expect=lambda x: (x.double().cumsum(1),)),
    TritonCase(name="triton_histogram", function="histogram", make=lambda: (_ids(32, 1000),),
               expect=lambda x: (x.bincount(minlength=32),), tolerance=0.0),
    TritonCase(name="triton_swiglu", function="swiglu", make=lambda: (_normal(600, dtype=BF16), _normal(600, dtype=BF16)),
               expect=lambda a, b: (torch.nn.functional.silu(a.double()) * b.double(),), tolerance=8e-3),
    TritonCase(name="triton_embedding_grad", function="embedding_grad", make=lambda: (_normal(40, 64, dtype=BF16), _ids(12, 40)),
               expect=lambda g, ids: (torch.zeros(12, 64, dtype=torch.float64).index_add(0, ids.long(), g.double()),)),
    TritonCase(name="triton_descriptor_scale", function="descriptor_scale", make=lambda: (_normal(40, 52),),
               expect=lambda x: (2 * x.double(),), tolerance=0.0, module="triton_hopper", arch=90),
    TritonCase(name="triton_descriptor_matmul", function="descriptor_matmul", make=lambda: (_normal(72, 80, dtype=F16), _normal(80, 96, dtype=F16)),
               expect=lambda a, b: (a.double() @ b.double(),), tolerance=2e-3, module="triton_hopper", arch=90),
    TritonCase(name="triton_host_descriptor_matmul", function="host_descriptor_matmul", make=lambda: (_normal(72, 80, dtype=F16), _normal(80, 96, dtype=F16)),
               expect=lambda a, b: (a.double() @ b.double(),), tolerance=2e-3, module="triton_hopper", arch=90),
)  # fmt: skip
