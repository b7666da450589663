"""Whether a kernel takes the sizes of its problem's workloads alone.

Where no size is promised, a kernel may refuse all others. A check that tries no workload's sizes,
because they are large, would then see nothing of it but refusals.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from cuassay.checks.endings.findings import first_raised
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import home_axes, refusal_condition
from cuassay.errors import CuassayError
from cuassay.judge.decide.built_sizes import follow_built_sizes
from cuassay.judge.domain import OwnCasesAlone
from cuassay.model.axes import resolve, smallest_workload_axes
from cuassay.model.case import Case

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial

_TAKES_S = 20.0  # a call that has not raised by then is taken


def follow_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep to sizes that the problem has where the kernel is wrong for, or refuses, all others."""
    if trial.problem.built:
        follow_built_sizes(trial, run)
    follow_refused_sizes(trial, run)


def follow_refused_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep to the workloads' sizes where the kernel refuses small ones.

    Tried are the first and the last small case, then the smallest workload. Where that is refused
    too, the refusal is what checks have to see. Where it is taken, it is judged if it has room.
    """
    small = [case for case in trial.cases("small") if not case.benchmark]
    condition = refusal_condition(trial.problem, small[0]) if small else ""
    if not condition or home_axes(trial) is not None:
        return
    listed = next(iter(trial.cases("benchmark")), None)
    has_room = listed is not None and dict(listed.axes) == smallest_workload_axes(trial.problem)
    if not has_room:  # for its truth, which a refusal does not need
        problem = trial.problem
        sizes = smallest_workload_axes(problem)
        workload = next(w for w in problem.workloads if resolve(problem.axes, w.axes) == sizes)
        case = Case(
            label=f"workload {workload.id}",
            axes=sizes,
            scalars=problem.usual_state,
            seed=trial.seed("refused", workload.id),
            benchmark=True,
            workload=workload.id,
        )
        listed = case if trial.has_room(case, truth=False) else None
    if listed is None:
        return
    if not all(_refuses(case, run) for case in (*small[:1], *small[1:][-1:])):
        return
    if _refuses(listed, run):
        trial.planned.learning.replan(OwnCasesAlone())
    elif has_room:
        trial.planned.learning.replan(OwnCasesAlone(condition=condition))


def _refuses(case: Case, run: RunScenario) -> bool:
    """Whether a call raises; one that goes on for long does not."""
    scenario = single_call(case, label=f"whether it takes {case.label}")
    try:
        ran = run(dataclasses.replace(scenario, timeout_s=min(scenario.timeout_s, _TAKES_S)))
    except CuassayError:
        return False  # nothing is known of it
    return first_raised(ran) is not None
