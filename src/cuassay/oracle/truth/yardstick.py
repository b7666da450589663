"""What trusted runs achieve per group: the denominators that candidates are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from cuassay.oracle import special
from cuassay.oracle.compare.groups import (
    LIMIT_P,
    LIMIT_Z,
    MIN_PARTICIPATION,
    MIN_TERMS,
    GroupKind,
    group_kinds,
    projection,
    regroup,
)
from cuassay.oracle.compare.sums import CLIP_P, fold, matrix_shape
from cuassay.oracle.truth.left_out import by_the_others
from cuassay.oracle.truth.random_errors import scarce_rows
from cuassay.oracle.truth.shared import FlatOutput, Shared, shared
from cuassay.oracle.truth.types import TrustedBias, Yardstick

SYSTEMATIC_ROUNDOFFS = 4.0  # of |truth|: constants and approximations may all err one way
# Where the result is 16-bit as written, kernels approximate more: torch's own CPU attention in
# float16 is 2e-5 to 3e-5 too large throughout. Truncating casts err by 2e-4 (float16) and more.
SYSTEMATIC_LOW = 2.0**-14
_SMALL = 2.0**-24  # keeps fourth powers of weights (up to 2**25) within float32
_FIXED = 8  # sums that do not depend on the number of trusted runs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trusted:
    """One output's truth and trusted runs, before grouping. Tensors share the output's shape.

    `deviations` are draws less truth (float32); `errors` those of the reference as written
    and of the float32 lift, 0 where not finite. `rounded`: the draws hold the final rounding.
    `lean`: the relative error by which truncating tensor cores may make every element too small.
    `least`: as in OutputTruth, 0 where it is not known.
    """

    value: Tensor
    scale: Tensor
    noise: Tensor
    deviations: Sequence[Tensor]
    errors: Sequence[Tensor]
    hits: Tensor | None
    names: Sequence[str]
    unit: float
    roundoff: float
    rounded: bool
    lean: float = 0.0
    least: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Yardsticks:
    """Yardsticks of every kind of group, and the whole tensor's projections."""

    sticks: tuple[Yardstick, ...]
    gain: TrustedBias
    bias: TrustedBias


def yardsticks(trusted: Trusted) -> Yardsticks:
    """Sum truth's and the trusted runs' quantities over every group, in chunks."""
    shape = matrix_shape(trusted.value.shape, trusted.hits is not None)
    runs = [*trusted.deviations, *trusted.errors]
    views = [t.reshape(shape) for t in (trusted.value, trusted.scale, trusted.noise)]
    kept = scarce_rows(views[1])  # elements without any scale add nothing to any sum
    looked = _rows(views, kept)
    flat = _rows([run.reshape(shape) for run in runs], kept)
    per_unit = 1.0 / trusted.unit
    draws = len(trusted.deviations)
    count = _FIXED + len(trusted.errors) + 2 * len(runs) + draws

    def measure(r: slice, c: slice) -> list[Tensor]:
        value, scale, noise = (view[r, c] for view in looked)
        inverse = scale.reciprocal()
        mask: Tensor | None = None
        if not (trusted.least > 0 or (bool(scale.amin() > 0) and special.all_finite(value))):
            mask = torch.isfinite(value) & (scale > 0)
            value = torch.where(mask, value, 0.0)
            inverse = torch.where(mask, inverse, 0.0)
        signal = value.square()
        narrow = inverse.float()
        weight = (value * inverse).float()
        square = weight.square()
        small = square * _SMALL
        size = _masked((scale * per_unit).float(), mask).square_()
        own = _masked((noise * per_unit).float(), mask).square_()
        count = torch.ones_like(weight) if mask is None else mask.float()
        fixed = [count, own, size, size.square(), square, small.square_(), weight.abs()]
        errors = [run[r, c] for run in flat]
        known = [_masked((e * per_unit).float(), mask) for e in errors[draws:]]
        scores = _stacked([e.float() for e in errors], weight).mul_(narrow).clamp_(-CLIP_P, CLIP_P)
        energies = _stacked(known, weight).square_()
        parts = (torch.stack(fixed), signal[None], energies)
        return [*parts, scores * weight, scores, scores[:draws].square()]

    rows, columns = fold(shape, measure, count, device=trusted.value.device, kept=kept)
    kinds = group_kinds(trusted.value.shape, trusted.names, trusted.hits)
    sums = [
        regroup(rows, columns, kind, shape=trusted.value.shape, hits=trusted.hits) for kind in kinds
    ]
    found = [_shared(kind, trusted, _judged(views, runs), looked, flat) for kind in kinds]
    sticks = tuple(
        _stick(kind, part, same, trusted)
        for kind, part, same in zip(kinds, sums, found, strict=True)
    )
    gain, bias = _whole(sums[0][:, 0].tolist(), found[0], trusted)
    return Yardsticks(sticks=sticks, gain=gain, bias=bias)


