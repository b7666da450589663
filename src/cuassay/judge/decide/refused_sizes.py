"""Whether a kernel takes the sizes of its problem's workloads alone.

Where no size is promised, a kernel may refuse all others. A check that tries no workload's sizes,
because they are large, would then see nothing of it but refusals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.checks.endings.findings import first_raised
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import home_axes, refusal_condition
from cuassay.errors import CuassayError
from cuassay.judge.decide.built_sizes import follow_built_sizes
from cuassay.judge.domain import OwnCasesAlone
from cuassay.model.axes import smallest_workload_axes
from cuassay.model.case import Case

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial


def follow_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep to sizes that the problem has where the kernel is wrong for, or refuses, all others."""
    if trial.problem.built:
        follow_built_sizes(trial, run)
    follow_refused_sizes(trial, run)


def follow_refused_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep to the workloads' sizes where the kernel refuses small ones and takes the former.

    Tried are the first and the last small case, then the smallest workload, if it has room.
    """
    small = [case for case in trial.cases("small") if not case.benchmark]
    condition = refusal_condition(trial.problem, small[0]) if small else ""
    if not condition or home_axes(trial) is not None:
        return
    listed = trial.cases("benchmark")[:1]
    if not listed or dict(listed[0].axes) != smallest_workload_axes(trial.problem):
        return  # it had no room
    refused = all(_refuses(case, run) for case in (*small[:1], *small[1:][-1:]))
    if refused and not _refuses(listed[0], run):
        trial.planned.learning.replan(OwnCasesAlone(condition=condition))


def _refuses(case: Case, run: RunScenario) -> bool:
    try:
        ran = run(single_call(case, label=f"whether it takes {case.label}"))
    except CuassayError:
        return False  # nothing is known of it
    return first_raised(ran) is not None
