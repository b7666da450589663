"""Whether a kernel follows the sizes that its module is built with.

A kernel that was written for one size of a layer is right by its benchmark, whatever else its
constructor is told. So other sizes than the problem's are judged only where the kernel is right
for those of the small cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.checks.state.answers import reads_of, wrong_outputs
from cuassay.errors import CuassayError
from cuassay.judge.trial import unrecorded
from cuassay.model.case import Case
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial


def follow_built_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep to the problem's own sizes where the kernel fails or is wrong when built with others.

    Tried are the first and the last sizes of the small cases.
    """
    if not trial.deterministic_reference:
        return  # answers that chance decides tell nothing of sizes
    own = [case for case in trial.cases("small") if not case.benchmark]
    tried = {tuple(case.axes[name] for name in trial.problem.built): case for case in own}
    cases = list(tried.values())
    for case in (*cases[:1], *cases[1:][-1:]):
        with unrecorded(trial):
            right = _is_right(trial, case, run)
        if not right:
            trial.keep_built_sizes()
            return


def _is_right(trial: JudgeTrial, case: Case, run: RunScenario) -> bool:
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    scenario = Scenario(label="built with other sizes", cases=(case,), steps=steps)
    ran = run(scenario)
    reads = reads_of(scenario, ran)
    try:
        return bool(reads) and not wrong_outputs(trial, reads[0], ran)
    except CuassayError:
        return False
