"""Composite operators in their least favourable honest form, noise added to first order.

softmax as exp(x - lse), gelu as x/2 (1 + erf), silu as x / (1 + exp(-x)), norms in two passes
with the variance noise of one-pass and Welford forms. A reference that is exact by luck (a
peaked softmax row is exactly 1) must not condemn an honest twin that is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cuassay.oracle.trust_random import Noise, moderate
from cuassay.oracle.trust_reductions import walk_deviation

Composite = Callable[[dict[str, Any], Any, Noise], Any]


def _row(values: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return logits and their log-sum-exp (axis kept); 0 for infinities and sentinels."""
    return moderate(values), moderate(values.logsumexp(dim, keepdim=True))


def _softmax(named: dict[str, Any], out: Tensor, noise: Noise) -> Tensor:
    values, dim = named["self"], named["dim"]
    clean, lse = _row(values, dim)
    terms = values.shape[dim] if values.dim() else 1
    per_element = (clean.square() + (clean - lse).square() + 4.0).sqrt_()
    row = noise.normal(lse.shape, lse.device) * (lse.square() + terms / 3).sqrt_()
    xi = noise.normal(out.shape, out.device) * per_element
    return out * (1.0 + (xi + row) * noise.roundoff)


def _log_softmax(named: dict[str, Any], out: Tensor, noise: Noise) -> Tensor:
    values, dim = named["self"], named["dim"]
    clean, lse = _row(values, dim)
    terms = values.shape[dim] if values.dim() else 1
    shown = moderate(out)
    per_element = (clean.square() + shown.square()).sqrt_()
    row = noise.normal(lse.shape, lse.device) * (lse.square() + terms / 3).sqrt_()
    xi = noise.normal(out.shape, out.device) * per_element
    return out + (xi + row) * noise.roundoff


def _logsumexp(named: dict[str, Any], out: Tensor, noise: Noise) -> Tensor:
    terms = named["self"].numel() / max(out.numel(), 1)
    shown = moderate(out)
    return noise.additive(out, (2 * shown.square() + terms / 3 + 4.0).sqrt_())


def _gelu(named: dict[str, Any], out: Tensor, noise: Noise) -> Tensor:
    values = moderate(named["self"])
    shown = moderate(out)
    return noise.additive(out, (1.25 * values.square() + 3 * shown.square()).sqrt_())


def _silu(named: dict[str, Any], out: Tensor, noise: Noise) -> Tensor:
    values = moderate(named["self"])
    rest = 1.0 - torch.sigmoid(values)
    shown = moderate(out)
    return noise.additive(out, shown.abs() * (2 * (rest * values).square() + 8.0).sqrt_())


def _normalise(values: Tensor, eps: float, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    """Return ((x - mean) * rstd, mean, rstd) over the last axis, with two-pass noise."""
    terms = values.shape[-1]
    mean = values.mean(-1, keepdim=True)
    square = values.square().mean(-1, keepdim=True)
    mean = noise.additive(mean, walk_deviation(values).unsqueeze(-1) / terms)
    centred = values - mean
    variance = centred.square().mean(-1, keepdim=True)
    amplified = (square / torch.where(variance > 0, variance, 1.0)).sqrt_()
    spread = variance * (amplified * (terms / 3) ** 0.5 + 2.0)
    variance = noise.additive(variance, spread)
    rstd = noise.relative((variance.clamp_min(0.0) + eps).rsqrt(), 3.0)
    deviation = (values.square() + mean.square() + 2 * centred.square()).sqrt_()
    return noise.additive(centred, deviation) * rstd, mean, rstd


def _affine(values: Tensor, weight: Any, bias: Any, noise: Noise) -> Tensor:
    if isinstance(weight, Tensor):
        values = values * weight
    if isinstance(bias, Tensor):
        total = values + bias
        return noise.additive(total, (values.square() + bias.square() + total.square()).sqrt_())
    return noise.relative(values, 1.5)


def _layer_norm(named: dict[str, Any], out: Any, noise: Noise) -> Any:
    values, shape = named["input"], tuple(named["normalized_shape"])
    rank = len(shape)
    flat = values.reshape(*values.shape[: values.dim() - rank], -1)
    normal, mean, rstd = _normalise(flat, float(named["eps"]), noise)
    y = _affine(normal.reshape(values.shape), named.get("weight"), named.get("bias"), noise)
    return y, mean.reshape(out[1].shape), rstd.reshape(out[2].shape)


def _group_norm(named: dict[str, Any], out: Any, noise: Noise) -> Any:
    values, group = named["input"], int(named["group"])
    flat = values.reshape(values.shape[0], group, -1)
    normal, mean, rstd = _normalise(flat, float(named["eps"]), noise)
    shape = (1, -1) + (1,) * (values.dim() - 2)
    weight, bias = (
        named[key].reshape(shape) if isinstance(named.get(key), Tensor) else None
        for key in ("weight", "bias")
    )
    y = _affine(normal.reshape(values.shape), weight, bias, noise)
    return y, mean.reshape(out[1].shape), rstd.reshape(out[2].shape)


def _rms_norm(named: dict[str, Any], out: Any, noise: Noise) -> Any:
    values, rank = named["input"], len(named["normalized_shape"])
    terms = 1
    for size in named["normalized_shape"]:
        terms *= int(size)
    factor = 0.5 * (terms / 3) ** 0.5 + 3.0
    rstd = noise.relative(out[1], factor)
    y = values * rstd.reshape(*values.shape[: values.dim() - rank], *([1] * rank))
    return _affine(y, named.get("weight"), None, noise), rstd


def _cumsum(named: dict[str, Any], out: Tensor, noise: Noise) -> Tensor:
    """Every partial sum rounds once and carries its error on."""
    return out + noise.normal(out.shape, out.device).mul(out).cumsum(named["dim"]) * noise.roundoff


COMPOSITES: dict[str, Composite] = {
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "gelu": _gelu,
    "silu": _silu,
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "_fused_rms_norm": _rms_norm,
    "cumsum": _cumsum,
}
