"""Each size of an axis in turn: what is wrong at few sizes alone is met where none is left out.

A table that one remainder finds, an edge that rounding puts one short, an order that repeats where
two numbers share a divisor: nothing tells such a size from those beside it. The other axes are
small, so that a call costs little more than the call.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator
from itertools import islice

from cuassay.checks.base import Trial
from cuassay.checks.numeric.common import one_by_one
from cuassay.inputs.geometry import elements, least, legal, try_sizes
from cuassay.model.case import Case
from cuassay.model.problem import VarAxis
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ScenarioResult

_AT_ONCE = 24  # calls of a scenario
_ELEMENTS = 1 << 15  # of inputs and outputs of a call
_PATIENCE = 4.0


def each_size(trial: Trial) -> Iterator[Scenario]:
    """Yield calls at all sizes of each axis that declares its bounds, from the least one on.

    The axes take turns until the judge has spent the processor time of the profile, or four times
    as long has gone by, where the calls are what takes long.
    """
    limit_s, small = trial.effort.each_size_s, trial.cases("small")
    if not limit_s or not small:
        return
    going = {
        axis.name: _cases(trial, small[0], axis)
        for axis in trial.problem.var_axes()
        if axis.declared and not axis.derived and not axis.sizes
    }
    end_s, last_s = time.process_time() + limit_s, time.monotonic() + _PATIENCE * limit_s
    while going:
        for name, cases in tuple(going.items()):
            some = tuple(islice(cases, _AT_ONCE))
            if not some or time.process_time() > end_s or time.monotonic() > last_s:
                del going[name]
                continue
            first, last = (one.axes[name] for one in (some[0], some[-1]))
            label = f"each {name} from {first} to {last}, others small"
            yield Scenario(label=label, cases=some, steps=one_by_one(range(len(some))))


def _cases(trial: Trial, small: Case, axis: VarAxis) -> Iterator[Case]:
    """Yield a case at each size of an axis, as far as the reference and its cost allow."""
    problem, size = trial.problem, least(axis)
    low = {one.name: min(least(one, 2), small.axes[one.name]) for one in problem.var_axes()}
    while axis.maximum is None or size <= axis.maximum:
        sizes = try_sizes(problem, small.axes, {**low, axis.name: size})
        if sizes is not None and elements(problem, sizes) > _ELEMENTS:
            return
        if sizes is not None and legal(problem, sizes):
            label, seed = f"{axis.name}={size}", trial.seed("SHP001", axis.name, size)
            case = dataclasses.replace(small, label=label, axes=sizes, fills={}, seed=seed)
            if not trial.has_room(case):
                return
            settled = trial.settled(case)
            if settled is not None:
                yield settled
        size += axis.multiple_of


def swept(seen: Iterable[tuple[Scenario, ScenarioResult]]) -> str:
    """Return up to which size each axis was called at all of them, in words."""
    found: dict[str, int] = {}
    for scenario, _ in seen:
        first, last = scenario.cases[0].axes, scenario.cases[-1].axes
        found |= {name: size for name, size in last.items() if size != first.get(name, size)}
    words = (f"{name} to {size:,}" for name, size in found.items())
    return f"each size in turn: {', '.join(words)}" if found else ""
