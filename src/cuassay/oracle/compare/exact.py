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
    """Count differing elements outside the ambiguous ones, chunk by chunk.

    Ambiguous places along an axis must still be such as an honest choice can show.

    Quantised outputs (8-bit floats and integers): no code may be more than one step off, and
    no more than `flips_allowed` may be one step off: as many as trusted runs showed, with room.
    """
    if truth.quantised:
        return _judge_codes(candidate, truth)
    illegal = judge_choice(candidate, truth)
    if illegal is not None and illegal.differing:
        return illegal
    if candidate.dtype != truth.value.dtype:  # packed pairs are compared as bytes
        candidate = candidate.view(truth.value.dtype)
    got, want = candidate.reshape(-1), truth.value.reshape(-1)
    flags = None if truth.ambiguous is None else truth.ambiguous.reshape(-1)
    count, worst = 0, None
    for start in range(0, want.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        wrong = got[part] != want[part]
        if flags is not None:
            wrong &= ~flags[part]
        count += int(wrong.sum())
        if worst is None and bool(wrong.any()):
            worst = start + int(wrong.to(torch.int8).argmax())
    statistic = Statistic(
        name="exact",
        value=float(count),
        limit=float(truth.flips_allowed),
        group="elements that differ from the exact answer",
    )
    return ExactResult(statistics=(statistic,), worst=worst, differing=count)


def judge_choice(candidate: Tensor, truth: OutputTruth) -> ExactResult | None:
    """Count places that no honest choice can show, however its values tie; None for others."""
    if truth.choice is None or truth.quantised:
        return None
    wrong = truth.choice.illegal(candidate, truth.value)
    count = int(wrong.sum())
    statistic = Statistic(
        name="exact",
        value=float(count),
        limit=0.0,
        group=f"places outside 0 to {truth.choice.bound - 1}, taken twice, or of other values "
        "than those that tie",
    )
    worst = int(wrong.reshape(-1).to(torch.int8).argmax()) if count else None
    return ExactResult(statistics=(statistic,), worst=worst, differing=count)


def _judge_codes(candidate: Tensor, truth: OutputTruth) -> ExactResult:
    got, want = candidate.reshape(-1), truth.value.reshape(-1)
    steps, farthest, worst, classes = 0, 0, None, 0
    for start in range(0, want.numel(), _CHUNK):
        mine, theirs = got[start : start + _CHUNK], want[start : start + _CHUNK]
        odd = special.classes(mine.float()) != special.classes(theirs.float())
        classes += int(odd.sum())
        distance = (special.ordered_codes(mine) - special.ordered_codes(theirs)).abs()
        distance[torch.isnan(mine.float()) & torch.isnan(theirs.float())] = 0
        distance[odd] = 255
        steps += int((distance > 0).sum())
        largest = int(distance.max())
        if largest > farthest:
            farthest, worst = largest, start + int(distance.argmax())
    found = (
        Statistic(
            name="exact",
            value=float(farthest),
            limit=1.0 if truth.flips_allowed else 0.0,
            group="code steps between candidate and truth",
        ),
        Statistic(
            name="exact",
            value=float(steps),
            limit=float(truth.flips_allowed),
            group="codes that differ from truth",
        ),
    )
    return ExactResult(statistics=found, worst=worst, differing=steps)
