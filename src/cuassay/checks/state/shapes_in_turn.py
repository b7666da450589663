"""Calls on many shapes in turn: what is made for a shape and thrown away for the next one."""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.checks.base import Trial
from cuassay.checks.state.answers import placed
from cuassay.inputs.geometry import legal, try_sizes
from cuassay.model.case import Case
from cuassay.model.reports import Served
from cuassay.model.scenario import Allocate, ReadResult, Scenario
from cuassay.model.steps import Serve
from cuassay.model.trace import ScenarioResult, done_steps

_AGAIN = 64  # calls on one shape, or as many as fit into their time
_SHAPES_S = 8.0  # of calls on shapes in turn, after which no turn begins
_SLOW_S, _SLOWER = 0.02, 20.0  # a call where shapes come in turn, and times one that comes again


def shapes_in_turn(trial: Trial, base: Case) -> Iterator[Scenario]:
    """Yield calls on many shapes in turn, then on one of them again and again.

    What is made for a shape and thrown away for the next one is made at each call.
    """
    count, problem = trial.effort.shapes_in_turn, trial.problem
    shapes: list[dict[str, int]] = []
    for axis in problem.var_axes():
        for more in range(1, count + 1):
            sizes = try_sizes(problem, base.axes, {axis.name: base.axes[axis.name] + more})
            if sizes is not None and legal(problem, sizes) and sizes not in shapes:
                shapes.append(sizes)
    cases = [placed(base, sizes) for sizes in shapes[:count]]
    if len(cases) < count or not count or trial.settled(cases[0]) is None:
        return
    names = tuple(f"s{number}" for number in range(count))
    turns = Serve(slots=names, count=3 * count, result="turns", budget_s=_SHAPES_S)
    again = Serve(slots=names[:1], count=_AGAIN, result="again", budget_s=trial.effort.serving_s)
    yield Scenario(
        label="many shapes in turn",
        cases=tuple(cases),
        steps=(
            *(Allocate(slot=name, case=number) for number, name in enumerate(names)),
            turns,
            again,
            ReadResult(result=turns.name(0)),
            ReadResult(result=again.name(0)),
        ),
        fresh=True,
    )


def slow_in_turn(scenario: Scenario, result: ScenarioResult) -> str:
    """Return how much longer calls take where many shapes come in turn than where one does.

    Empty where they take about as long.
    """
    served = [
        (step, record.report)
        for step, record in done_steps(scenario, result, Serve)
        if isinstance(record.report, Served)
    ]
    if len(served) != 2 or served[0][0].turn == 1 or not all(one.least_s for _, one in served):
        return ""
    (turns, each), (_, again) = served
    usual_s = sorted(each.least_s)[len(each.least_s) // 2]
    if usual_s < _SLOW_S or usual_s < _SLOWER * again.least_s[0]:
        return ""
    shapes = len(turns.slots)
    return (
        f"a call takes {1e3 * usual_s:.0f} ms where {shapes} shapes come in turn, and "
        f"{1e3 * again.least_s[0]:.2g} ms where one of them comes again"
    )
