"""The achievable error of each element, from draws and from two trusted implementations.

s^2 = pool(mean of m^2 over draws) + h^2/3 + (4u)^2 min over axes rms(t in slice)^2
      + max(e_ref, e_lift32)^2

with m a draw less truth, h half the spacing of the output's dtype, u the unit roundoff of the
accumulation. The mean is that of draws and programs of the family together where that is more:
what such a program does to an element, a kernel does too. `pool` mixes the element's own variance
with a model from its row and column, since an error that is 0 by luck in every draw must not
condemn anybody. The floor is for cancelling tails (silu, erf), whose relative error is unbounded. A
gradient may come as a running sum, which leaves its roundings where it ends
(`with_running_floor`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle import special
from cuassay.oracle.compare.groups import MIN_TERMS, limit_w
from cuassay.oracle.compare.sums import matrix_shape
from cuassay.oracle.truth.left_out import element_room
from cuassay.oracle.truth.random_errors import scarce_rows

_FLOOR_ROUNDOFFS = 4.0
_SYSTEMATIC_ROUNDOFFS = 4.0  # of |truth|: constants and approximations may all err one way
# Where the result is 16-bit as written, kernels approximate more: torch's own CPU attention in
# float16 is 2e-5 to 3e-5 too large throughout. Truncating casts err by 2e-4 (float16) and more.
_SYSTEMATIC_LOW = 2.0**-14
_AT_ONCE = 1 << 24  # elements of a pass
_LEAST_SCALE = 2.0**-126  # below it float32 arithmetic may flush; errors there flush as well
_FEW_DRAWS = 4  # up to which a loud column's luck counts for more than what columns differ in
_PRIOR_DRAWS = 8.0  # how many draws of its own an element's row and column are worth
_JUMP_GAP = 50.0  # ratio between neighbours among sorted |m| that no smooth noise shows
_JUMP_SIZE = 64.0  # in roundings: smaller jumps are judged like any error
_LARGEST = 1e150  # sums of squares of what is smaller are finite in float64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """What the runs of a truth say of one output: the sample that its errors are estimated from.

    `deviations` are draws less truth, `errors` those of the reference as written and of the
    float32 lift, `members` those of programs that a family holds (0 where not finite). `rounded`
    says that the draws hold the final rounding already (the reference's result is 16-bit as
    written). `tied` is by how much truth moves where ties are broken the other way. `share` is the
    part of the output's rows that these are, where the others hold zeros alone. `gradient` says
    that the output is a derivative, which trusted kernels make in steps of their own.
    """

    value: Tensor
    deviations: Sequence[Tensor]
    errors: Sequence[Tensor]
    dtype: DType
    roundoff: float
    rounded: bool
    discontinuous: bool
    tied: Tensor | None = None
    share: float = 1.0
    members: Sequence[Tensor] = ()
    gradient: bool = False

    @property
    def systematic(self) -> float:
        """The relative error that may go one way everywhere."""
        least = _SYSTEMATIC_ROUNDOFFS * self.roundoff
        return max(least, _SYSTEMATIC_LOW) if self.rounded else least

    def at(self, rows: Tensor) -> Runs:
        """Return what the runs say of some rows; the others are zeros in every run."""
        return replace(
            self,
            value=self.value[rows],
            deviations=[m[rows] for m in self.deviations],
            errors=[e[rows] for e in self.errors],
            members=[e[rows] for e in self.members],
            share=len(rows) / len(self.value),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scale:
    """Achievable error: `full` judges elements, `noise` is the part without e_ref (energy).

    Both float64 of the output's shape; `ambiguous` (bool) are elements that a jump flips.
    `room` raises the limit of single elements (see `left_out`). Outside of `rows`, if there are
    any, both are 0.
    """

    full: Tensor
    noise: Tensor
    ambiguous: Tensor | None = None
    room: float = 1.0
    rows: Tensor | None = None

    def at(self, rows: Tensor) -> Scale:
        """Return the scale of some rows."""
        return replace(self, full=self.full[rows], noise=self.noise[rows], rows=None)


def achievable(runs: Runs) -> Scale:
    """Return the scale of one output: of the rows that hold anything, where they are few."""
    rows = None if runs.discontinuous else _live_rows(runs)
    if rows is None:
        return _achievable(runs)
    found = _achievable(runs.at(rows))
    full, noise = torch.zeros_like(runs.value), torch.zeros_like(runs.value)
    full[rows], noise[rows] = found.full, found.noise
    return replace(found, full=full, noise=noise, rows=rows)


def _live_rows(runs: Runs) -> Tensor | None:
    """Return the rows of a matrix where any run shows anything but exact zeros, if few.

    None for float16, whose coarse subnormals give zeros a scale.
    """
    value, form = runs.value, special.form_of(runs.dtype)
    if value.dim() != 2 or form.smallest_normal * 2.0**-form.precision > _LEAST_SCALE:
        return None
    live = torch.zeros(len(value), dtype=torch.bool, device=value.device)
    for tensor in (value, *runs.deviations, *runs.errors, *runs.members):
        rows = scarce_rows(tensor)
        if rows is None:
            return None
        live[rows] = True
    found = live.nonzero().squeeze(1)
    enough = len(found) * value.shape[1] >= MIN_TERMS
    return found if enough and len(found) * 2 <= len(value) else None


def _achievable(runs: Runs) -> Scale:
    value, deviations, tied = runs.value, runs.deviations, runs.tied
    half = special.half_spacing(value, runs.dtype)
    mean = torch.zeros_like(value)
    for m in deviations:
        mean.addcmul_(m, m, value=1.0 / len(deviations))
    if runs.members:
        count = len(deviations) + len(runs.members)
        every = mean * (len(deviations) / count)
        for m in runs.members:
            every.addcmul_(m, m, value=1.0 / count)
        mean = torch.maximum(mean, every)
    ambiguous = _ambiguous(runs, half) if runs.discontinuous else None
    if ambiguous is not None:
        mean.masked_fill_(ambiguous, 0.0)  # a jump must not raise its neighbours' scale
    third = half.double().square_().mul_(1.0 / 3.0)
    noise = pooled_variance(mean, len(deviations), None if runs.rounded else value)
    noise = torch.maximum(noise, third, out=noise) if runs.rounded else noise.add_(third)
    noise += floor_square(value, runs.roundoff, share=runs.share)
    if runs.gradient:
        noise = with_running_floor(noise, value, runs.roundoff)
    if value.dim() >= 2 and 2 <= value.shape[-1] < MIN_TERMS:
        noise = torch.maximum(noise, _shared_by_row(noise, value), out=noise)
    full = noise.clone()
    if runs.errors:
        error = runs.errors[0].abs()
        for e in runs.errors[1:]:
            error = torch.maximum(error, e.abs())
        full.addcmul_(error, error)
        third.addcmul_(error, error)
    room = 1.0
    if deviations and ambiguous is None and value.numel():
        # Where nothing is pooled, as of an output of one axis, a draw's share is 1 / D. That would
        # double the limit, and of sums in 16 bits (RMSNorm's grad_weight) 3 of 14 were found in
        # place of 10, while an honest one is beyond it once in 23 and drawn again.
        own = 1.0 / (len(deviations) + _PRIOR_DRAWS)
        room = element_room(full, deviations, third, share=own, limit=limit_w(value.numel()))
    full, noise = exact_zeros(value, full.sqrt_()), exact_zeros(value, noise.sqrt_())
    if ambiguous is not None:
        largest = torch.stack([m.abs() for m in deviations]).amax(0).double()
        if tied is not None:
            largest = torch.maximum(largest, tied.abs().double())
        full = torch.where(ambiguous, -torch.maximum(full, largest), full)
        noise = noise.masked_fill(ambiguous, 0.0)
    return Scale(full=full, noise=noise, ambiguous=ambiguous, room=room)


def _ambiguous(runs: Runs, half: Tensor) -> Tensor | None:
    """Return elements whose truth flips, None where there is none.

    By the noise: a gap among the sorted |m|. Smooth noise of 4 draws or more shows no gap of 50
    between its second smallest and larger sizes; an element next to a jump shows both sides.
    Jumps up to 64 h + 4u|t| need no excuse. Or by another way to break ties.
    """
    size = half + _finite(runs.value).abs() * (4 * runs.roundoff)
    found = torch.zeros_like(runs.value, dtype=torch.bool)
    if len(runs.deviations) >= 3:
        ordered = torch.stack([m.abs() for m in runs.deviations]).sort(0).values
        least = size.float()
        ratio = ordered[1:] > ordered[:-1].clamp_min(1e-37) * _JUMP_GAP
        large = ordered[1:] > least * _JUMP_SIZE
        found = (ratio & large)[1:].any(0) | (ratio[0] & (ordered[1] > least * _JUMP_SIZE**2))
    if runs.tied is not None:
        found = found | (runs.tied.abs() > size * _JUMP_SIZE)
    return found if bool(found.any()) else None


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, 0.0, 0.0, 0.0)


def pooled_variance(variance: Tensor, draws: int, value: Tensor | None = None) -> Tensor:
    """Return a mix of the own variance and of what rows and columns make likely.

    Likely is rowmean * colmean / mean, where with up to four draws a row counts for no less than
    its columns say evenly (see `_even_rows`), and, with `value`, the same model of relative
    errors where that is more (see `_likely`). The own part is draws / (draws + 8): half of it
    with eight draws, a fifth with two. Overwrites `variance`.
    """
    if variance.dim() < 2 or variance.numel() < MIN_TERMS:
        return variance
    matrix = variance.view(matrix_shape(variance.shape, False))
    rows, columns = matrix.mean(1, keepdim=True), matrix.mean(0, keepdim=True)
    mean = rows.mean()
    if not bool(mean > 0):
        return variance
    own = draws / (draws + _PRIOR_DRAWS)
    if draws <= _FEW_DRAWS:
        rows = _even_rows(matrix, rows, columns)
    if value is None:
        matrix.mul_(own).addcmul_(rows, columns * ((1.0 - own) / mean))
        return variance
    likely = _likely(value.view(matrix.shape), rows, columns, mean=mean, prior=1.0 - own)
    matrix.mul_(own).add_(likely, alpha=1.0 - own)
    return variance


def _even_rows(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return row means that no single column decides: at least what all columns say evenly.

    Where one column has most of the noise (an outlier channel of attention's values), a row's
    mean is the luck of two draws in that one column. Each column's deviation over that column's
    own says as much of the row; the mean of those (not of their squares, which one column
    without noise elsewhere would decide), squared and scaled to the same mean.
    """
    even = torch.zeros_like(rows)
    inverse = torch.where(columns > 0, columns, math.inf).rsqrt_()
    for start in range(0, len(matrix), step := max(1, _AT_ONCE // matrix.shape[1])):
        part = matrix[start : start + step].sqrt()
        even[start : start + step] = part.mul_(inverse).mean(1, keepdim=True).square_()
    return torch.maximum(rows, even.mul_(rows.mean() / even.mean()))


def _likely(value: Tensor, rows: Tensor, columns: Tensor, *, mean: Tensor, prior: float) -> Tensor:
    """Return the larger of two rank-1 models: of the variance, and of variance / t^2.

    The second knows what no mean of its row does: elements near 1 of a soft-max among millions
    near 0. A row whose elements share one error (the rounding of its rstd) has as few samples
    of it as there are draws, so rows and columns with less than the tensor's own relative
    error are raised toward it, by `prior` of the way.
    """
    square = _finite(value).square_()
    below, beside = square.mean(1, keepdim=True), square.mean(0, keepdim=True)
    ratio = mean / below.mean()
    if not bool(torch.isfinite(ratio) & (ratio > 0)):
        return rows * (columns / mean)
    rows = rows + (below * ratio - rows).clamp_min(0.0) * prior
    columns = columns + (beside * ratio - columns).clamp_min(0.0) * prior
    by_row = torch.where(below > 0, rows / below, 0.0)
    by_column = torch.where(beside > 0, columns / (beside * ratio), 0.0)
    relative = square.mul_(by_row).mul_(by_column)
    return torch.maximum(relative, rows * (columns / mean), out=relative)


def floor_square(value: Tensor, roundoff: float, *, share: float = 1.0) -> Tensor | float:
    """Return (4u)^2 * min over axes of mean(t^2 in slice), 0 for outputs of one axis.

    `share` says which part of the rows of a matrix `value` holds; the others are zeros.
    """
    if value.dim() < 2:
        return 0.0
    means: list[Tensor] = []
    for axis, size in enumerate(value.shape):
        rows = share if axis else 1.0  # slices along later axes hold the zero rows as well
        terms = value.numel() / rows / max(size, 1)
        if size == 0 or round(terms) < MIN_TERMS:
            continue
        others = [other for other in range(value.dim()) if other != axis]
        norm = torch.linalg.vector_norm(value, dim=others, keepdim=True)
        means.append((norm * (_FLOOR_ROUNDOFFS * roundoff / math.sqrt(terms))).square_())
    if not means:
        return 0.0
    if not bool(torch.stack([torch.isfinite(mean).all() for mean in means]).all()):
        # Neither what is not finite nor what has no finite square makes a floor for the others.
        countable = torch.where(value.abs() < _LARGEST, value, 0.0)  # NaN compares false
        return floor_square(countable, roundoff, share=share)
    least = means[0]
    for mean in means[1:]:
        least = torch.minimum(least, mean)
    return least


def with_running_floor(noise: Tensor, value: Tensor, roundoff: float) -> Tensor:
    """Return variances of at least (4u)^2 times the sum of t^2 along an axis where t ends in zeros.

    The gradient of a decay is often a running sum over the tokens, of q dq - k dk say: its partial
    sums are the gradients of the other tokens, and each was rounded. Where the gradient is 0 up to
    an end of the axis, the sum ends in those roundings, in at most 7 u times the norm (15 cases of
    gated linear attention in float32, 20 to 200 tokens). The axis of which that is most counts.
    """
    filled = (value != 0).byte()
    if bool(filled.all()):
        return noise
    for axis, size in enumerate(value.shape):
        first = filled.argmax(axis, keepdim=True)
        last = size - 1 - filled.flip(axis).argmax(axis, keepdim=True)
        place = torch.arange(size, device=value.device)
        place = place.reshape(-1, *[1] * (value.dim() - 1 - axis))
        norm = torch.linalg.vector_norm(value, dim=axis, keepdim=True)
        least = torch.nan_to_num(norm * (_FLOOR_ROUNDOFFS * roundoff), 0.0, 0.0).square_()
        beyond = (place < first) | (place > last)
        noise = torch.where(beyond, torch.maximum(noise, least), noise)
    return noise


def _shared_by_row(noise: Tensor, value: Tensor) -> Tensor:
    """Return t^2 times the relative error (squared) of its row: for rows of a few elements.

    What a row's sums lose to cancellation, one formula adds to some of its elements and another
    to others: with two or three of them no draw of one formula shows it.
    """
    square = _finite(value).square_()
    size = square.sum(-1, keepdim=True)
    return square * torch.where(size > 0, noise.sum(-1, keepdim=True) / size, 0.0)


def exact_zeros(value: Tensor, scale: Tensor) -> Tensor:
    """Zeros that carry no noise stay exact; other scales stay above what float32 flushes."""
    if scale.numel() == 0 or bool(scale.amin() > _LEAST_SCALE):
        return scale
    exact = (scale <= _LEAST_SCALE) & (value == 0)
    return scale.clamp_min_(_LEAST_SCALE).masked_fill_(exact, 0.0)
