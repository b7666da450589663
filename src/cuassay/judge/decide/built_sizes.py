"""Which sizes that its module is built with a kernel follows.

A kernel that was written for one size of a layer is right by its benchmark, whatever else its
constructor is told. So other sizes than the problem's are judged only where the kernel is right
for those of the small cases, or gives a wrong answer at the problem's own sizes as well: then no
size excuses it, and small ones show in seconds what the layer's own would take minutes for. Which
axes it was written for is found one at a time: a decoder for heads of 64 and 128 takes any batch.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from cuassay.checks.judgement import Answers
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.answers import placed, reads_of
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import legal, try_sizes
from cuassay.judge.domain import BuiltSizesAlone
from cuassay.model.axes import resolve, smallest_workload_axes
from cuassay.model.case import Case

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial


_TILES = (16, 64, 128, 256)  # elements that a block takes of an axis whose listed sizes it divides


def follow_built_sizes(trial: JudgeTrial, run: RunScenario) -> None:
    """Keep axes to the problem's own sizes where the kernel follows no others.

    Tried are the first and the last sizes of the small cases, then the problem's own, then these
    with one axis after another made small.
    """
    if not trial.deterministic_reference:
        return  # answers that chance decides tell nothing of sizes
    own = [case for case in trial.cases("small") if not case.benchmark]
    tried = {tuple(case.axes[name] for name in trial.problem.built): case for case in own}
    cases = list(tried.values())
    for case in (*cases[:1], *cases[1:][-1:]):
        if _answer(trial, case, run, "built with other sizes") is _Answer.RIGHT:
            continue
        problem = trial.problem
        listed = smallest_workload_axes(problem)
        names = [axis.name for axis in problem.var_axes()]
        bound = {name: min(case.axes[name] for case in own) for name in names}
        bound |= {name: listed[name] for name in problem.built}
        home = placed(own[0], resolve(problem.axes, bound))
        right, start = _nearly_home(trial, home, case, run)
        if right is not _Answer.WRONG:
            axes = _not_followed(trial, start, case, run)
            if axes:
                beside = {
                    name: start.axes[name] for name in axes if start.axes[name] != home.axes[name]
                }
                trial.planned.learning.replan(BuiltSizesAlone(axes=axes, beside=beside))
        return


def _nearly_home(
    trial: JudgeTrial, home: Case, small: Case, run: RunScenario
) -> tuple[_Answer, Case]:
    """Return how the kernel answers at the problem's own sizes, with the case that was tried.

    Where truth there takes longer than a workload's may, the axis that makes it long is small: a
    scan of 2,048 steps says no more of a head size than one of 64. The own size of that axis is
    tried where the kernel does not take the small one. Where even that has no room, one tile is:
    kernels often take its multiples alone. A wrong answer there says nothing of the own sizes.
    """
    problem = trial.problem
    if not trial.memory.room.is_affordable(problem, home.axes, workload=True):
        longest = max(problem.built, key=lambda name: home.axes[name] / small.axes[name])
        sizes = try_sizes(problem, home.axes, {longest: small.axes[longest]})
        if sizes is not None and legal(problem, sizes):
            nearly = placed(home, sizes)
            label = f"built as the problem does but for {longest}"
            answer = _answer(trial, nearly, run, label)
            if answer is not _Answer.NONE:
                return answer, nearly
        for tile in _TILES:
            whole = {
                name: tile
                if all(work.axes[name] % tile == 0 for work in problem.workloads)
                else small.axes[name]
                for name in problem.built
            }
            sizes = try_sizes(problem, small.axes, whole)
            if sizes is not None and legal(problem, sizes):
                nearly = placed(small, sizes)
                if _answer(trial, nearly, run, f"built with tiles of {tile}") is _Answer.RIGHT:
                    return _Answer.RIGHT, nearly
    return _answer(trial, home, run, "built as the problem does"), home


def _not_followed(trial: JudgeTrial, home: Case, small: Case, run: RunScenario) -> tuple[str, ...]:
    """Return the axes that the kernel does not follow from their size in `home` to that in `small`.

    All of them where it follows each alone and not together; none where it is at fault.

    One that it follows stays small for the next: what costs most becomes small first. Where the
    problem lists several sizes of an axis, a wrong answer at another one is a fault like any other:
    only a refusal says that the kernel was not written for it.
    """
    problem = trial.problem
    varied = {
        name
        for name in problem.built
        if len({workload.axes[name] for workload in problem.workloads}) > 1
    }
    held: list[str] = []
    faulty = False
    for name in sorted(problem.built, key=lambda name: small.axes[name] / home.axes[name]):
        sizes = try_sizes(problem, home.axes, {name: small.axes[name]})
        if sizes == dict(home.axes):
            continue
        if sizes is None or not legal(problem, sizes):
            continue  # it follows from another axis how small it may be
        tried = placed(home, sizes)
        answer = _answer(trial, tried, run, f"built with another size of {name}")
        if answer is _Answer.RIGHT:
            home = tried
        elif answer is _Answer.WRONG and name in varied:
            faulty = True
        else:
            held.append(name)
    return tuple(held) if held or faulty else problem.built


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
        case, items = reads[0].case, reads[0].items
        if trial.explains(case, ran, items) is not None:
            return _Answer.RIGHT
        # What a kernel returns for sizes that it was not written for is seldom nearly right.
        if trial.comparing.is_gross(case, ran, items):
            return _Answer.WRONG
        found = Answers(trial, ran).wrong(reads[0], closely=True)
        return _Answer.WRONG if found else _Answer.RIGHT
    except CuassayError:
        return _Answer.NONE
