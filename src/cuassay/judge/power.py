"""Power of the inputs used, and the precision grade of the candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements
from cuassay.judge.benchmark_rule import affordable, benchmark_case
from cuassay.model.case import Case
from cuassay.model.verdict import Power, Profile
from cuassay.oracle.benchmark_rule import matched_ratio
from cuassay.oracle.compare import compare
from cuassay.oracle.mutants import Implementation, Theirs, power

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial

_LIMIT = {Profile.QUICK: 16, Profile.STANDARD: 40, Profile.DEEP: 80}
_CASES = {Profile.QUICK: 8, Profile.STANDARD: 16, Profile.DEEP: 32}
_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 29}  # of inputs and outputs, run once a mutant


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
            theirs=_theirs(trial),
            names=[spec.name for spec in trial.problem.inputs],
        )
    except CuassayError:
        return None


def _cheap(trial: JudgeTrial) -> list[Case]:
    """Return distinct cases of the trial small enough to be run once a mutant.

    One of each purpose comes first, so that every kind of input the trial used is represented.
    """
    limit = _ELEMENTS["cuda" if trial.device.startswith("cuda") else "cpu"]
    purposes = [
        [
            case
            for case in trial.cases(purpose)
            if case.in_domain and elements(trial.problem, case.axes) <= limit
        ]
        for purpose in ("hot", "numeric", "small")
    ]
    found: list[Case] = []
    for rank in range(max(len(cases) for cases in purposes)):
        for cases in purposes:
            if rank < len(cases) and cases[rank] not in found:
                found.append(cases[rank])
    return found[: _CASES[trial.profile]]


def _judge(trial: JudgeTrial, case: Case) -> Callable[[tuple[torch.Tensor, ...]], bool]:
    truth = trial.truth(case)

    def accepted(outputs: tuple[torch.Tensor, ...]) -> bool:
        pairs = zip(outputs, truth.outputs, strict=True)
        return all(compare(got, want).passed for got, want in pairs)

    return accepted


def _theirs(trial: JudgeTrial) -> Theirs | None:
    """Return whether the benchmark's own inputs and rule accept an implementation.

    On the workload that its rule is evaluated on first; None where that one is too large.
    """
    workload = affordable(trial)[0]
    case = benchmark_case(trial, workload)
    limit = _ELEMENTS["cuda" if trial.device.startswith("cuda") else "cpu"]
    if elements(trial.problem, case.axes) > limit:
        return None
    try:
        inputs = list(trial.inputs(case).values())
        expected = trial.as_written(inputs)
    except CuassayError:
        return None

    def accepts(implementation: Implementation) -> bool:
        pairs = zip(implementation(inputs), expected, strict=True)
        return all(matched_ratio(got, want, workload.tolerance)[0] for got, want in pairs)

    return accepts
