"""Cases for calls of several ranks."""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.checks.base import Trial
from cuassay.checks.state.answers import placed
from cuassay.inputs.geometry import legal, try_sizes
from cuassay.model.case import Case
from cuassay.model.ranks import AXIS


def of_each_count(trial: Trial) -> Iterator[Case]:
    """Yield a small case for each number of ranks that the problem declares, fewest first."""
    problem = trial.problem
    if problem.ranks is None:
        return
    base = trial.cases("small")[0]
    counts = next(axis.sizes for axis in problem.var_axes() if axis.name == AXIS)
    for count in counts:
        sizes = try_sizes(problem, base.axes, {AXIS: count})
        if sizes is not None and legal(problem, sizes):
            case = trial.settled(placed(base, sizes))
            if case is not None:
                yield case
