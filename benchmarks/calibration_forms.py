"""Held-out operators in many honest forms: none of them shaped the rule or its constants.

Every form computes in float32 (inputs upcast, one final cast) as production kernels do: Kahan
sums, fma chains, float64 accumulators, chunked online softmax, merged Welford statistics, one
Newton step on rsqrt, exp2, log1p and expm1 forms, other association orders, random orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Form = Callable[..., Tensor]
_LOG2E = 1.4426950408889634


@dataclass(frozen=True, kw_only=True)
class Held:
    """One operator: reference, honest forms on float32 inputs, and its inputs from fills."""

    name: str
    reference: Form
    forms: dict[str, Form]
    inputs: Callable[[int, int, Callable[[int, int], Tensor]], tuple[Tensor, ...]]
    indexed: bool = False


def kahan(x: Tensor) -> Tensor:
    total, rest = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for column in x.split(1, -1):
        y = column - rest
        moved = total + y
        rest = (moved - total) - y
        total = moved
    return total


def lanes(x: Tensor) -> Tensor:
    """32 lanes with running sums, then a butterfly."""
    x = F.pad(x, (0, -x.shape[-1] % 32)).unflatten(-1, (-1, 32))
    total = torch.zeros_like(x[..., 0, :])
    for row in x.unbind(-2):
        total = total + row
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total


def running(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[..., :1])
    for column in x.split(1, -1):
        total = total + column
    return total


def wide(x: Tensor) -> Tensor:
    return x.double().sum(-1, keepdim=True).float()


def shuffled(x: Tensor) -> Tensor:
    order = torch.randperm(x.shape[-1], generator=torch.Generator().manual_seed(11))
    return running(x[..., order])


SUMS: dict[str, Form] = {
    "Kahan": kahan,
    "32 lanes": lanes,
    "running": running,
    "float64": wide,
    "random order": shuffled,
}


def newton(x: Tensor) -> Tensor:
    """rsqrt from a guess good to 2^-11 and one Newton step."""
    guess = x.rsqrt().half().float() if float(x.amax()) < 1e4 else x.rsqrt()
    guess = torch.where((guess > 6e-5) & (guess < 6e4), guess, x.rsqrt())
    return guess * (1.5 - 0.5 * x * guess * guess)


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a.double() * b.double() + c.double()).float()


def _first(rows: int, columns: int, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return (fill(rows, columns),)


def _pair(rows: int, columns: int, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return fill(rows, columns), fill(rows, columns)


def _residual(rows: int, columns: int, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return fill(rows, columns), fill(rows, columns), fill(rows, columns), torch.randn(columns)


def _values(rows: int, columns: int, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return fill(rows, columns), torch.randn(columns, 24)


def _gradient(rows: int, columns: int, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    return fill(rows, columns), fill(rows, columns), torch.randn(columns)


def _hot(rows: int, columns: int, fill: Callable[[int, int], Tensor]) -> tuple[Tensor, ...]:
    chance = 1.0 / torch.arange(1, 33).double()
    return fill(rows * 8, min(columns, 96)), torch.multinomial(chance, rows * 8, replacement=True)


# residual adds and RMSNorm


def _rms(total: Form, root: Form, order: int) -> Form:
    def form(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> Tensor:
        s = ((x + y) + z, x + (y + z), (z + x) + y)[order]
        return s * root(total(s * s) / s.shape[-1] + 1e-6) * w

    return form


def rms_reference(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> Tensor:
    s = x.float() + y.float() + z.float()
    return (s * torch.rsqrt(s.square().mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


# layer norm


def merged(x: Tensor) -> Tensor:
    """Welford statistics of chunks of 32, merged by Chan's formula."""
    count, mean, m2 = 0, torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for part in x.split(32, -1):
        n = part.shape[-1]
        own = part.mean(-1, keepdim=True)
        delta = own - mean
        m2 = m2 + (part - own).square().sum(-1, keepdim=True) + delta**2 * (count * n / (count + n))
        mean = mean + delta * (n / (count + n))
        count += n
    return (x - mean) * torch.rsqrt(m2 / count + 1e-5)


