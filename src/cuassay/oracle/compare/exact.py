"""Exact outputs: integers, bools, and quantised codes that may be one step off at a boundary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.oracle import special
from cuassay.oracle.compare.groups import Statistic
from cuassay.oracle.truth.types import OutputTruth

_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult:
    """How many elements differ, and the first (or for codes the farthest) of them."""

    statistics: tuple[Statistic, ...]
    worst: int | None
    differing: int


def judge_exact(candidate: Tensor, truth: OutputTruth) -> ExactResult:
    """Count differing elements outside the ambiguous ones.

    Ambiguous places along an axis must still be such as an honest choice can show.

    Quantised outputs (8-bit floats and integers): no code may be more than one step off, and
    no more than `flips_allowed` may be one step off: as many as trusted runs showed, with room.
    """
    if truth.quantised:
        got, want = candidate.reshape(-1), truth.value.reshape(-1)
        steps, farthest, worst = 0, 0, None
        for start in range(0, want.numel(), _CHUNK):
            mine, theirs = got[start : start + _CHUNK], want[start : start + _CHUNK]
            distance = (special.ordered_codes(mine) - special.ordered_codes(theirs)).abs()
            distance[torch.isnan(mine.float()) & torch.isnan(theirs.float())] = 0
            distance[special.classes(mine.float()) != special.classes(theirs.float())] = 255
            steps += int((distance > 0).sum())
            largest = int(distance.max())
            if largest > farthest:
                farthest, worst = largest, start + int(distance.argmax())
        allowed = truth.flips_allowed
        found = (
            _exact(farthest, 1 if allowed else 0, "code steps between candidate and truth"),
            _exact(steps, allowed, "codes that differ from truth"),
        )
        return ExactResult(statistics=found, worst=worst, differing=steps)
    illegal = judge_choice(candidate, truth)
    if illegal is not None and illegal.differing:
        return illegal
    if candidate.dtype != truth.value.dtype:  # packed pairs are compared as bytes
        candidate = candidate.view(truth.value.dtype)
    wrong = candidate != truth.value
    if truth.ambiguous is not None:
        wrong &= ~truth.ambiguous
    return _counted(wrong, truth.flips_allowed, "elements that differ from the exact answer")


def judge_choice(candidate: Tensor, truth: OutputTruth) -> ExactResult | None:
    """Count places that no honest choice can show, however its values tie; None for others."""
    if truth.choice is None or truth.quantised:
        return None
    group = (
        f"places outside 0 to {truth.choice.bound - 1}, taken twice, or of other values "
        "than those that tie"
    )
    return _counted(truth.choice.illegal(candidate, truth.value), 0, group)


def _exact(value: int, limit: int, group: str) -> Statistic:
    return Statistic(name="exact", value=float(value), limit=float(limit), group=group)


def _counted(wrong: Tensor, limit: int, group: str) -> ExactResult:
    count = int(wrong.sum())
    worst = int(wrong.reshape(-1).to(torch.int8).argmax()) if count else None
    return ExactResult(statistics=(_exact(count, limit, group),), worst=worst, differing=count)
