"""Whether a kernel follows the sizes that its module is built with.

A kernel that was written for one size of a layer is right by its benchmark, whatever else its
constructor is told. So other sizes than the problem's are judged only where the kernel is right
for those of the small cases, or gives a wrong answer at the problem's own sizes as well: then no
size excuses it, and small ones show in seconds what the layer's own would take minutes for.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from cuassay.checks.judgement import Answers
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.answers import placed, reads_of
from cuassay.errors import CuassayError
from cuassay.judge.domain import BuiltSizesAlone
from cuassay.model.axes import resolve
from cuassay.model.case import Case

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial


def follow_built_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep to the problem's own sizes where the kernel is wrong when built with others alone.

    Tried are the first and the last sizes of the small cases, then the problem's own.
    """
    if not trial.deterministic_reference:
        return  # answers that chance decides tell nothing of sizes
    own = [case for case in trial.cases("small") if not case.benchmark]
    tried = {tuple(case.axes[name] for name in trial.problem.built): case for case in own}
    cases = list(tried.values())
    for case in (*cases[:1], *cases[1:][-1:]):
        if _answer(trial, case, run, "built with other sizes") is _Answer.RIGHT:
            continue
        problem, listed = trial.problem, trial.problem.workloads[0].axes
        names = [axis.name for axis in problem.var_axes()]
        bound = {name: min(case.axes[name] for case in own) for name in names}
        bound |= {name: listed[name] for name in problem.built}
        as_built = _answer(
            trial,
            placed(own[0], resolve(problem.axes, bound)),
            run,
            "built as the problem does",
        )
        if as_built is not _Answer.WRONG:
            trial.planned.learning.replan(BuiltSizesAlone())
        return


class _Answer(enum.Enum):
    RIGHT = enum.auto()
    WRONG = enum.auto()
    NONE = enum.auto()  # it failed, or cannot be judged


def _answer(trial: JudgeTrial, case: Case, run: RunScenario, label: str) -> _Answer:
    scenario = single_call(case, label=label)
    try:
        ran = run(scenario)
        reads = reads_of(scenario, ran)
        if not reads:
            return _Answer.NONE
        return _Answer.WRONG if Answers(trial, ran).wrong(reads[0]) else _Answer.RIGHT
    except CuassayError:
        return _Answer.NONE