def _two_pass(total: Form, root: Form) -> Form:
    def form(x: Tensor) -> Tensor:
        mean = total(x) / x.shape[-1]
        centred = x - mean
        return centred * root(total(centred * centred) / x.shape[-1] + 1e-5)

    return form


def fused_affine(x: Tensor) -> Tensor:
    """x * rstd - mean * rstd by one fma."""
    mean = lanes(x) / x.shape[-1]
    rstd = torch.rsqrt(lanes((x - mean).square()) / x.shape[-1] + 1e-5)
    return _fma(x, rstd.expand_as(x), (-mean * rstd).expand_as(x))


def layer_reference(x: Tensor) -> Tensor:
    return F.layer_norm(x.float(), (x.shape[-1],)).to(x.dtype)


# softmax times values, online


def online(tile: int, base2: bool) -> Form:
    def form(x: Tensor, v: Tensor) -> Tensor:
        exp: Form = torch.exp2 if base2 else torch.exp
        x = x * _LOG2E if base2 else x
        top = torch.full_like(x[..., :1], -math.inf)
        total, out = torch.zeros_like(x[..., :1]), torch.zeros(x.shape[0], v.shape[1])
        for part, values in zip(x.split(tile, -1), v.split(tile, 0), strict=True):
            new = torch.maximum(top, part.amax(-1, keepdim=True))
            p, keep = exp(part - new), exp(top - new)
            total, out = total * keep + p.sum(-1, keepdim=True), out * keep + p @ values
            top = new
        return out / total

    return form


def attend_reference(x: Tensor, v: Tensor) -> Tensor:
    return (torch.softmax(x.float(), -1) @ v.float()).to(x.dtype)


def attend_late(x: Tensor, v: Tensor) -> Tensor:
    lse = x.logsumexp(-1, keepdim=True)
    return torch.exp(x - lse) @ v


# softmax backward, silu backward, activations


def softmax_backward_reference(x: Tensor, g: Tensor) -> Tensor:
    y = torch.softmax(x.float(), -1)
    return (y * (g.float() - (y * g.float()).sum(-1, keepdim=True))).to(x.dtype)


def _softmax_backward(total: Form) -> Form:
    def form(x: Tensor, g: Tensor) -> Tensor:
        e = torch.exp(x - x.amax(-1, keepdim=True))
        y = e / total(e)
        return y * g - y * total(y * g)

    return form


def silu_backward_reference(x: Tensor, g: Tensor) -> Tensor:
    y = x.float()
    s = torch.sigmoid(y)
    return (g.float() * s * (1 + y * (1 - s))).to(x.dtype)


def silu_backward_other(x: Tensor, g: Tensor) -> Tensor:
    s = 1.0 / (1.0 + torch.exp2(-x * _LOG2E))
    return g * (s + x * s * (1.0 - s))


def softplus_reference(x: Tensor) -> Tensor:
    return F.softplus(x.float()).to(x.dtype)


def softcap_reference(x: Tensor) -> Tensor:
    return (30.0 * torch.tanh(x.float() / 30.0)).to(x.dtype)


def _tanh_expm1(x: Tensor) -> Tensor:
    m = torch.expm1(-2 * x.abs())
    return torch.copysign(-m / (m + 2.0), x)


def loss_reference(x: Tensor) -> Tensor:
    y = x.float()
    return (y.logsumexp(-1) - y[:, 0]).to(x.dtype)


def loss_base2(x: Tensor) -> Tensor:
    top = x.amax(-1, keepdim=True)
    total = lanes(torch.exp2((x - top) * _LOG2E))
    return (torch.log2(total) / _LOG2E + top).squeeze(-1) - x[:, 0]


def loss_shifted(x: Tensor) -> Tensor:
    rest = x - x[:, :1]
    top = rest.amax(-1, keepdim=True)
    return (running(torch.exp(rest - top)).log() + top).squeeze(-1)


# RMSNorm backward, hot embedding gradient