def _judged(views: Sequence[Tensor], runs: Sequence[Tensor]) -> FlatOutput:
    return FlatOutput(
        value=views[0].reshape(-1), scale=views[1].reshape(-1), runs=[r.reshape(-1) for r in runs]
    )


def _shared(
    kind: GroupKind,
    trusted: Trusted,
    whole: FlatOutput,
    looked: Sequence[Tensor],
    flat: Sequence[Tensor],
) -> Shared:
    """Count equal truths, in rows that hold anything only where groups run across rows."""
    shape = trusted.value.shape
    last = kind.axis is not None and len(shape) >= 2 and kind.axis == len(shape) - 1
    if looked[0].numel() == whole.value.numel() or not (last or kind.kind == "tensor"):
        return shared(whole, kind, shape, trusted.hits)
    across = GroupKind(kind="axis", axis=1) if last else kind
    return shared(_judged(looked, flat), across, tuple(looked[0].shape), None)


def _rows(tensors: Sequence[Tensor], kept: Tensor | None) -> list[Tensor]:
    return [tensor if kept is None else tensor[kept] for tensor in tensors]


def _stacked(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Return (several, rows, columns), also of none."""
    return torch.stack(list(parts)) if parts else like.new_empty(0, *like.shape)


def _masked(values: Tensor, mask: Tensor | None) -> Tensor:
    return values if mask is None else torch.where(mask, values, 0.0)


def _stick(kind: GroupKind, sums: Tensor, same: Shared, trusted: Trusted) -> Yardstick:
    terms, own, size2, size4, weight2, weight4, weight1, signal = sums[:_FIXED]
    known = len(trusted.errors)
    runs = len(trusted.deviations) + known
    energies = sums[_FIXED : _FIXED + known]
    gains = sums[_FIXED + known : _FIXED + known + runs]
    biases = sums[_FIXED + known + runs : _FIXED + known + 2 * runs]
    squares = sums[_FIXED + known + 2 * runs :]
    energy = torch.cat([own[None], energies]).amax(0)
    others = (terms - 1.0).clamp_min(0.0)
    enough = terms / (1.0 + others * same.pairs) >= MIN_TERMS
    roundoff = _systematic(trusted)
    weight4 = weight4 / _SMALL**2
    gain_norm, bias_norm = weight2.sqrt(), terms.sqrt()
    gain_room = roundoff * gain_norm
    bias_room = roundoff * weight1 / bias_norm.clamp_min(1.0)
    judge_gain = enough & (_participation(weight2, weight4, same.weight) >= MIN_PARTICIPATION)
    judge_energy = _participation(size2, size4, same.size) >= MIN_PARTICIPATION
    own_of = partial(projection, room=torch.zeros_like(terms))
    gain_own = own_of(gains, torch.where(gain_norm > 0, gain_norm, 1.0))
    bias_own = own_of(biases, torch.where(bias_norm > 0, bias_norm, 1.0))
    gain_trust = _spread(gain_own, 1.0 + others * same.gain, trusted, judge_gain)
    bias_trust = _spread(bias_own, 1.0 + others * same.pairs, trusted, enough)
    return Yardstick(
        kind=kind.kind,
        axis=kind.axis,
        labels=kind.labels,
        count=terms,
        energy=energy,
        signal=signal,
        judge_energy=enough & judge_energy & (energy > 0),
        judge_z=enough,
        common=_common(squares, terms, enough),
        gain_norm=gain_norm,
        gain_room=gain_room,
        gain_trust=gain_trust,
        judge_gain=judge_gain,
        bias_norm=bias_norm,
        bias_room=bias_room,
        bias_trust=bias_trust,
        judge_bias=enough,
    )


def _systematic(trusted: Trusted) -> float:
    """Return the relative error that may go one way everywhere."""
    least = SYSTEMATIC_ROUNDOFFS * trusted.roundoff
    return (max(least, SYSTEMATIC_LOW) if trusted.rounded else least) + trusted.lean


def _common(squares: Tensor, terms: Tensor, judged: Tensor) -> Tensor:
    """Return the largest normalised score of a draw per group, 1 at least.

    Raised for all groups by what leaving one draw out shows (see trust_left_out).
    """
    if not len(squares):
        return torch.ones_like(terms)
    scores = (squares / terms.clamp_min(1.0)).sqrt()

    def largest(of: Tensor) -> Tensor:
        return of.amax(-2).clamp_min(1.0)

    return largest(scores) * by_the_others(scores, largest, judged, LIMIT_Z)


def _participation(second: Tensor, fourth: Tensor, same: Tensor) -> Tensor:
    """Effective number of independent terms: (sum of squares)^2 / sum of fourth powers.

    Terms that share one error add up before they are squared: `same` is their share of pairs.
    """
    return 1.0 / (fourth / torch.where(fourth > 0, second.square(), 1.0) + same).clamp_min(1e-30)


def _spread(own: Tensor, copies: Tensor, trusted: Trusted, judged: Tensor) -> Tensor:
    """Return sqrt((1 + mean of the draws' own P^2) * copies + P_ref^2) from the runs' own P.

    `copies` is by how much errors that occur several times raise the variance of a sum; draws
    err independently everywhere. Where the draws hold the final rounding, their own spread
    replaces the 1 that stands for the candidate's. Raised as `_common` is.
    """
    draws, known = own[: len(trusted.deviations)], own[len(trusted.deviations) :]
    largest = known.square().amax(0) if len(known) else torch.zeros_like(copies)

    def spread(of: Tensor) -> Tensor:
        mean = of.square().mean(-2) if len(of) else torch.zeros_like(copies)
        noise = mean.clamp_min(1.0) if trusted.rounded else 1.0 + mean
        return (noise * copies + largest).sqrt()

    return spread(draws) * by_the_others(draws, spread, judged, LIMIT_P)


def _whole(
    sums: Sequence[float], same: Shared, trusted: Trusted
) -> tuple[TrustedBias, TrustedBias]:
    start = _FIXED + len(trusted.errors)
    runs = len(trusted.deviations) + len(trusted.errors)
    roundoff = _systematic(trusted)

    others = max(sums[0] - 1.0, 0.0)

    def bias(first: int, norm2: float, weight: float, pairs: Tensor) -> TrustedBias:
        middle = first + len(trusted.deviations)
        return TrustedBias(
            draws=tuple(sums[first:middle]),
            known=tuple(sums[middle : first + runs]),
            norm2=norm2,
            room=roundoff * weight,
            copies=others * float(pairs[0]),
        )

    return (
        bias(start, sums[4], sums[4], same.gain),
        bias(start + runs, sums[0], sums[6], same.pairs),
    )
