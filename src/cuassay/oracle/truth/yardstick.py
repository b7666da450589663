"""What trusted runs achieve per group: the denominators that candidates are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

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
    regroup,
)
from cuassay.oracle.compare.sums import CLIP_P, fold, matrix_shape
from cuassay.oracle.truth.left_out import by_the_others
from cuassay.oracle.truth.scale import Runs, Scale
from cuassay.oracle.truth.shared import FlatOutput, Shared, shared
from cuassay.oracle.truth.types import TrustedBias, Yardsticks

_SMALL = 2.0**-24  # keeps fourth powers of weights (up to 2**25) within float32


def yardsticks(
    runs: Runs,
    scale: Scale,
    names: Sequence[str],
    hits: Tensor | None,
    *,
    unit: float,
    least: float = 0.0,
) -> Yardsticks:
    """Sum truth's and the trusted runs' quantities over every group, in chunks.

    `names` are those of the output's axes; `unit` and `least` as in OutputTruth.
    """
    shape, kept = runs.value.shape, scale.rows
    kinds, draws = group_kinds(shape, names, hits), len(runs.deviations)
    known = draws + len(runs.errors)
    full = _flat(runs, scale)
    # elements without any scale add nothing to any sum
    live = full if kept is None else _flat(runs.at(kept), scale.at(kept))
    noise = scale.noise if kept is None else scale.noise[kept]
    matrix = matrix_shape(shape, hits is not None)
    rows, columns = _fold(live, noise, matrix, kept, draws=draws, unit=unit, least=least)
    sums = [regroup(rows, columns, kind, shape=shape, hits=hits) for kind in kinds]
    sizes = [part.shape[1] for part in sums]
    several = len(live.runs)
    widths = [7, 1, several - draws, several, several, draws]  # as `_fold` stacks them
    fixed, (signal,), energies, gains, biases, squares = torch.split(torch.cat(sums, 1), widths)
    terms, own, size2, size4, weight2, weight4, weight1 = fixed
    same = _shared(kinds, full, live, shape, hits)

    # How many others in a group share an element's error, on average.
    others = (terms - 1.0).clamp_min(0.0)
    copies = others * torch.stack([same.gain, same.pairs])
    enough = terms / (1.0 + others * same.pairs) >= MIN_TERMS
    even = _participation(size2, size4, same.size) >= MIN_PARTICIPATION
    spread = _participation(weight2, weight4 / _SMALL**2, same.weight) >= MIN_PARTICIPATION
    energy = torch.cat([own[None], energies]).amax(0)
    judged = torch.stack([enough & even & (energy > 0), enough, enough & spread, enough])

    # Gain and bias side by side: weights t/s and 1, their sums and the projections on them.
    square, length = torch.stack([weight2, terms]), torch.stack([weight2, weight1])
    ways, norm = torch.stack([gains, biases]), square.sqrt()
    of_truth = runs.systematic  # of every element's size, one way everywhere
    room = torch.stack([of_truth * norm[0], of_truth * weight1 / norm[1].clamp_min(1.0)])
    divisor = torch.where(norm > 0, norm, 1.0)
    trust = [
        _trust(way.abs() / by, 1.0 + alike, runs, counted, sizes)
        for way, by, alike, counted in zip(ways, divisor, copies, judged[2:], strict=True)
    ]
    whole = torch.cat([torch.stack([square, length, copies], 1)[..., 0], ways[..., 0]], 1)
    gain, bias = (
        TrustedBias(
            draws=tuple(found[:draws]),
            known=tuple(found[draws:known]),
            members=tuple(found[known:]),
            norm2=norm2,
            room=of_truth * weight,
            copies=alike,
        )
        for norm2, weight, alike, *found in whole.tolist()
    )
    base = torch.stack([energy, terms])
    return Yardsticks(
        kinds=tuple(kinds),
        sizes=tuple(sizes),
        count=terms,
        energy=energy,
        signal=signal,
        base=torch.where(base > 0, base, 1.0),
        common=_common(squares, terms, enough, sizes),
        norm=divisor,
        room=room,
        trust=torch.stack(trust),
        judged=judged,
        gain=gain,
        bias=bias,
    )


def _fold(
    live: FlatOutput,
    noise: Tensor,
    shape: tuple[int, int],
    kept: Tensor | None,
    *,
    draws: int,
    unit: float,
    least: float,
) -> tuple[Tensor, Tensor]:
    """Return sums over columns and over rows of what yardsticks are made of (see `fold`)."""
    width = (-1, shape[1])
    values, scale, noise = (t.reshape(width) for t in (live.value, live.scale, noise))
    runs = [run.view(width) for run in live.runs]
    per_unit = 1.0 / unit

    def measure(r: slice, c: slice) -> list[Tensor]:
        value, size = (one[r, c] for one in (values, scale))
        inverse = size.reciprocal()
        mask: Tensor | None = None
        if not (least > 0 or (bool(size.amin() > 0) and special.all_finite(value))):
            mask = torch.isfinite(value) & (size > 0)
            value, inverse = (torch.where(mask, t, 0.0) for t in (value, inverse))

        def units(error: Tensor) -> Tensor:
            found = (error * per_unit).float()
            return found if mask is None else torch.where(mask, found, 0.0)

        def stacked(several: Sequence[Tensor]) -> Tensor:
            return torch.stack(list(several)) if several else weight.new_empty(0, *weight.shape)

        weight = (value * inverse).float()
        square, size2 = weight.square(), units(size).square_()
        own, small = units(noise[r, c]).square_(), square * _SMALL
        count = torch.ones_like(weight) if mask is None else mask.float()
        fixed = [count, own, size2, size2.square(), square, small.square_(), weight.abs()]
        errors = [run[r, c] for run in runs]
        scores = stacked([e.float() for e in errors]).mul_(inverse.float()).clamp_(-CLIP_P, CLIP_P)
        energies = stacked([units(e) for e in errors[draws:]]).square_()
        signal = value.square()[None]
        squares = scores[:draws].square()
        return [torch.stack(fixed), signal, energies, scores * weight, scores, squares]

    count = 8 + 3 * len(runs)
    return fold(shape, measure, count, device=values.device, kept=kept)


def _flat(runs: Runs, scale: Scale) -> FlatOutput:
    errors = [run.reshape(-1) for run in (*runs.deviations, *runs.errors, *runs.members)]
    return FlatOutput(value=runs.value.reshape(-1), scale=scale.full.reshape(-1), runs=errors)


def _shared(
    kinds: Sequence[GroupKind],
    full: FlatOutput,
    view: FlatOutput,
    shape: Sequence[int],
    hits: Tensor | None,
) -> Shared:
    """Count equal truths, in rows that hold anything (`view`) where groups run across rows."""
    if view is full:
        return shared(full, kinds, shape, hits)
    columns = GroupKind(kind="axis", axis=1)
    live = (view.value.numel() // shape[1], shape[1])
    parts = [
        shared(view, [columns if kind.kind == "axis" else kind], live, None)
        if kind.kind == "tensor" or (kind.kind == "axis" and kind.axis == 1)
        else shared(full, [kind], shape, hits)
        for kind in kinds
    ]
    return Shared(*(torch.cat([getattr(p, one.name) for p in parts]) for one in fields(Shared)))


def _common(squares: Tensor, terms: Tensor, judged: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the largest normalised score of a draw per group, 1 at least.

    Raised for all groups of a kind by what leaving one draw out shows (see `left_out`).
    """
    if not len(squares):
        return torch.ones_like(terms)
    scores = (squares / terms.clamp_min(1.0)).sqrt()

    def largest(of: Tensor) -> Tensor:
        return of.amax(-2).clamp_min(1.0)

    return largest(scores) * by_the_others(scores, largest, judged, LIMIT_Z, sizes)


