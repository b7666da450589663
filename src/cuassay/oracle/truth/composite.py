"""Composite operators in their least favourable honest form, noise added to first order.

softmax as exp(x - lse), gelu as x/2 (1 + erf), silu as x / (1 + exp(-x)), tanh as
2 sigmoid(2x) - 1 or (1 - e)/(1 + e), sigmoid as (1 + tanh(x/2)) / 2. A reference that is exact
by luck (a peaked softmax row is exactly 1) must not condemn an honest twin that is not.

Fused norms take two passes, with the variance noise of one-pass and Welford forms:
y = (x - mean) * rstd * w + b errs by w * rstd * (error of the mean), by the error of rstd times
the whole row, and element by element. The variance's error is applied to the row's variance
itself, since it may exceed it where a row is nearly constant.

Deviations hardly change between draws: `keep(make, *given)` computes them of what the first draw is
given and returns the same ones, as float32, in later draws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cuassay.oracle.truth.random_errors import Noise, moderate
from cuassay.oracle.truth.reductions import walk_deviation
from cuassay.oracle.truth.systematic import UNIT, drift
from cuassay.tables import row

Named: TypeAlias = Mapping[str, Any]
Keep: TypeAlias = Callable[..., Sequence[Tensor]]
Composite: TypeAlias = Callable[[Named, Any, Noise, Keep], Any]

_RSQRT = 3.0  # roundings of eps + variance, square root and reciprocal
_VARIANCE = 2.0  # of the squares and of the division by n
_CLOSED = -2.0  # a gate's argument below which its forms differ by more than their last digits
_TAIL = 0.5  # u: what (1 + tanh(x / 2)) / 2 errs by at most


def _softmax(named: Named, out: Tensor, noise: Noise, keep: Keep, *, log: bool = False) -> Tensor:
    dim = named["dim"]

    def make(values: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        lse = values.logsumexp(dim, keepdim=True)
        terms = torch.nan_to_num((values - lse).exp_(), 0.0, 0.0, 0.0)
        walk = walk_deviation(terms.movedim(dim, -1)) if terms.dim() else terms
        values, lse = moderate(values), moderate(lse)
        if log:
            size = (values.square() + moderate(out).square()).sqrt_()
        else:
            size = (values.square() + (values - lse).square() + 4.0).sqrt_().mul_(out)
        # of lse itself and of the sum of exponentials, whose total is 1 here
        return size, (lse.square() + walk.reshape(lse.shape).square()).sqrt_()

    size, along = keep(make, named["self"], out)
    row = noise.of(along) * along
    if log:
        return noise.kept(torch.add(out, row, alpha=noise.roundoff), size)
    return noise.kept(torch.addcmul(out, out, row.to(out.dtype), value=noise.roundoff), size)


COMPOSITES: dict[str, Composite] = {}


@row(COMPOSITES, "logsumexp")
def _logsumexp(named: Named, out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    terms = named["self"].numel() / max(out.numel(), 1)
    shown = moderate(out)
    return noise.additive(out, (2 * shown.square() + terms / 3 + 4.0).sqrt_())


def _pointwise(size: Callable[[Tensor, Tensor], Tensor]) -> Composite:
    """Return the composite whose values x give y with an error of `size(x, y)` roundings."""

    def composite(named: Named, out: Tensor, noise: Noise, keep: Keep) -> Tensor:
        if out.is_complex():
            return noise.relative(out, 2.0)
        found = keep(lambda x, y: (size(moderate(x), y),), named["self"], out)
        return noise.kept(out, found[0])

    return composite


@row(COMPOSITES, "gelu")
@_pointwise
def _gelu(x: Tensor, y: Tensor) -> Tensor:
    return (1.25 * x.square() + 3 * moderate(y).square()).sqrt_()


def _gate(size: Callable[[Tensor, Tensor], Tensor], *, times_x: bool) -> Composite:
    """Return the composite of a gate, s(x) or x s(x) of the sigmoid s, which errs by `size` u.

    (1 + tanh(x / 2)) / 2, as torch's own gradient of GELU has it, loses the tail of s: it is off by
    up to u / 4 there, and by twice that where tanh is off by a spacing. How much is a function of
    x. Rows of nearly equal gates err alike, and below -17.3 all that is left is 0. So half of the
    draws make this form's own error, the others one as large for each element by itself.
    """

    def composite(named: Named, out: Tensor, noise: Noise, keep: Keep) -> Tensor:
        if out.is_complex():
            return noise.relative(out, 2.0)
        first = False

        def make(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            nonlocal first
            first, x = True, moderate(x)
            tail = torch.full_like(x, _TAIL)
            if times_x:
                tail *= x
            closed = x.numel() > 0 and bool(x.amin() < _CLOSED)
            return (size(x, y), tail) if closed else (size(x, y),)

        def lost(x: Tensor) -> Tensor:
            x = moderate(x).float()
            error = 0.5 * (1.0 + torch.tanh(0.5 * x)) - torch.sigmoid(x.double())
            return (error * x if times_x else error).to(out.dtype)

        deviation, *tail = keep(make, named["self"], out)
        noisy = noise.kept(out, deviation)
        if not tail:
            return noisy
        nothing = torch.zeros_like(out)
        if noise.roundoff < UNIT:
            return noise.kept(noisy, tail[0])
        return noisy + noise.in_half_of_draws(
            lost, named["self"], lambda: noise.kept(nothing, tail[0]), first=first
        )

    return composite


def _silu_size(x: Tensor, y: Tensor) -> Tensor:
    rest = (1.0 - torch.sigmoid(x)).mul_(x)
    return (2 * rest.square_() + 8.0).sqrt_().mul_(moderate(y).abs())


def _sigmoid_size(x: Tensor, y: Tensor) -> Tensor:
    """exp(x) / (1 + exp(x)) errs by its argument's rounding times the slope s (1 - s)."""
    slope = torch.addcmul(y, y, y, value=-1.0).mul_(x)
    return slope.square_().addcmul_(y, y, value=4.0).sqrt_()


