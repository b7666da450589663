"""Each size of an axis in turn: what is wrong at few sizes alone is met where none is left out.

A table that one remainder finds, an edge that rounding puts one short, an order that repeats where
two numbers share a divisor: nothing tells such a size from those beside it. The other axes are
small, so that a call costs little more than the call.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from cuassay.checks.base import Run, Trial
from cuassay.checks.state.answers import Read
from cuassay.inputs.geometry import elements, least, legal, try_sizes
from cuassay.model.case import Case
from cuassay.model.problem import VarAxis
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.trace import ScenarioResult

_AT_ONCE, _MOST_AT_ONCE = 24, 192  # calls of a scenario: the first one's, and the longest one's
_SHORT_S = 1.0  # of a scenario: the next one of its axis has twice as many calls
_ELEMENTS = 1 << 15  # of inputs and outputs of a call
_PATIENCE = 1.5
_JUDGED = 2  # answers of a scenario that truth judges, whatever they are
_ALIKE = 2.0  # times the largest distance of those: of a right answer at another size
_ROUNDING = 1 / 32  # of the whole: what is further from the reference is no rounding


def each_size(trial: Trial) -> Iterator[Scenario]:
    """Yield calls at the first sizes of each axis that declares its bounds, from the least one on.

    The axis that has come least far is next. Before all are called it ends where the judge has
    spent the processor time of the profile, or where calls are what takes long: after half as much
    time again on a machine that nobody else uses. How busy it is, planning shows, which waits for
    nothing but a processor. Lines are noted in the first call of a scenario: planned cases are on
    both sides of every size that the sources name.
    """
    most, limit_s, small = trial.effort.each_size, trial.effort.each_size_s, trial.cases("small")
    if not most or not small:
        return
    going = {
        axis.name: islice(_cases(trial, small[0], axis), most)
        for axis in trial.problem.var_axes()
        if axis.declared and not axis.derived and not axis.sizes
    }
    counts, reached = dict.fromkeys(going, _AT_ONCE), dict.fromkeys(going, 0)
    began_s, began_used_s = time.monotonic(), time.process_time()
    planned_s = planned_used_s = 0.0
    while going:
        name = min(going, key=reached.__getitem__)
        asked_s, asked_used_s = time.monotonic(), time.process_time()
        some = tuple(islice(going[name], counts[name]))
        planned_s += time.monotonic() - asked_s
        planned_used_s += time.process_time() - asked_used_s
        busy = max(1.0, planned_s / max(planned_used_s, 1e-6))
        gone_s, used_s = time.monotonic() - began_s, time.process_time() - began_used_s
        if used_s > limit_s or gone_s > _PATIENCE * limit_s * busy:
            return
        if not some:
            del going[name]
            continue
        first, reached[name] = (one.axes[name] for one in (some[0], some[-1]))
        label = f"each {name} from {first} to {reached[name]}, others small"
        steps = [
            step
            for number in range(len(some))
            for step in (
                Allocate(slot=f"a{number}", case=number),
                Call(slot=f"a{number}", result=f"r{number}", noted=number == 0),
                ReadResult(result=f"r{number}"),
            )
        ]
        begun_s = time.monotonic()
        yield Scenario(label=label, cases=some, steps=tuple(steps), at_once=True)
        if time.monotonic() - begun_s < _SHORT_S:
            counts[name] = min(2 * counts[name], _MOST_AT_ONCE)


def _cases(trial: Trial, small: Case, axis: VarAxis) -> Iterator[Case]:
    """Yield a case at each size of an axis, as far as the reference and its cost allow.

    Whether a case has room is asked at twice the size each time: the ones before need less.
    """
    problem, size, roomy = trial.problem, least(axis), 0
    low = {one.name: min(least(one, 2), small.axes[one.name]) for one in problem.var_axes()}

    def case_at(wished: int) -> Case | None:
        sizes = try_sizes(problem, small.axes, {**low, axis.name: wished})
        if sizes is None or not legal(problem, sizes):
            return None
        label, seed = f"{axis.name}={wished}", trial.seed("SHP001", axis.name, wished)
        return dataclasses.replace(small, label=label, axes=sizes, fills={}, seed=seed)

    while axis.maximum is None or size <= axis.maximum:
        case = case_at(size)
        if case is not None:
            if elements(problem, case.axes) > _ELEMENTS:
                return
            if size > roomy:
                beyond = 2 * size if axis.maximum is None else min(2 * size, axis.maximum)
                further = case_at(beyond)
                if further is not None and trial.has_room(further):
                    roomy = beyond
                elif not trial.has_room(case):
                    return
            settled = trial.settled(case)
            if settled is not None:
                yield settled
        size += axis.multiple_of


def unlike(trial: Trial, run: Run, reads: Sequence[Read]) -> Iterator[Read]:
    """Yield the answers of a scenario of many sizes that truth has to judge, in their order.

    The first two; then each that is further from the reference as written than twice the furthest
    of those that were right. The others err no more than they do: at some sizes alone a kernel is
    wrong by more than by rounding.
    """
    mean = most = 0.0
    for number, read in enumerate(reads):
        found = trial.distance(read.case, run, read.items)
        if found is None or found[0] > _ROUNDING:
            yield read
        elif number < _JUDGED or found[0] > _ALIKE * mean or found[1] > _ALIKE * most:
            yield read
            mean, most = max(mean, found[0]), max(most, found[1])


def swept(seen: Iterable[tuple[Scenario, ScenarioResult]]) -> str:
    """Return up to which size each axis was called at all of them, in words."""
    found: dict[str, int] = {}
    for scenario, _ in seen:
        first, last = scenario.cases[0].axes, scenario.cases[-1].axes
        found |= {name: size for name, size in last.items() if size != first.get(name, size)}
    words = (f"{name} to {size:,}" for name, size in found.items())
    return f"each size in turn: {', '.join(words)}" if found else ""