def _participation(second: Tensor, fourth: Tensor, same: Tensor) -> Tensor:
    """Effective number of independent terms: (sum of squares)^2 / sum of fourth powers.

    Terms that share one error add up before they are squared: `same` is their share of pairs.
    """
    return 1.0 / (fourth / torch.where(fourth > 0, second.square(), 1.0) + same).clamp_min(1e-30)


def _trust(own: Tensor, copies: Tensor, runs: Runs, judged: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return sqrt((1 + mean of the runs' own P^2) * copies + P_ref^2) from the runs' own P.

    The mean is that of draws and of the family's programs, whose errors may be one where those of
    draws are independent. `copies` is by how much errors that occur several times raise the
    variance of a sum; draws err independently everywhere. Where the draws hold the final rounding,
    their own spread replaces the 1 that stands for the candidate's. Raised as `_common` is.
    """
    sizes_of = [len(runs.deviations), len(runs.errors), len(runs.members)]
    draws, known, members = torch.split(own, sizes_of)
    largest = known.square().amax(0) if len(known) else torch.zeros_like(copies)
    programs = members.square().sum(0)

    def spread(of: Tensor) -> Tensor:
        count = of.shape[-2] + len(members)
        mean = (of.square().sum(-2) + programs) / max(count, 1)
        noise = mean.clamp_min(1.0) if runs.rounded else 1.0 + mean
        return (noise * copies + largest).sqrt()

    return spread(draws) * by_the_others(draws, spread, judged, LIMIT_P, sizes)
