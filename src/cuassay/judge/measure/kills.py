"""Which mutants which cases tell from the reference: cases outside, mutants inside."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cuassay.errors import CannotJudgeError, CuassayError, DeviceLostError, LiftError
from cuassay.formats.kernelbench.adapter import BUILT
from cuassay.inputs.regimes import usual_scalar
from cuassay.model.case import Case
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.problem import STATE_SOURCE, Scalar, ScalarSpec
from cuassay.oracle.compare.outputs import Comparison, compare
from cuassay.oracle.grade import least_family
from cuassay.oracle.mutants.detect import CANNOT_RUN, Mutant, Outputs, mutants_of, right_answer

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial

MARGIN = 1.25  # a kill below this share of the limit may be luck of the seed


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseKills:
    """What one case made of some mutants, by their number.

    `ran` could run, `differs` gave other bits than the reference in float64, `killed` was told
    apart with this share of the limit (above 1), `excused` by the strict family alone: a wider one
    of the problem's policy explains it.
    """

    case: Case
    ran: frozenset[int] = frozenset()
    differs: frozenset[int] = frozenset()
    killed: Mapping[int, float] = field(default_factory=dict)
    excused: Mapping[int, Precision] = field(default_factory=dict)

    @property
    def surely_killed(self) -> frozenset[int]:
        """The mutants that this case would tell apart under any seed."""
        return frozenset(n for n, share in self.killed.items() if share >= MARGIN)


def all_mutants(
    trial: JudgeTrial, cases: Sequence[Case], *, suspects: bool = False
) -> list[Mutant]:
    """Return every mutant of the trial's reference, found on the first of `cases`.

    The others serve as earlier calls. With `suspects` there are those that only a diagnosis asks
    for too. Raises ReferenceError_ where the reference fails.
    """
    problem = trial.problem
    return mutants_of(
        trial.reference.call,
        [list(trial.inputs(case).values()) for case in cases[:2]],
        problem.outputs,
        names=[spec.name for spec in problem.inputs],
        usual=usual_scalars(trial),
        suspects=suspects,
        # What cuassay itself passes: how a module is built, and whose state it has.
        fixed=[
            spec.name
            for spec in problem.inputs
            if spec.name.startswith(BUILT) or spec.name == STATE_SOURCE
        ],
    )


def usual_scalars(trial: JudgeTrial) -> dict[str, Scalar]:
    """Return what the first workload passes for every scalar."""
    workload = next(iter(trial.problem.workloads), None)
    return {
        spec.name: usual_scalar(spec, workload, seed=0)
        for spec in trial.problem.inputs
        if isinstance(spec, ScalarSpec)
    }


def try_case(trial: JudgeTrial, case: Case, mutants: Mapping[int, Mutant]) -> CaseKills:
    """Run some mutants on one case. A case that decides nothing tells no mutant apart.

    Truth is made only where some mutant gives other bits than the reference. Raises
    DeviceLostError where a mutant left the GPU unusable.
    """
    ran, differs, killed, excused = set(), set(), {}, {}
    try:
        inputs = list(trial.inputs(case).values())
        # The reference in float64, rounded; None where it cannot be lifted
        try:
            right = right_answer(trial.reference.call, trial.problem.outputs)(inputs)
        except LiftError:
            right = None
        for number, mutant in mutants.items():
            # What the mutant gives, one a declared output; None where it cannot run
            try:
                outputs = mutant.run(inputs)
            except CANNOT_RUN as error:
                # Raise DeviceLostError where a failure took the GPU's context with it
                if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                    try:
                        torch.cuda.synchronize()
                    except RuntimeError:
                        raise DeviceLostError(
                            f"the GPU's context was lost to a mutant: {error}"
                        ) from None
                outputs = None
            if outputs is None:
                continue
            ran.add(number)
            if right is not None and all(map(_same, outputs, right)):
                continue
            differs.add(number)
            share, family = _policy_share(trial, case, outputs)
            if share > 1.0:
                killed[number] = share
            elif family is not Precision.STRICT:
                excused[number] = family
    except DeviceLostError:
        raise
    except CuassayError:
        return CaseKills(case=case)
    return CaseKills(
        case=case,
        ran=frozenset(ran),
        differs=frozenset(differs),
        killed=killed,
        excused=excused,
    )


def _same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether two outputs are equal, element by element; NaN equals NaN."""
    if got.shape != want.shape or got.dtype is not want.dtype:
        return False
    equal = (got == want) | ((got != got) & (want != want))
    return bool(equal.all())


def try_cases(
    trial: JudgeTrial,
    cases: Iterable[Case],
    mutants: Mapping[int, Mutant],
    *,
    until_killed: bool = False,
    deadline: float | None = None,
) -> tuple[list[CaseKills], bool]:
    """Run mutants on cases; return what each case saw, and whether time ran out before the end.

    With `until_killed` a mutant that was told apart is not run again. `deadline` is a time of
    the monotonic clock in seconds.
    """
    left = dict(mutants)
    found: list[CaseKills] = []
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


def _policy_share(trial: JudgeTrial, case: Case, outputs: Outputs) -> tuple[float, Precision]:
    """Return the worst share of the limit under the problem's policy, and the family it is of.

    That is the least family that explains the outputs, found as a kernel's is: what the widest
    rejects needs truths of no lesser one. The trial keeps their truths. A share above 1 fails.
    """
    families = policy_of(trial.problem).families
    share, widest = 0.0, Precision.STRICT
    if len(outputs) != len(trial.problem.outputs):
        return share, widest
    for number, got in enumerate(outputs):

        def in_family(family: Precision, number: int = number, got: Tensor = got) -> Comparison:
            truth = trial.truth(case, family)
            output = truth.outputs[number]
            if truth.ill_conditioned:  # it tells nothing apart
                return Comparison(output=output.name, passed=True, share=0.0)
            found = compare(got, output)
            most = min(found.share, 1.0) if found.passed else max(found.share, 1.0001)
            return replace(found, share=most)

        try:
            found = least_family(in_family(Precision.STRICT), in_family, families)
        except (CannotJudgeError, ValueError):
            return 0.0, Precision.STRICT
        share = max(share, found.share)
        widest = max(widest, found.precision, key=tuple(Precision).index)
    return share, widest
