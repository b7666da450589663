"""Sorting, masking, counting, factories, literals, dtype branches, modules, custom autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from tests.support.references_base import Array, Reference, sigmoid


def sort_gather(x: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    ordered, order = torch.sort(x, dim=-1, descending=True)
    return ordered.float().cumsum(-1).to(x.dtype), torch.take_along_dim(values, order, dim=-1)


def sort_gather_truth(x: Array, values: Array) -> tuple[Array, Array]:
    order = np.argsort(-x, axis=-1, kind="stable")
    return np.cumsum(-np.sort(-x, axis=-1), -1), np.take_along_axis(values, order, -1)


def nucleus(x: Tensor, p: float) -> Tensor:
    ordered, order = torch.sort(x.float(), descending=True)
    beyond = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1) > p
    ordered = ordered.masked_fill(beyond, -float("inf"))
    return torch.zeros_like(ordered).scatter(-1, order, ordered.softmax(-1))


def nucleus_truth(x: Array, p: float) -> Array:
    out = np.zeros_like(x)
    for row, values in enumerate(x):
        e = np.exp(values)
        taken, mass = [], 0.0
        for index in np.argsort(-values):
            if mass / e.sum() > p:
                break
            taken.append(index)
            mass += e[index]
        out[row, taken] = e[taken] / mass
    return out


def masked_where(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    y = x.masked_fill(mask, torch.finfo(x.dtype).min).amax(-1)
    z = x.clone()
    z[mask] = 0.1
    return torch.where(y > -1e4, y, 0.3), z


def masked_where_truth(x: Array, mask: Array) -> tuple[Array, Array]:
    y = np.where(mask, -np.inf, x).max(-1)
    return np.where(np.isinf(y), 0.3, y), np.where(mask, 0.1, x)


def counts(ids: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    one_hot = F.one_hot(ids, 5)
    above = (x > 0).sum(dim=-1)
    return torch.bincount(ids, minlength=5), one_hot.sum(0), above, x.argmax(-1)


def counts_truth(ids: Array, x: Array) -> tuple[Array, ...]:
    histogram = np.histogram(ids, bins=5, range=(-0.5, 4.5))[0]
    return histogram, histogram, (x > 0).sum(-1), x.argmax(-1)


def histogram(x: Tensor) -> Tensor:
    edges = torch.linspace(-2.0, 2.0, 5)
    bins = torch.bucketize(x.float(), edges)
    return torch.zeros(6, dtype=torch.int64).scatter_add_(0, bins, torch.ones_like(bins))


def histogram_truth(x: Array) -> Array:
    return np.bincount(np.digitize(x, [-2, -1, 0, 1, 2], right=True), minlength=6)


def dropout_by_mask(x: Tensor, keep: Tensor, p: float) -> Tensor:
    return x * keep.to(x.dtype) * (1.0 / (1.0 - p))


def factories(x: Tensor) -> Tensor:
    n = x.shape[-1]
    a = x.new_full((n,), 0.1) + x.new_tensor([0.2] * n) + torch.full_like(x[0], 0.3)
    b = torch.linspace(0.0, 1.0, n, dtype=x.dtype) + torch.arange(n, dtype=x.dtype) * 0.1
    c = torch.ones(n, dtype=torch.float16).to(x.dtype) / 3 + torch.eye(n).to(x)[0]
    return x + a + b + c + torch.zeros_like(x) + x.new_ones(n) + torch.empty_like(x).fill_(0.7)


def factories_truth(x: Array) -> Array:
    n = x.shape[-1]
    row = 0.1 + 0.2 + 0.3 + np.linspace(0, 1, n) + np.arange(n) * 0.1 + 1 / 3 + np.eye(n)[0]
    return np.asarray(x + row + 1.0 + 0.7)


def literals(x: Tensor) -> Tensor:
    table = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=x.dtype)
    scale = torch.as_tensor(1 / 3) * torch.tensor(0.7)
    thirds = torch.arange(3) / torch.tensor(3)
    y = (x[:, :2].float() @ table.float() * scale).to(x.dtype)
    y[0] = 0.9
    return y + thirds[1].to(x.dtype)


def literals_truth(x: Array) -> Array:
    y = x[:, :2] @ np.array([[0.1, 0.2], [0.3, 0.4]]) * (0.7 / 3)
    y[0] = 0.9
    return np.asarray(y + 1 / 3)


def dtype_branch(x: Tensor) -> Tensor:
    if x.dtype in (torch.bfloat16, torch.float16):
        assert x.element_size() == 2
        upcast = x.float()
    else:
        assert x.dtype is torch.float32
        upcast = x
    tiny = torch.finfo(x.dtype).tiny
    return torch.log(upcast.abs().clamp_min(tiny)).type(x.dtype)


def variance(x: Tensor) -> tuple[Tensor, ...]:
    var, mean = torch.var_mean(x.float(), dim=-1, correction=1)
    return var, mean.to(x.dtype), x.float().std(dim=0, unbiased=False)


def sinusoid(x: Tensor) -> Tensor:
    position = torch.arange(x.shape[0]).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, x.shape[1], 2) * (-np.log(10000.0) / x.shape[1]))
    table = torch.zeros(x.shape)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return x + table.to(x.dtype)


def sinusoid_truth(x: Array) -> Array:
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(0, x.shape[1], 2) / x.shape[1])
    return np.asarray(x + np.stack([np.sin(angle), np.cos(angle)], -1).reshape(x.shape))


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x.float() * torch.sigmoid(x.float())).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x.float())
        slope = s * (torch.tensor(1.0) + x.float() * (1 - s))
        return (grads[0].float() * slope).to(x.dtype)  # type: ignore[no-any-return]


def custom_function(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    y: Tensor = _Swish.apply(x)  # type: ignore[no-untyped-call]
    (grad,) = torch.autograd.grad(y.float().pow(2).sum(), x)
    return y.detach(), grad


def custom_function_truth(x: Array) -> tuple[Array, Array]:
    s = sigmoid(x)
    return x * s, 2 * x * s * (s + x * s * (1 - s))


def module_inside(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    layer = nn.Linear(w.shape[1], w.shape[0]).to(x.dtype)
    with torch.no_grad():
        layer.weight.copy_(w)
        layer.bias.copy_(b)
    return nn.Sequential(layer, nn.Tanh())(x).detach()  # type: ignore[no-any-return]


def second_order(x: Tensor) -> Tensor:
    x = x.float().requires_grad_()
    (first,) = torch.autograd.grad(torch.sin(x).pow(2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return second


def views(x: Tensor) -> Tensor:
    y = x.clone()
    y.T[1] += 2
    y.view(-1)[::3] *= 0.1
    y.narrow(0, 1, 1).copy_(y[0:1] * 3)
    y.diagonal().fill_(0.25)
    return y.as_strided((2, 2), (1, 2)).flip(0)


def views_truth(x: Array) -> Array:
    y = x.copy()
    y[:, 1] += 2
    flat = y.ravel()
    flat[::3] *= 0.1
    y = flat.reshape(x.shape)
    y[1] = y[0] * 3
    np.fill_diagonal(y, 0.25)
    flat = y.ravel()
    return np.array([[flat[1], flat[3]], [flat[0], flat[2]]])


def mixed_scan(x: Tensor) -> dict[str, Any]:
    total = 0.0
    for row in x:
        total += row.float().sum().item()
    return {"total": total, "any": bool((x > 100).any()), "count": int(x.numel())}


def ema_weights(x: Tensor, w: Tensor) -> Tensor:
    w.data = w.data * 0.9
    w.mul_(2.0).clamp_(-1, 1)
    return x @ w


def normalised_fft(x: Tensor) -> tuple[Tensor, Tensor]:
    spectrum = torch.fft.fft(x.float(), norm="ortho")
    return spectrum.abs().to(x.dtype), torch.view_as_real(spectrum.conj().resolve_conj())


def normalised_fft_truth(x: Array) -> tuple[Array, Array]:
    n = np.arange(x.shape[-1])
    f = x @ np.exp(-2j * np.pi * np.outer(n, n) / len(n)) / np.sqrt(len(n))
    return np.abs(f), np.stack([f.real, -f.imag], -1)


MISC = (
    Reference(
        name="sort gather",
        fn=sort_gather,
        inputs=lambda d: (d.normal(3, 6), d.normal(3, 6)),
        truth=sort_gather_truth,
    ),
    Reference(
        name="nucleus", fn=nucleus, inputs=lambda d: (d.normal(3, 6), 0.8), truth=nucleus_truth
    ),
    Reference(
        name="masked where",
        fn=masked_where,
        inputs=lambda d: (d.normal(3, 4), torch.tensor([[0, 1, 0, 1], [1] * 4, [0] * 4]).bool()),
        truth=masked_where_truth,
    ),
    Reference(
        name="counts",
        fn=counts,
        inputs=lambda d: (d.ids(5, 9), d.normal(4, 6)),
        truth=counts_truth,
    ),
    Reference(
        name="histogram", fn=histogram, inputs=lambda d: (d.normal(30),), truth=histogram_truth
    ),
    Reference(
        name="dropout by mask",
        fn=dropout_by_mask,
        inputs=lambda d: (d.normal(3, 6), d.mask(3, 6), 0.1),
        truth=lambda x, keep, p: np.where(keep, x, 0) / (1 - p),
    ),
    Reference(
        name="factories",
        fn=factories,
        inputs=lambda d: (d.normal(3, 6),),
        truth=factories_truth,
    ),
    Reference(
        name="literals", fn=literals, inputs=lambda d: (d.normal(3, 6),), truth=literals_truth
    ),
    Reference(
        name="dtype branch",
        fn=dtype_branch,
        inputs=lambda d: (d.normal(3, 6) + 9,),
        truth=lambda x: np.log(np.abs(x)),
    ),
    Reference(
        name="variance",
        fn=variance,
        inputs=lambda d: (d.normal(3, 6),),
        truth=lambda x: (x.var(-1, ddof=1), x.mean(-1), x.std(0)),
    ),
    Reference(
        name="sinusoid", fn=sinusoid, inputs=lambda d: (d.normal(5, 6),), truth=sinusoid_truth
    ),
    Reference(
        name="custom function",
        fn=custom_function,
        inputs=lambda d: (d.normal(5, 6),),
        truth=custom_function_truth,
    ),
    Reference(
        name="module inside",
        fn=module_inside,
        inputs=lambda d: (d.normal(5, 6), d.normal(3, 6), d.normal(3)),
        truth=lambda x, w, b: np.tanh(x @ w.T + b),
    ),
    Reference(
        name="second order",
        fn=second_order,
        inputs=lambda d: (d.normal(5, 6),),
        truth=lambda x: 2 * np.cos(2 * x),
    ),
    Reference(name="views", fn=views, inputs=lambda d: (d.normal(3, 3),), truth=views_truth),
    Reference(
        name="python numbers",
        fn=mixed_scan,
        inputs=lambda d: (d.normal(5, 6),),
        truth=lambda x: (x.sum(), False, 30),
    ),
    Reference(
        name="data swap",
        fn=ema_weights,
        inputs=lambda d: (d.normal(5, 6), d.normal(6, 2)),
        truth=lambda x, w: x @ np.clip(1.8 * w, -1, 1),
    ),
    Reference(
        name="normalised fft",
        fn=normalised_fft,
        inputs=lambda d: (d.normal(3, 8),),
        truth=normalised_fft_truth,
    ),
)
