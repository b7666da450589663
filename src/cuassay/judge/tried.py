"""Which sizes of each var axis the checks tried: collected from the scenarios that really ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.model.problem import Problem
from cuassay.model.scenario import Scenario
from cuassay.model.trace import BuildFailed, ToolMissing
from cuassay.model.verdict import AxisCoverage

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.control import RunScenario


class Tried:
    """Runs scenarios of the candidate and remembers their sizes under `code`, the running check.

    What shrinking a failure or the benchmark's own rule runs does not come through here: a
    size met there alone was judged by no check.
    """

    def __init__(self, problem: Problem, run: RunScenario) -> None:
        self.code = ""
        self._run = run
        self._seen: dict[str, dict[str, set[int]]] = {axis.name: {} for axis in problem.var_axes()}

    def __call__(self, scenario: Scenario) -> Run:
        """Run one scenario."""
        run = self._run(scenario)
        unbuilt = isinstance(run.result.termination, BuildFailed | ToolMissing)
        if not unbuilt:
            self._remember(scenario)
        return run

    def _remember(self, scenario: Scenario) -> None:
        for case in scenario.cases:
            for axis, by_code in self._seen.items():
                if case.in_domain and axis in case.axes:
                    by_code.setdefault(self.code, set()).add(case.axes[axis])

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
