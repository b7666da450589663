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

    copies = (terms - 1.0).clamp_min(0.0)  # others in the group: of which some share one error
    enough = terms / (1.0 + copies * same.pairs) >= MIN_TERMS
    spread = _participation(weight2, weight4 / _SMALL**2, same.weight) >= MIN_PARTICIPATION
    energy = torch.cat([own[None], energies]).amax(0)
    even = _participation(size2, size4, same.size) >= MIN_PARTICIPATION
    norm = torch.stack([weight2.sqrt(), terms.sqrt()])
    bias_room = runs.systematic * weight1 / norm[1].clamp_min(1.0)
    whole_norm = torch.where(norm > 0, norm, 1.0)
    shares = (1.0 + copies * same.gain, 1.0 + copies * same.pairs)
    trust = [
        _trust(total.abs() / size, share, runs, judged, sizes)
        for total, size, share, judged in zip(
            (gains, biases), whole_norm, shares, (enough & spread, enough), strict=True
        )
    ]
    base = torch.stack([energy, terms])
    pairs = copies[0] * torch.stack([same.gain[0], same.pairs[0]])
    ends = torch.cat([torch.stack([weight2[0], terms[0], weight1[0]]), pairs])
    numbers = torch.cat([ends, gains[:, 0], biases[:, 0]]).tolist()  # waits for the device once
    (gain2, bias2, bias1, *alike), own_biases = numbers[:5], numbers[5:]

    def bias(found: Sequence[float], norm2: float, weight: float, alike: float) -> TrustedBias:
        room = runs.systematic * weight
        known = tuple(found[draws:])
        return TrustedBias(
            draws=tuple(found[:draws]), known=known, norm2=norm2, room=room, copies=alike
        )

    return Yardsticks(
        kinds=tuple(kinds),
        sizes=tuple(sizes),
        count=terms,
        energy=energy,
        signal=signal,
        base=torch.where(base > 0, base, 1.0),
        common=_common(squares, terms, enough, sizes),
        norm=whole_norm,
        room=torch.stack([runs.systematic * norm[0], bias_room]),
        trust=torch.stack(trust),
        judged=torch.stack([enough & even & (energy > 0), enough, enough & spread, enough]),
        gain=bias(own_biases[:several], gain2, gain2, alike[0]),
        bias=bias(own_biases[several:], bias2, bias1, alike[1]),
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
    errors = [run.reshape(-1) for run in (*runs.deviations, *runs.errors)]
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
    """Return sqrt((1 + mean of the draws' own P^2) * copies + P_ref^2) from the runs' own P.

    `copies` is by how much errors that occur several times raise the variance of a sum; draws
    err independently everywhere. Where the draws hold the final rounding, their own spread
    replaces the 1 that stands for the candidate's. Raised as `_common` is.
    """
    draws, known = own[: len(runs.deviations)], own[len(runs.deviations) :]
    largest = known.square().amax(0) if len(known) else torch.zeros_like(copies)

    def spread(of: Tensor) -> Tensor:
        mean = of.square().mean(-2) if len(of) else torch.zeros_like(copies)
        noise = mean.clamp_min(1.0) if runs.rounded else 1.0 + mean
        return (noise * copies + largest).sqrt()

    return spread(draws) * by_the_others(draws, spread, judged, LIMIT_P, sizes)
