"""The achievable error of each element, from draws and from two trusted implementations.

s^2 = pool(mean of m^2 over draws) + h^2/3 + (4u)^2 min over axes rms(t in slice)^2
      + max(e_ref, e_lift32)^2

with m a draw less truth, h half the spacing of the output's dtype, u the unit roundoff of the
accumulation. `pool` is half the element's own variance and half the rank-1 model of row and
column means, since an error that is 0 by luck in every draw must not condemn anybody. The
floor is for cancelling tails (silu, erf), whose relative error is unbounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle import special
from cuassay.oracle.compare_groups import MIN_TERMS
from cuassay.oracle.compare_sums import matrix_shape

FLOOR_ROUNDOFFS = 4.0
_LEAST_SCALE = 2.0**-126  # below it float32 arithmetic may flush; errors there flush as well
_JUMP_GAP = 50.0  # ratio between neighbours among sorted |m| that no smooth noise shows
_JUMP_SIZE = 64.0  # in roundings: smaller jumps are judged like any error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scale:
    """Achievable error: `full` judges elements, `noise` is the part without e_ref (energy).

    Both float64 of the output's shape; `ambiguous` (bool) are elements that a jump flips.
    """

    full: Tensor
    noise: Tensor
    ambiguous: Tensor | None


def pooled(variance: Tensor) -> Tensor:
    """Return half the own variance plus half of rowmean * colmean / mean (two axes and more)."""
    if variance.dim() < 2 or variance.numel() < MIN_TERMS:
        return variance
    matrix = variance.reshape(matrix_shape(variance.shape, False))
    rows, columns = matrix.mean(1, keepdim=True), matrix.mean(0, keepdim=True)
    mean = matrix.mean()
    if not bool(mean > 0):
        return variance
    return (matrix * 0.5 + rows * (columns * (0.5 / mean))).reshape(variance.shape)


def floor_square(value: Tensor, roundoff: float) -> Tensor | float:
    """Return (4u)^2 * min over axes of mean(t^2 in slice), 0 for outputs of one axis."""
    if value.dim() < 2:
        return 0.0
    square = torch.nan_to_num(value, 0.0, 0.0, 0.0).square_()
    least: Tensor | None = None
    for axis, size in enumerate(value.shape):
        if size == 0 or value.numel() // size < MIN_TERMS:
            continue
        others = [other for other in range(value.dim()) if other != axis]
        mean = square.mean(others, keepdim=True)
        least = mean if least is None else torch.minimum(least, mean)
    return 0.0 if least is None else least * (FLOOR_ROUNDOFFS * roundoff) ** 2


def jumps(deviations: Sequence[Tensor], rounding: Tensor) -> Tensor | None:
    """Return elements whose truth flips among the draws: a gap among the sorted |m|.

    Smooth noise of 4 draws or more shows no gap of 50 between its second smallest and larger
    sizes; an element next to a jump shows both sides. `rounding` is h + 4u|t|: smaller jumps
    need no excuse. None where there is none.
    """
    if len(deviations) < 3:
        return None
    ordered = torch.stack([m.abs() for m in deviations]).sort(0).values
    least = rounding.float()
    ratio = ordered[1:] > ordered[:-1].clamp_min(1e-37) * _JUMP_GAP
    large = ordered[1:] > least * _JUMP_SIZE
    found = (ratio & large)[1:].any(0) | (ratio[0] & (ordered[1] > least * _JUMP_SIZE**2))
    return found if bool(found.any()) else None


def achievable(
    value: Tensor,
    deviations: Sequence[Tensor],
    trusted: Sequence[Tensor],
    *,
    dtype: DType,
    roundoff: float,
    rounded: bool,
    discontinuous: bool,
) -> Scale:
    """Return the scale of one output.

    `deviations` are draws less truth (float32), `trusted` the errors of the reference as
    written and of the float32 lift (0 where not finite). `rounded` says that the draws hold
    the final rounding already (the reference's result is 16-bit as written).
    """
    half = special.half_spacing(value, dtype)
    mean = torch.zeros_like(value)
    for m in deviations:
        mean.addcmul_(m, m, value=1.0 / len(deviations))
    ambiguous = None
    if discontinuous:
        size = half + torch.nan_to_num(value, 0.0, 0.0, 0.0).abs() * (4 * roundoff)
        ambiguous = jumps(deviations, size)
    if ambiguous is not None:
        mean.masked_fill_(ambiguous, 0.0)  # a jump must not raise its neighbours' scale
    third = half.double().square_().mul_(1.0 / 3.0)
    noise = pooled(mean)
    noise = torch.maximum(noise, third) if rounded else noise + third
    noise += floor_square(value, roundoff)
    error = torch.zeros_like(value)
    for e in trusted:
        torch.maximum(error, e.abs(), out=error)
    full = torch.addcmul(noise, error, error).sqrt_()
    full, noise = _exact_zeros(value, full), _exact_zeros(value, noise.sqrt_())
    if ambiguous is not None:
        largest = torch.stack([m.abs() for m in deviations]).amax(0).double()
        full = torch.where(ambiguous, -torch.maximum(full, largest), full)
        noise = noise.masked_fill(ambiguous, 0.0)
    return Scale(full=full, noise=noise, ambiguous=ambiguous)


def _exact_zeros(value: Tensor, scale: Tensor) -> Tensor:
    """Zeros that carry no noise stay exact; other scales stay above what float32 flushes."""
    if scale.numel() == 0 or bool(scale.amin() > _LEAST_SCALE):
        return scale
    exact = (scale <= _LEAST_SCALE) & (value == 0)
    return scale.clamp_min(_LEAST_SCALE).masked_fill_(exact, 0.0)


def rms(values: Tensor) -> float:
    """Return the root mean square of the finite elements, 0 where there is none."""
    if values.numel() == 0:
        return 0.0
    norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    if math.isfinite(norm):
        return norm / math.sqrt(values.numel())
    finite = values[torch.isfinite(values)].double()
    return math.sqrt(float(finite.square().mean())) if finite.numel() else 0.0
