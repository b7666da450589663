"""Exact outputs: integers, bools, and quantised codes that may be one step off at a boundary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.oracle.compare.groups import Statistic, group_name
from cuassay.oracle.truth.codes import FAR, code_steps, count_steps
from cuassay.oracle.truth.types import CodeLimits, OutputTruth

EXACT = "exact"  # what no rounding excuses
CODES = "codes"  # of a quantised output: a rounding before it may move a number to the next one
_WAYS = (
    "codes that differ from truth",
    "codes farther from zero than truth",
    "codes nearer to zero than truth",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult:
    """How many elements differ, and the first (or for codes the farthest) of them."""

    statistics: tuple[Statistic, ...]
    worst: int | None
    differing: int


def judge_exact(candidate: Tensor, truth: OutputTruth) -> ExactResult:
    """Count differing elements outside the ambiguous ones, codes of 8 bits by `judge_codes`.

    Ambiguous places along an axis must still be such as an honest choice can show.
    """
    if truth.codes is not None:
        return judge_codes(candidate, truth.value, truth.codes)
    illegal = judge_choice(candidate, truth)
    if illegal is not None and illegal.differing:
        return illegal
    if candidate.dtype != truth.value.dtype:  # packed pairs are compared as bytes
        candidate = candidate.view(truth.value.dtype)
    wrong = candidate != truth.value
    if truth.ambiguous is not None:
        wrong &= ~truth.ambiguous
    return _counted(wrong, truth.flips_allowed, "elements that differ from the exact answer")


def judge_codes(candidate: Tensor, value: Tensor, limits: CodeLimits) -> ExactResult:
    """Count codes of a quantised output that differ from truth's, by direction and group.

    No code may be farther off than one step, or twice as far as in trusted runs; none may be off at
    all where nothing rounds.
    """
    steps = code_steps(candidate, value)
    counts = count_steps(steps, limits.kinds).cpu()
    steps = steps.abs_()
    far = steps >= FAR
    beyond = steps
    if limits.reach is not None:
        beyond = (steps - (2 * limits.reach - 1).clamp_min_(0)).clamp_min_(0)
    beyond[far] = FAR
    differing, worst = int(counts[0, 0]), None
    if differing:
        worst = int((beyond if bool(beyond.any()) else steps).view(-1).argmax())
    rounds = bool(limits.allowed.any())
    found = [
        _exact(
            float(beyond.max()), 1 if rounds else 0, "code steps between candidate and truth", CODES
        )
    ]
    shares = torch.where(counts > 0, counts / limits.allowed, 0.0)  # infinite where none may
    first = 0
    for kind, size in zip(limits.kinds, limits.sizes, strict=True):
        part = slice(first, first + size)
        for row, which in enumerate(_WAYS):
            place = first + int(shares[row, part].argmax())
            group = which
            if kind.kind != "tensor":
                group += f", {group_name(kind, place - first, value.shape)}"
            value_here, allowed = float(counts[row, place]), float(limits.allowed[row, place])
            found.append(_exact(value_here, allowed, group, CODES))
        first += size
    return ExactResult(statistics=tuple(found), worst=worst, differing=differing)


def judge_choice(candidate: Tensor, truth: OutputTruth) -> ExactResult | None:
    """Count places that no honest choice can show, however its values tie; None for others."""
    if truth.choice is None or truth.codes is not None:
        return None
    group = (
        f"places outside 0 to {truth.choice.bound - 1}, taken twice, or of other values "
        "than those that tie"
    )
    return _counted(truth.choice.illegal(candidate, truth.value), 0, group)


def _exact(value: float, limit: float, group: str, name: str = EXACT) -> Statistic:
    return Statistic(name=name, value=value, limit=limit, group=group)


def _counted(wrong: Tensor, limit: int, group: str) -> ExactResult:
    count = int(wrong.sum())
    worst = int(wrong.reshape(-1).to(torch.int8).argmax()) if count else None
    found = _exact(float(count), float(limit), group)
    return ExactResult(statistics=(found,), worst=worst, differing=count)
