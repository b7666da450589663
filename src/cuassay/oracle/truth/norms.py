"""Noise of fused norms: two passes, with the variance noise of one-pass and Welford forms.

y = (x - mean) * rstd * w + b errs by w * rstd * (error of the mean), by the error of rstd times
the whole row, and element by element. What depends on the inputs alone is computed in the first
draw and kept; the variance's error is applied to the row's variance itself, since it may exceed
it where a row is nearly constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cuassay.oracle.truth.random_errors import Noise
from cuassay.oracle.truth.reductions import walk_deviation

Keep: TypeAlias = Callable[[Callable[[], Sequence[Tensor]]], Sequence[Tensor]]
_RSQRT = 3.0  # roundings of eps + variance, square root and reciprocal
_VARIANCE = 2.0  # of the squares and of the division by n


def _measure(
    values: Tensor, eps: float, scale: Tensor | None, shift: Tensor | None
) -> tuple[Tensor, ...]:
    """Return deviations of norms over the last axis: element, mean (times rstd), and what rstd
    is made of: variance + eps, and the variance's deviation.

    `scale` and `shift` broadcast to `values`.
    """
    terms = values.shape[-1]
    mean = values.mean(-1, keepdim=True)
    centred = values - mean
    squares = centred.square()
    variance = squares.mean(-1, keepdim=True)
    square = variance + mean.square()
    moved = walk_deviation(values).unsqueeze(-1) / terms
    amplified = (square / torch.where(variance > 0, variance, 1.0)).sqrt_()
    walk = walk_deviation(squares).unsqueeze(-1) / terms
    spread = amplified * walk + _VARIANCE * variance
    rstd = (variance + eps).rsqrt()
    factor = rstd if scale is None else rstd * scale
    normal = centred * factor
    element = values.square() + mean.square() + 2 * squares
    element = element.mul_(factor.square())
    if shift is None:
        element += (1.5 * normal).square_()
    else:
        total = normal + shift
        element += normal.square().add_(shift.square()).add_(total.square_())
    return element.sqrt_(), moved * rstd, variance + eps, spread


def _noisy(
    out: Tensor,
    kept: Sequence[Tensor],
    noise: Noise,
    scale: Tensor | None,
    shift: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return y with one draw's errors, and the row's relative error of rstd and of the mean."""
    element, moved, variance, spread = kept
    first, second, third = (noise.of(variance) for _ in range(3))
    wrong = torch.addcmul(variance.double(), spread.double(), first, value=noise.roundoff)
    ratio = (variance / wrong.clamp_min(eps)).sqrt_()
    ratio = torch.addcmul(ratio, ratio, second.double(), value=_RSQRT * noise.roundoff)
    shifted = moved * third * noise.roundoff
    relative = (ratio - 1.0).to(out.dtype)
    body = out if shift is None else out - shift
    y = torch.addcmul(out, body, relative)
    y = y - shifted if scale is None else torch.addcmul(y, scale, shifted.to(y.dtype), value=-1.0)
    return noise.kept(y.to(out.dtype), element), ratio, shifted


def _norm(
    values: Tensor,
    outs: Any,
    affine: tuple[Tensor | None, Tensor | None],
    eps: float,
    noise: Noise,
    keep: Keep,
) -> Any:
    """`values` (..., terms) of a norm with results `outs` (y, mean, rstd)."""
    scale, shift = affine
    kept = keep(lambda: _measure(values, eps, scale, shift))
    y, ratio, shifted = _noisy(outs[0].reshape(values.shape), kept, noise, scale, shift, eps)
    mean = outs[1] - (shifted * kept[2].sqrt()).reshape(outs[1].shape)
    rstd = outs[2] * ratio.reshape(outs[2].shape)
    return y.reshape(outs[0].shape), mean.to(outs[1].dtype), rstd.to(outs[2].dtype)


def _flat(parameter: Any, shape: Sequence[int]) -> Tensor | None:
    return parameter.reshape(tuple(shape)) if isinstance(parameter, Tensor) else None


def layer_norm(named: dict[str, Any], out: Any, noise: Noise, keep: Keep) -> Any:
    """native_layer_norm: (y, mean, rstd)."""
    values, rank = named["input"], len(named["normalized_shape"])
    flat = values.reshape(*values.shape[: values.dim() - rank], -1)
    affine = (_flat(named.get("weight"), (-1,)), _flat(named.get("bias"), (-1,)))
    return _norm(flat, out, affine, float(named["eps"]), noise, keep)


def group_norm(named: dict[str, Any], out: Any, noise: Noise, keep: Keep) -> Any:
    """native_group_norm: (y, mean, rstd); weights belong to channels."""
    values, group = named["input"], int(named["group"])
    batch, channels = values.shape[0], values.shape[1]
    flat = values.reshape(batch, group, -1)
    each = flat.shape[-1] // max(channels // group, 1)

    def spread(parameter: Any) -> Tensor | None:
        if not isinstance(parameter, Tensor):
            return None
        return parameter.reshape(group, -1, 1).expand(-1, -1, each).reshape(1, group, -1)

    affine = (spread(named.get("weight")), spread(named.get("bias")))
    return _norm(flat, out, affine, float(named["eps"]), noise, keep)


def rms_norm(named: dict[str, Any], out: Any, noise: Noise, keep: Keep) -> Any:
    """_fused_rms_norm: (y, rstd)."""
    values, rank = named["input"], len(named["normalized_shape"])
    leading = values.shape[: values.dim() - rank]

    def make() -> tuple[Tensor]:
        squares = values.reshape(*leading, -1).square()
        total = squares.sum(-1)
        return (walk_deviation(squares) / torch.where(total > 0, total, 1.0) * 0.5 + _RSQRT,)

    size = keep(make)[0].reshape(out[1].shape)
    row = torch.addcmul(
        torch.ones_like(out[1]), size, noise.of(out[1]).reshape(size.shape), value=noise.roundoff
    )
    y = out[0] * row.reshape(*leading, *([1] * rank))
    return noise.relative(y, 2.0), out[1] * row