COMPOSITES |= {
    "silu": _gate(_silu_size, times_x=True),
    "sigmoid": _gate(_sigmoid_size, times_x=False),
}


@row(COMPOSITES, "tanh")
def _tanh(named: Named, out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    """2 sigmoid(2x) - 1 and (1 - e)/(1 + e) round numbers of size 1: 2 u whatever |x| is.

    The error falls with the slope 1 - t^2 to the 2 u |t| of any form where tanh saturates.
    Some draws evaluate 2 sigmoid(2x) - 1 itself: at small x its intermediates lie on a coarse
    grid, so that its errors lean to one side, which independent noise does not show.
    """
    if out.is_complex():
        return noise.relative(out, 3.0)
    first = False

    def make(given: Tensor, out: Tensor) -> tuple[Tensor]:
        nonlocal first
        first = True
        values, square = moderate(given), out.square()
        slope = (1.0 - square).square_()
        return ((slope * (values.square() + 4.0)).add_(square, alpha=4.0).sqrt_(),)

    size = keep(make, named["self"], out)[0]
    if noise.roundoff < UNIT:
        return noise.kept(out, size)
    return noise.in_half_of_draws(
        lambda given: (2.0 * torch.sigmoid(2.0 * given.float()) - 1.0).to(out.dtype),
        named["self"],
        lambda: noise.kept(out, size),
        first=first,
    )


@row(COMPOSITES, "cumsum")
def _cumsum(named: Named, out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    """Every partial sum rounds once and carries its error on; equal addends err one way."""
    dim = named["dim"]

    def make(given: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        if out.dim() == 0 or not given.dtype.is_floating_point:
            return ()
        rows, sums = (moderate(t).movedim(dim, -1) for t in (given, out))
        drifted = drift(rows, sums.abs().amax(-1))
        if drifted is None:
            return ()
        walk = sums.square().sum(-1).sqrt_()
        ratio = (drifted / torch.where(walk > 0, walk, 1.0)).clamp_min_(1.0)
        return (ratio.unsqueeze(-1).movedim(-1, dim),)

    walked = noise.normal(out.shape, out.device).mul(out).cumsum(dim)
    ratio = keep(make, named["self"], out)
    if ratio:
        walked = walked * ratio[0]
    return out + walked * noise.roundoff


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


def _norm(
    values: Tensor,
    outs: Any,
    scale: Tensor | None,
    shift: Tensor | None,
    eps: float,
    noise: Noise,
    keep: Keep,
) -> Any:
    """`values` (..., terms) of a norm with results `outs` (y, mean, rstd)."""
    element, moved, variance, spread = keep(
        lambda *given: _measure(given[0], eps, *given[1:]), values, scale, shift
    )
    first, second, third = (noise.of(variance) for _ in range(3))
    wrong = torch.addcmul(variance.double(), spread.double(), first, value=noise.roundoff)
    ratio = (variance / wrong.clamp_min(eps)).sqrt_()
    ratio = torch.addcmul(ratio, ratio, second.double(), value=_RSQRT * noise.roundoff)
    shifted = moved * third * noise.roundoff
    out = outs[0].reshape(values.shape)
    y = torch.addcmul(out, out if shift is None else out - shift, (ratio - 1.0).to(out.dtype))
    y = y - shifted if scale is None else torch.addcmul(y, scale, shifted.to(y.dtype), value=-1.0)
    y = noise.kept(y.to(out.dtype), element)
    mean = outs[1] - (shifted * variance.sqrt()).reshape(outs[1].shape)
    rstd = outs[2] * ratio.reshape(outs[2].shape)
    return y.reshape(outs[0].shape), mean.to(outs[1].dtype), rstd.to(outs[2].dtype)


@row(COMPOSITES, "native_layer_norm")
def _layer_norm(named: Named, out: Any, noise: Noise, keep: Keep) -> Any:
    """native_layer_norm: (y, mean, rstd)."""
    values, rank = named["input"], len(named["normalized_shape"])
    flat = values.reshape(*values.shape[: values.dim() - rank], -1)
    scale, shift = (
        parameter.reshape(-1) if isinstance(parameter, Tensor) else None
        for parameter in (named.get("weight"), named.get("bias"))
    )
    return _norm(flat, out, scale, shift, float(named["eps"]), noise, keep)


@row(COMPOSITES, "native_group_norm")
def _group_norm(named: Named, out: Any, noise: Noise, keep: Keep) -> Any:
    """native_group_norm: (y, mean, rstd); weights belong to channels."""
    values, group = named["input"], int(named["group"])
    batch, channels = values.shape[0], values.shape[1]
    flat = values.reshape(batch, group, -1)
    each = flat.shape[-1] // max(channels // group, 1)
    scale, shift = (
        parameter.reshape(group, -1, 1).expand(-1, -1, each).reshape(1, group, -1)
        if isinstance(parameter, Tensor)
        else None
        for parameter in (named.get("weight"), named.get("bias"))
    )
    return _norm(flat, out, scale, shift, float(named["eps"]), noise, keep)


@row(COMPOSITES, "_fused_rms_norm")
def _rms_norm(named: Named, out: Any, noise: Noise, keep: Keep) -> Any:
    """_fused_rms_norm: (y, rstd)."""
    values, rank = named["input"], len(named["normalized_shape"])
    leading = values.shape[: values.dim() - rank]

    def make(values: Tensor) -> tuple[Tensor]:
        squares = values.reshape(*leading, -1).square()
        total = squares.sum(-1)
        return (walk_deviation(squares) / torch.where(total > 0, total, 1.0) * 0.5 + _RSQRT,)

    size = keep(make, values)[0].reshape(out[1].shape)
    row = torch.addcmul(
        torch.ones_like(out[1]), size, noise.of(out[1]).reshape(size.shape), value=noise.roundoff
    )
    y = out[0] * row.reshape(*leading, *([1] * rank))
    return noise.relative(y, 2.0), out[1] * row


COMPOSITES |= {
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": functools.partial(_softmax, log=True),
}