def backward_reference(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
    gw, y = g.float() * w.float(), x.float()
    r = torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
    return (r * (gw - y * r * r * (gw * y).mean(-1, keepdim=True))).to(x.dtype)


def _backward(total: Form, fused: bool) -> Form:
    def form(g: Tensor, x: Tensor, w: Tensor) -> Tensor:
        n = x.shape[-1]
        gw = g * w
        r = torch.rsqrt(total(x * x) / n + 1e-6)
        normed = x * r
        along = total(gw * normed) / n
        if fused:
            return _fma(-normed, along.expand_as(x), gw) * r
        return gw * r - normed * (along * r)

    return form


def hot_reference(g: Tensor, i: Tensor) -> Tensor:
    return torch.zeros(32, g.shape[1]).index_add_(0, i, g.float()).to(g.dtype)


def hot_running(g: Tensor, i: Tensor) -> Tensor:
    order = torch.randperm(len(i), generator=torch.Generator().manual_seed(3))
    out = torch.zeros(32, g.shape[1])
    for k in order.tolist():
        out[i[k]] += g[k]
    return out


def hot_product(g: Tensor, i: Tensor) -> Tensor:
    return F.one_hot(i, 32).t().float() @ g


HELD = (
    Held(
        name="residuals + RMSNorm",
        reference=rms_reference,
        inputs=_residual,
        forms={
            **{f"{n} sum": _rms(s, torch.rsqrt, k % 3) for k, (n, s) in enumerate(SUMS.items())},
            "Newton": _rms(lanes, newton, 1),
            "1/sqrt": _rms(lanes, lambda x: 1.0 / x.sqrt(), 2),
        },
    ),
    Held(
        name="layer norm",
        reference=layer_reference,
        inputs=_first,
        forms={
            **{f"{n} sums": _two_pass(s, torch.rsqrt) for n, s in SUMS.items()},
            "merged Welford": merged,
            "Newton": _two_pass(lanes, newton),
            "fma": fused_affine,
        },
    ),
    Held(
        name="softmax @ values",
        reference=attend_reference,
        inputs=_values,
        forms={
            "online 16": online(16, base2=False),
            "online 64 exp2": online(64, base2=True),
            "exp(x - lse)": attend_late,
        },
    ),
    Held(
        name="softmax backward",
        reference=softmax_backward_reference,
        inputs=_pair,
        forms={f"{n} sums": _softmax_backward(s) for n, s in SUMS.items()},
    ),
    Held(
        name="silu backward",
        reference=silu_backward_reference,
        inputs=_pair,
        forms={"exp2, other order": silu_backward_other},
    ),
    Held(
        name="softplus",
        reference=softplus_reference,
        inputs=_first,
        forms={
            "log1p": lambda x: x.clamp_min(0) + torch.log1p(torch.exp(-x.abs())),
            "logaddexp": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
        },
    ),
    Held(
        name="soft cap",
        reference=softcap_reference,
        inputs=_first,
        forms={
            "2 sigmoid(2x) - 1": lambda x: 30.0 * (2.0 * torch.sigmoid(x / 15.0) - 1.0),
            "expm1": lambda x: 30.0 * _tanh_expm1(x * (1.0 / 30.0)),
            "1 - 2/(e + 1)": lambda x: 30.0 * (1.0 - 2.0 / (torch.exp(x / 15.0) + 1.0)),
        },
    ),
    Held(
        name="cross entropy rows",
        reference=loss_reference,
        inputs=_first,
        forms={"exp2 and log2": loss_base2, "shifted by the target": loss_shifted},
    ),
    Held(
        name="RMSNorm backward",
        reference=backward_reference,
        inputs=_gradient,
        forms={
            **{f"{n} sums": _backward(s, fused=False) for n, s in SUMS.items()},
            "fma": _backward(lanes, fused=True),
        },
    ),
    Held(
        name="hot rows",
        reference=hot_reference,
        inputs=_hot,
        indexed=True,
        forms={"random running": hot_running, "one-hot product": hot_product},
    ),
)
