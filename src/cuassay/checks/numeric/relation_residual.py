"""How far a law is from holding: exactly on the reference, within the achievable on a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.numeric.relation_laws import Law, applied

if TYPE_CHECKING:
    from torch import Tensor

    from cuassay.oracle.truth.types import OutputTruth

_EXACT = 1e-9  # relative residual of a law on float64 answers: far above rounding, far below a
# law that fails, an epsilon of 1e-6 beside a mean square of 1 included
_EXACT_FLOOR = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """The worst element (`peak`) and the energy of a law's residual over the achievable error.

    `index` is where the worst one is, `value` the residual there.
    """

    peak: float
    energy: float
    index: tuple[int, ...]
    value: float


def holds_exactly(law: Law, answers: Sequence[Sequence[Tensor]]) -> bool:
    """Whether a law holds on float64 answers (member, output) to within float64 rounding."""
    import torch

    values = [applied(term, answers[term.member][law.output].double()) for term in law.terms]
    if len({tuple(value.shape) for value in values}) > 1:
        return False
    total = torch.full_like(values[0], -law.constant)
    size = torch.full_like(values[0], abs(law.constant))
    for term, value in zip(law.terms, values, strict=True):
        total += term.coefficient * value
        size += abs(term.coefficient) * value.abs()
    if not bool(torch.isfinite(size).all()):
        return False
    floor = _EXACT_FLOOR * float(size.amax()) if size.numel() else 0.0
    return bool((total.abs() <= _EXACT * size + floor).all())


def residual(
    law: Law, got: Mapping[int, Tensor], truths: Mapping[int, OutputTruth]
) -> Residual | None:
    """Return how far a law is from holding on a kernel's answers, by member.

    Left out are elements that are not finite, ambiguous, or differ by no more than what may be
    flushed to zero. None where nothing is left to judge, or answers are exact values.
    """
    import torch

    from cuassay.oracle import special

    if any(truths[term.member].scale is None for term in law.terms):
        return None
    total: Tensor | float = -law.constant
    square: Tensor | float = 0.0
    usable: Tensor | None = None
    free = 0.0
    for term in law.terms:
        truth, value = truths[term.member], got[term.member].double()
        assert truth.scale is not None
        value = value.to(truth.value.device)
        good = torch.isfinite(value) & torch.isfinite(truth.value) & (truth.scale >= 0)
        scale = truth.scale.abs().double()
        bad = applied(term, torch.where(good, 0.0, 1.0)) > 0
        usable = ~bad if usable is None else usable & ~bad
        total = total + term.coefficient * applied(term, torch.where(good, value, 0.0))
        # Errors of a slice may be one error (a normaliser): they add up, not in quadrature.
        square = square + (term.coefficient * applied(term, scale)) ** 2
        free += abs(term.coefficient) * special.flush_threshold(truth.dtype)
    assert usable is not None
    assert isinstance(total, torch.Tensor)
    assert isinstance(square, torch.Tensor)
    yardsticks = [truths[term.member].yardsticks for term in law.terms]
    # How far trusted errors of these outputs move together
    common = max([1.0, *(float(one.common[0]) for one in yardsticks if one is not None)])
    judged = usable & (total.abs() > free)
    import torch

    from cuassay.oracle.compare.groups import MIN_PARTICIPATION, MIN_TERMS, unravel

    if not bool(judged.any()):
        return None
    off = torch.where(judged, total, 0.0)
    relative = (off.abs() / square.sqrt()).nan_to_num(0.0, posinf=math.inf)
    flat = int(relative.reshape(-1).argmax())
    index = unravel(flat, off.shape)
    energy = 0.0
    whole, spread = float(square.sum()), float(square.square().sum())
    enough = spread > 0 and whole**2 / spread >= MIN_PARTICIPATION
    if square.numel() >= MIN_TERMS and enough:
        energy = math.sqrt(float(off.square().sum()) / whole) / common
    return Residual(
        peak=float(relative.reshape(-1)[flat]),
        energy=energy,
        index=index,
        value=float(off[index]),
    )
