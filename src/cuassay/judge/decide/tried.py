"""Which sizes of each var axis the checks tried: collected from the scenarios that really ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cuassay.model.case import Case
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.problem import Problem
from cuassay.model.scenario import ReadResult, Scenario
from cuassay.model.step import Held
from cuassay.model.steps import Outline, ReadSlices
from cuassay.model.trace import BuildFailed, ToolMissing
from cuassay.model.verdict import AxisCoverage, TriedSizes

if TYPE_CHECKING:
    from cuassay.checks.base import Run

_SIZES = 400  # sets of sizes that a verdict keeps


class SizeLog:
    """Remembers the sizes of scenarios that ran, by the check that proposed them.

    What shrinking a failure or the benchmark's own rule runs does not come through here: a
    size met there alone was judged by no check.
    """

    def __init__(self, problem: Problem) -> None:
        self._together: dict[tuple[tuple[str, int], ...], None] = {}
        self._seen: dict[str, dict[str, set[int]]] = {axis.name: {} for axis in problem.var_axes()}

    def note(self, code: str, scenario: Scenario, run: Run) -> None:
        """Remember the sizes of a scenario of the check `code` that ran."""
        if isinstance(run.result.termination, BuildFailed | ToolMissing):
            return
        for case in called(scenario):
            self._together.setdefault(self._sizes(case), None)
            for axis, by_code in self._seen.items():
                if axis in case.axes:
                    by_code.setdefault(code, set()).add(case.axes[axis])

    def sizes(self, findings: Iterable[Finding]) -> tuple[TriedSizes, ...]:
        """Return the sizes that were tried together, and at which of them a finding is wrong."""
        wrong = {
            self._sizes(finding.scenario.cases[0])
            for finding in findings
            if finding.finding_class is FindingClass.WRONG
            and finding.scenario is not None
            and finding.scenario.cases
        }
        every = [*wrong, *(sizes for sizes in self._together if sizes not in wrong)]
        return tuple(
            TriedSizes(sizes=dict(sizes), failed=sizes in wrong)
            for sizes in sorted(every[:_SIZES])
            if sizes
        )

    def _sizes(self, case: Case) -> tuple[tuple[str, int], ...]:
        return tuple((axis, case.axes[axis]) for axis in self._seen if axis in case.axes)

    def coverage(self) -> tuple[AxisCoverage, ...]:
        """Return what was tried, an entry for every var axis in the problem's order."""
        return tuple(
            AxisCoverage(
                axis=axis,
                values=tuple(sorted(set().union(*by_code.values()))),
                checks={code: len(sizes) for code, sizes in by_code.items()},
            )
            for axis, by_code in self._seen.items()
        )


def called(scenario: Scenario, *, read: bool = False) -> Iterator[Case]:
    """Yield the legal cases that a scenario has memory for and works on.

    With `read` those alone of which results are read.
    """
    held = Held()
    for step in scenario.steps:
        position = step.follow(held)
        if position is None or isinstance(step, Outline):
            continue
        if read and not isinstance(step, ReadResult | ReadSlices):
            continue
        if scenario.cases[position].in_domain:
            yield scenario.cases[position]


def outlined(scenario: Scenario) -> Iterator[Case]:
    """Yield the legal cases that a scenario calls on without memory."""
    for step in scenario.steps:
        if isinstance(step, Outline) and scenario.cases[step.case].in_domain:
            yield scenario.cases[step.case]
