"""SHP002: listed workloads, and sizes that grow up to the declared ones."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import comparison_finding, single_call
from cuassay.checks.numeric.listed_sizes import elements_of, sizes_in_words
from cuassay.checks.numeric.sampled_slices import (
    independent_axes,
    sampled_call,
    secret_places,
    slice_elements,
    slices_read,
)
from cuassay.checks.numeric.shapes import ended_finding
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.inputs.growing import Way, ways
from cuassay.model.case import Case
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.relation import RowsIndependent
from cuassay.model.scenario import Scenario
from cuassay.model.trace import TimedOut

# Seconds of all calls together, their inputs and judgments included.
_FIRST = 1 << 17  # elements of the first call of a way: some 20 ms, on slices
_AT_ONCE = 1 << 20  # elements of a way's largest call, up to which it is the first one
_GROWTH = 8  # times the elements of the call before it
_WORTH_IT = 2  # times the elements of the call before it, where the next one costs too much
# Elements of the largest call that a truth is made of: of slices with what all of them need (a
# weight), or of a call that has no slices.
_MOST_SLICES, _LEAST_SLICES = 48, 4
_STEEP = 2.0  # power of the elements by which a call's time grows at most
_MARGIN = 1.25  # on what the next call should take
_FLAT_S = 0.05  # a call that took less says nothing of how time grows


class Shp002(Check):
    """Listed workloads and large sizes

    What it does
        Calls the kernel at every listed workload, and at sizes that grow eightfold from small
        ones up to the largest that each axis declares or lists: each axis alone, then all of them
        together. A call that is too large for a truth of all its outputs is judged on some 50
        slices: both ends and secret ones. It stops where the next call costs too much, by the time
        that the calls before it took.

    Why it matters
        A threshold by rows, by a count of elements or of bytes, a loop that ends at a fixed
        number, an index in 16 bits, a position in float16: each is right at every small size. The
        kernel is used at the large ones.

    How it decides
        Numbers that differ from truth by more than the achievable error are wrong at every legal
        size, by the statistics of NUM001. A slice is judged against truth for that slice
        alone, along an axis whose slices do not depend on each other: declared, or confirmed on
        the float64 reference at small sizes. A call that stops is judged as by SHP001. How far the
        check came stands in the verdict's scope: what it did not reach is the condition `sizes`
        or `workloads`.

    Can it be wrong?
        Slices that are not sampled may be wrong. A problem with no independent axis is judged
        as far as a whole truth is affordable.

    Example
        `y[2048:] = 0`: "at rows = 4096 sampled slices are wrong".

    Options
        --profile sets how much time it has: 1.2, 12 or 90 s. --require sizes and --require
        workloads make the verdict INCONCLUSIVE where it does not come far enough.
    """

    code = "SHP002"
    title = "Listed workloads and large sizes"
    classes = ("O7", "O8", "O10", "M1", "L12")
    needs = Needs(group=Group.SHAPES)
    grades = True
    judges_failures = True
    severity = Severity.CRITICAL

    def skip(self, trial: Trial) -> str:
        """Return why there is no larger size to try, or an empty string."""
        small = trial.cases("small")
        if not small:
            return "no small case could be planned"
        return "" if _ways(trial, small[0]) else "no axis of the problem grows"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield calls at growing sizes until the next one costs too much."""
        small = trial.cases("small")[0]
        limit_s = trial.effort.large_sizes_s
        purse = _Purse(limit_s=limit_s, left_s=limit_s)
        axes: list[RowsIndependent] | None = None
        going = [_Going(way=way) for way in _ways(trial, small)]
        tried: set[tuple[int, ...]] = set()
        proposed = False
        while going:
            way = min(going, key=lambda one: one.next_elements)
            sizes = purse.affordable(way, seed=trial.seed(self.code, way.name, way.last))
            count = 0 if sizes is None else elements_of(trial.problem, sizes)
            if sizes is None or way.ends(sizes) or count <= way.last:
                going.remove(way)
            if sizes is None or tuple(sizes.values()) in tried:
                way.last = max(count, way.last)
                continue
            tried.add(tuple(sizes.values()))
            case = _case(trial, small, sizes, way.way)
            if case is None or not trial.has_room(case, truth=False):
                going = [one for one in going if one is not way]
                continue
            if axes is None:
                started = time.monotonic()
                axes = list(independent_axes(trial))
                purse.left_s -= time.monotonic() - started
            started = time.monotonic()
            scenario = _scenario(trial, case, axes or [])
            if scenario is None or trial.scenario_s(scenario) > purse.most_counted_s:
                going = [one for one in going if one is not way]
                continue
            proposed = True
            yield scenario
            purse.spend(way, count, time.monotonic() - started)

        if not proposed:
            raise NothingToCheckError(
                f"no larger call can be judged within what --profile {trial.profile.value} pays for"
            )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge how the call ended, then its numbers: all of them, or those of its slices."""
        whole = scenario.cases[-1]
        ended = termination_finding(scenario, run, problem=trial.problem)
        if ended is not None:
            if isinstance(run.result.termination, TimedOut) and not trial.device.on_gpu:
                raise CannotJudgeError(f"on a CPU the call takes too long: {ended.message}")
            yield ended_finding(self, trial, scenario, run, case=whole, ended=ended)
            return
        sliced = len(scenario.cases) > 1
        reads = slices_read(scenario, run) if sliced else reads_of(scenario, run)
        lead = f"at {sizes_in_words(trial.problem, whole)}"
        for read in reads:
            for comparison in answers.wrong(read):
                found = comparison_finding(
                    self,
                    trial,
                    scenario,
                    read.case,
                    comparison,
                    lead=f"{lead} sampled slices are wrong" if sliced else lead,
                )
                where = dataclasses.replace(found.where, axes=dict(whole.axes))
                kind = found.finding_class if whole.in_domain else FindingClass.ADVICE
                yield dataclasses.replace(found, where=where, finding_class=kind)


@dataclass(slots=True, kw_only=True)
class _Going:
    """How far along a way the calls came, and what they took: (elements, seconds) of each."""

    way: Way
    last: int = 0  # elements of the last call that was made, or that another way made
    seen: list[tuple[int, float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What tells a way from others."""
        return self.way.workload or " ".join(
            name for name, size in self.way.top.items() if size != self.way.low[name]
        )

    @property
    def next_elements(self) -> int:
        """How many elements its next call has at most."""
        if self.way.workload or self.way.elements <= _AT_ONCE:
            return self.way.elements
        return min(max(_FIRST, self.last * _GROWTH), self.way.elements)

    def ends(self, sizes: Mapping[str, int]) -> bool:
        """Whether nothing larger lies ahead of it."""
        return dict(sizes) == dict(self.way.top)


