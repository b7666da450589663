"""Which mutants which cases tell from the reference: cases outside, mutants inside."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.inputs.regimes import usual_scalar
from cuassay.model.case import Case
from cuassay.model.problem import Scalar, ScalarSpec
from cuassay.oracle.compare import compare
from cuassay.oracle.mutants import CANNOT_RUN, Mutant, Outputs, mutants_of

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial
    from cuassay.oracle.trust import Truth

_MARGIN = 1.25  # a kill below this share of the limit may be luck of the seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one case made of some mutants, by their number.

    `ran` could run, `differs` gave other bits than the truth rounded, `killed` was told apart
    with this share of the limit (above 1).
    """

    case: Case
    ran: frozenset[int] = frozenset()
    differs: frozenset[int] = frozenset()
    killed: Mapping[int, float] = field(default_factory=dict)

    @property
    def surely_killed(self) -> frozenset[int]:
        """The mutants that this case would tell apart under any seed."""
        return frozenset(n for n, share in self.killed.items() if share >= _MARGIN)


def all_mutants(trial: JudgeTrial, cases: Sequence[Case]) -> list[Mutant]:
    """Return every mutant of the trial's reference, found on the first of `cases`.

    The others serve as earlier calls. Raises ReferenceError_ where the reference fails.
    """
    problem = trial.problem
    return mutants_of(
        trial.reference.call,
        [list(trial.inputs(case).values()) for case in cases[:2]],
        problem.outputs,
        names=[spec.name for spec in problem.inputs],
        usual=usual_scalars(trial),
    )


def usual_scalars(trial: JudgeTrial) -> dict[str, Scalar]:
    """Return what the first workload passes for every scalar."""
    workload = next(iter(trial.problem.workloads), None)
    return {
        spec.name: usual_scalar(spec, workload, seed=0)
        for spec in trial.problem.inputs
        if isinstance(spec, ScalarSpec)
    }


def try_case(trial: JudgeTrial, case: Case, mutants: Mapping[int, Mutant]) -> Tried:
    """Run some mutants on one case. A case that decides nothing tells no mutant apart."""
    try:
        inputs = list(trial.inputs(case).values())
        truth = trial.truth(case)
    except CuassayError:
        return Tried(case=case)
    ran, differs, killed = set(), set(), {}
    for number, mutant in mutants.items():
        try:
            outputs = mutant.run(inputs)
        except CANNOT_RUN:
            continue
        ran.add(number)
        if _same_as_truth(outputs, truth):
            continue
        differs.add(number)
        share = _share(outputs, truth)
        if share > 1.0 and not truth.ill_conditioned:
            killed[number] = share
    return Tried(case=case, ran=frozenset(ran), differs=frozenset(differs), killed=killed)


def try_cases(
    trial: JudgeTrial,
    cases: Iterable[Case],
    mutants: Mapping[int, Mutant],
    *,
    until_killed: bool = False,
    deadline: float | None = None,
) -> tuple[list[Tried], bool]:
    """Run mutants on cases; return what each case saw, and whether time ran out before the end.

    With `until_killed` a mutant that was told apart is not run again. `deadline` is a time of
    the monotonic clock in seconds.
    """
    left = dict(mutants)
    found: list[Tried] = []
    for case in cases:
        if not left:
            break
        if deadline is not None and time.monotonic() > deadline:
            return found, True
        tried = try_case(trial, case, left)
        found.append(tried)
        if until_killed:
            left = {n: m for n, m in left.items() if n not in tried.killed}
    return found, False


def _same_as_truth(outputs: Outputs, truth: Truth) -> bool:
    """Whether the outputs are truth rounded, element by element: nothing to judge then."""
    if len(outputs) != len(truth.outputs):
        return False
    for got, want in zip(outputs, truth.outputs, strict=True):
        value = want.value.to(got.dtype)
        if got.shape != value.shape or not bool(((got == value) | (got != got)).all()):
            return False
        if got.is_floating_point() and bool((got.isnan() != value.isnan()).any()):
            return False
    return True


def _share(outputs: Outputs, truth: Truth) -> float:
    """Return the worst share of the limit over all outputs; above 1 fails."""
    try:
        found = [compare(o, t) for o, t in zip(outputs, truth.outputs, strict=True)]
    except (CannotJudgeError, ValueError):
        return 0.0
    shares = [max(c.share, 1.0001) if not c.passed else min(c.share, 1.0) for c in found]
    return max(shares, default=0.0)
