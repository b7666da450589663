"""Composite operators in their least favourable honest form, noise added to first order.

softmax as exp(x - lse), gelu as x/2 (1 + erf), silu as x / (1 + exp(-x)), tanh as
2 sigmoid(2x) - 1 or (1 - e)/(1 + e), sigmoid as (1 + tanh(x/2)) / 2. A reference that is exact
by luck (a peaked softmax row is exactly 1) must not condemn an honest twin that is not. Norms:
`trust_norms`.

Deviations hardly change between draws: `keep` computes them in the first and returns the same
ones, as float32, in later draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cuassay.oracle.truth.norms import group_norm, layer_norm, rms_norm
from cuassay.oracle.truth.random_errors import Noise, moderate
from cuassay.oracle.truth.reductions import walk_deviation
from cuassay.oracle.truth.systematic import UNIT, drift

Keep: TypeAlias = Callable[[Callable[[], Sequence[Tensor]]], Sequence[Tensor]]
Composite: TypeAlias = Callable[[dict[str, Any], Any, Noise, Keep], Any]


def _row(values: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, their log-sum-exp and its deviation (axis kept); 0 for sentinels.

    The deviation is that of lse itself and of the sum of exponentials, whose total is 1 here.
    """
    lse = values.logsumexp(dim, keepdim=True)
    terms = torch.nan_to_num((values - lse).exp_(), 0.0, 0.0, 0.0)
    walk = walk_deviation(terms.movedim(dim, -1)) if terms.dim() else terms
    lse = moderate(lse)
    along = (lse.square() + walk.reshape(lse.shape).square()).sqrt_()
    return moderate(values), lse, along


def _softmax(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    values, dim = named["self"], named["dim"]

    def make() -> tuple[Tensor, Tensor]:
        clean, lse, along = _row(values, dim)
        return (clean.square() + (clean - lse).square() + 4.0).sqrt_().mul_(out), along

    size, along = keep(make)
    row = noise.of(along) * along
    noisy = torch.addcmul(out, out, row.to(out.dtype), value=noise.roundoff)
    return noise.kept(noisy, size)


def _log_softmax(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    values, dim = named["self"], named["dim"]

    def make() -> tuple[Tensor, Tensor]:
        clean, _, along = _row(values, dim)
        return (clean.square() + moderate(out).square()).sqrt_(), along

    size, along = keep(make)
    row = noise.of(along) * along
    return noise.kept(torch.add(out, row, alpha=noise.roundoff), size)


def _logsumexp(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    terms = named["self"].numel() / max(out.numel(), 1)
    shown = moderate(out)
    return noise.additive(out, (2 * shown.square() + terms / 3 + 4.0).sqrt_())


def _gelu(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    def make() -> tuple[Tensor]:
        values, shown = moderate(named["self"]), moderate(out)
        return ((1.25 * values.square() + 3 * shown.square()).sqrt_(),)

    return noise.kept(out, keep(make)[0])


def _silu(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    def make() -> tuple[Tensor]:
        values = moderate(named["self"])
        rest = (1.0 - torch.sigmoid(values)).mul_(values)
        return ((2 * rest.square_() + 8.0).sqrt_().mul_(moderate(out).abs()),)

    return noise.kept(out, keep(make)[0])


def _tanh(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    """2 sigmoid(2x) - 1 and (1 - e)/(1 + e) round numbers of size 1: 2 u whatever |x| is.

    The error falls with the slope 1 - t^2 to the 2 u |t| of any form where tanh saturates.
    Some draws evaluate 2 sigmoid(2x) - 1 itself: at small x its intermediates lie on a coarse
    grid, so that its errors lean to one side, which independent noise does not show.
    """
    if out.is_complex():
        return noise.relative(out, 3.0)
    first = False

    def make() -> tuple[Tensor]:
        nonlocal first
        first = True
        values, square = moderate(named["self"]), out.square()
        slope = (1.0 - square).square_()
        return ((slope * (values.square() + 4.0)).add_(square, alpha=4.0).sqrt_(),)

    size = keep(make)[0]
    if noise.roundoff >= UNIT and (noise.coin() or first):
        return (2.0 * torch.sigmoid(2.0 * named["self"].float()) - 1.0).to(out.dtype)
    return noise.kept(out, size)


def _sigmoid(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    """(1 + tanh(x / 2)) / 2, as torch's own gradient of GELU has it, errs by u / 2 of its tail.

    exp(x) / (1 + exp(x)) errs by its argument's rounding times the slope s (1 - s).
    """
    if out.is_complex():
        return noise.relative(out, 2.0)

    def make() -> tuple[Tensor]:
        slope = torch.addcmul(out, out, out, value=-1.0).mul_(moderate(named["self"]))
        return (slope.square_().addcmul_(out, out, value=4.0).add_(0.25).sqrt_(),)

    return noise.kept(out, keep(make)[0])


def _cumsum(named: dict[str, Any], out: Tensor, noise: Noise, keep: Keep) -> Tensor:
    """Every partial sum rounds once and carries its error on; equal addends err one way."""
    dim = named["dim"]

    def make() -> tuple[Tensor, ...]:
        if out.dim() == 0 or not named["self"].dtype.is_floating_point:
            return ()
        rows, sums = (moderate(t).movedim(dim, -1) for t in (named["self"], out))
        drifted = drift(rows, sums.abs().amax(-1))
        if drifted is None:
            return ()
        walk = sums.square().sum(-1).sqrt_()
        ratio = (drifted / torch.where(walk > 0, walk, 1.0)).clamp_min_(1.0)
        return (ratio.unsqueeze(-1).movedim(-1, dim),)

    walked = noise.normal(out.shape, out.device).mul(out).cumsum(dim)
    ratio = keep(make)
    if ratio:
        walked = walked * ratio[0]
    return out + walked * noise.roundoff


COMPOSITES: dict[str, Composite] = {
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "gelu": _gelu,
    "silu": _silu,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "native_layer_norm": layer_norm,
    "native_group_norm": group_norm,
    "_fused_rms_norm": rms_norm,
    "cumsum": _cumsum,
}