@dataclass(slots=True, kw_only=True)
class _Purse:
    """The seconds that are left, and what calls took so far: (elements, seconds)."""

    limit_s: float
    left_s: float
    seen: list[tuple[int, float]] = field(default_factory=list)

    @property
    def most_counted_s(self) -> float:
        """The most that one call may take by count, which knows what the clock does not yet."""
        return max(self.left_s, self.limit_s / 2) * 4

    def spend(self, going: _Going, count: int, took_s: float) -> None:
        """Note what a call took."""
        self.left_s -= took_s
        self.seen.append((count, took_s))
        going.seen.append((count, took_s))
        going.last = count

    def affordable(self, going: _Going, *, seed: int) -> dict[str, int] | None:
        """Return the next sizes along a way that the seconds left pay for, if there are any."""
        wanted = going.next_elements
        if not going.seen and wanted <= _AT_ONCE and self.left_s > -self.limit_s:
            return going.way.within(wanted, seed=seed)  # cheap, unless the machine is busy
        if self.left_s <= 0.0:
            return None
        while self._expected_s(going, wanted) > self.left_s:
            wanted //= 2
            if going.way.workload or wanted < max(_WORTH_IT * going.last, _FIRST):
                return None
        if not going.seen and not going.way.workload:
            wanted = max(wanted, min(going.way.elements, _FIRST))
        sizes = going.way.within(wanted, seed=seed)
        if sizes is None and not going.seen:  # its smallest call is larger than a first one
            sizes = dict(going.way.low)
            if self._expected_s(going, elements_of(going.way.problem, sizes)) > self.left_s:
                return None
        return sizes

    def _expected_s(self, going: _Going, count: int) -> float:
        """Return what a call of so many elements should take, by those that were made.

        By the last calls of its own way; before any by the middle one of the others that were
        large enough to tell. A first small call takes what loading and compiling do.
        """
        flat_s = min((took_s for _, took_s in self.seen), default=0.0)
        if not going.seen:
            rates = [(took_s - flat_s) / n for n, took_s in self.seen if n >= _FIRST // 2]
            return flat_s + _MARGIN * count * median(rates or [0.0])
        last, took_s = going.seen[-1]
        power = 1.0
        if len(going.seen) > 1 and took_s > _FLAT_S and last > going.seen[-2][0]:
            before, before_s = going.seen[-2]
            power = math.log(took_s / before_s) / math.log(last / before)
        power = min(max(power, 1.0), _STEEP)
        grown: float = max(count / last, 1.0) ** power
        return flat_s + _MARGIN * (took_s - flat_s) * grown


def is_judged_whole(trial: Trial, case: Case) -> bool:
    """Whether a truth of all outputs of a case is made, and not of slices alone."""
    return elements_of(trial.problem, case.axes) <= trial.effort.whole_elements


def workload_call(trial: Trial, workload: str) -> Scenario | None:
    """Return the call at a listed workload, None where it cannot be judged."""
    small = trial.cases("small")[0]
    for way in _ways(trial, small):
        if way.workload == workload:
            case = _case(trial, small, way.top, way)
            return None if case is None else _scenario(trial, case, independent_axes(trial))
    return None


def _ways(trial: Trial, small: Case) -> tuple[Way, ...]:
    return ways(trial.problem, small.axes, fixed=trial.problem.built)


def _case(trial: Trial, small: Case, sizes: Mapping[str, int], way: Way) -> Case | None:
    """Return a case of plain values at some sizes, as the reference accepts it."""
    from cuassay.inputs.regimes import scalars_for  # with torch

    words = ", ".join(f"{axis.name}={sizes[axis.name]}" for axis in trial.problem.var_axes())
    named = f"workload {way.workload}" if way.workload else words
    seed = trial.seed("SHP002", named)
    listed = next((one for one in trial.problem.workloads if one.id == way.workload), None)
    scalars = scalars_for(trial.problem, listed, seed=seed, usual=listed is not None)
    case = dataclasses.replace(
        small,
        label=named,
        axes=dict(sizes),
        fills={},
        scalars={**small.scalars, **scalars},
        seed=seed,
        workload=way.workload,
    )
    return trial.settled(case)


def _scenario(trial: Trial, case: Case, axes: Iterable[RowsIndependent]) -> Scenario | None:
    """Return a call that is judged as a whole, or on slices where that is too much."""
    problem, label = trial.problem, f"large: {case.label}"
    if is_judged_whole(trial, case):
        return single_call(case, label=label)
    sliced = [
        found
        for relation in axes
        if (found := _sliced(trial, case, relation.axis, label=label)) is not None
    ]
    if sliced:
        return min(sliced, key=lambda one: elements_of(problem, one.cases[0].axes))
    if elements_of(problem, case.axes) <= trial.effort.judged_elements:
        return single_call(case, label=label)
    return None


def _sliced(trial: Trial, case: Case, axis: str, *, label: str) -> Scenario | None:
    problem, length = trial.problem, case.axes[axis]
    # The elements of what every slice along an axis needs: a weight, a table
    one, two = (slice_elements(problem, case, axis, count=count) for count in (1, 2))
    base = max(2 * one - two, 0)
    per_slice = max(slice_elements(problem, case, axis) - base, 1)
    most = min(trial.effort.sliced_elements // per_slice, _MOST_SLICES)
    if length < _LEAST_SLICES * 2:
        return None
    places = secret_places(
        length, most=max(most - _LEAST_SLICES, _LEAST_SLICES), seed=trial.seed(label, axis)
    )
    if base + len(places) * per_slice > trial.effort.judged_elements:
        return None
    return sampled_call(problem, case, axis, places, label=label)
