"""Power of the inputs used, and the precision grade of the candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CuassayError
from cuassay.model.case import Case
from cuassay.model.verdict import Power, Profile
from cuassay.oracle.compare import compare
from cuassay.oracle.mutants import power

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial

_LIMIT = {Profile.QUICK: 16, Profile.STANDARD: 40, Profile.DEEP: 80}
_CASES = {Profile.QUICK: 4, Profile.STANDARD: 8, Profile.DEEP: 12}
_ELEMENTS = 1 << 22


def measure(trial: JudgeTrial) -> Power | None:
    """Return how many mutants of the reference the trial's cheaper inputs can tell apart.

    None where the reference cannot be mutated (it cannot be lifted).
    """
    cases = _cheap(trial)
    if not cases:
        return None
    judges = [_judge(trial, case) for case in cases]
    inputs = [list(trial.inputs(case).values()) for case in cases]
    try:
        return power(
            trial.reference.call,
            inputs,
            judges,
            trial.problem.outputs,
            limit=_LIMIT[trial.profile],
        )
    except CuassayError:
        return None


def _cheap(trial: JudgeTrial) -> list[Case]:
    """Return distinct cases of the trial small enough to be run once a mutant.

    One of each purpose comes first, so that every kind of input the trial used is represented.
    """
    purposes = [
        [case for case in trial.cases(purpose) if case.in_domain and _volume(case) <= _ELEMENTS]
        for purpose in ("hot", "numeric", "small")
    ]
    found: list[Case] = []
    for rank in range(max(len(cases) for cases in purposes)):
        for cases in purposes:
            if rank < len(cases) and cases[rank] not in found:
                found.append(cases[rank])
    return found[: _CASES[trial.profile]]


def _volume(case: Case) -> int:
    volume = 1
    for size in case.axes.values():
        volume *= max(size, 1)
    return volume


def _judge(trial: JudgeTrial, case: Case) -> Callable[[tuple[torch.Tensor, ...]], bool]:
    truth = trial.truth(case)

    def accepted(outputs: tuple[torch.Tensor, ...]) -> bool:
        pairs = zip(outputs, truth.outputs, strict=True)
        return all(compare(got, want).passed for got, want in pairs)

    return accepted
