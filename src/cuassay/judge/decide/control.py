"""The reference on trial: the same scenario with the problem's reference as the candidate.

A finding that the reference earns too is the oracle's or the harness's, never the kernel's:
it is reported for nobody. The reference runs in a worker of its own, as a kernel would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from cuassay.checks.endings.findings import claims_no_tool
from cuassay.errors import NothingToCheckError
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.conditions import STANDING
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import Finished, StepRaised

if TYPE_CHECKING:
    from cuassay.checks.base import Check, Run
    from cuassay.checks.judgement import Judgement
    from cuassay.judge.trial import JudgeTrial

RunScenario = Callable[[Scenario], "Run"]  # and waits for it
AwaitScenario = Callable[[Scenario], Awaitable["Run"]]


def reference_candidate(problem: Problem) -> Candidate:
    """Return the problem's reference as a candidate."""
    reference = problem.reference
    text = reference.source or reference.path.read_text()
    return Candidate(
        name="reference",
        sources=(SourceFile(path=reference.path.name, text=text),),
        entry_file=reference.path.name,
        entry_function=reference.function,
        language=Language.PYTHON,
        convention=Convention.RETURNS,
        origin=reference.path,
    )


_SPREAD_RUNS = 6


class Control:
    """Runs scenarios on the reference and remembers what they found."""

    def __init__(self, trial: JudgeTrial, run: AwaitScenario, judge: JudgeScenario) -> None:
        self._trial, self._run, self._judge = trial, run, judge
        self._seen: dict[str, tuple[Finding, ...]] = {}
        self._completed: dict[str, bool] = {}

    async def findings(self, check: Check, scenario: Scenario) -> tuple[Finding, ...]:
        """Return what `check` says of the reference on `scenario` (cached)."""
        if scenario.mode is Mode.APART:
            # A reference that imports cuassay cannot run apart from it. What it does in a worker,
            # to its own inputs say, is no fault of a kernel apart either.
            scenario = dataclasses.replace(scenario, mode=Mode.PLAIN)
        key = check.code + serial.dumps(scenario)
        if key not in self._seen:
            try:
                run = await self._run(scenario)
                # What is made for kernels the reference may not have: that says nothing.
                found = () if claims_no_tool(run) else self._judge(check, scenario, run).findings
                self._seen[key] = tuple(
                    f for f in found if f.condition.split(":", 1)[0] not in STANDING
                )
            except NothingToCheckError:  # of the reference: the candidate may have something
                self._seen[key] = ()
        return self._seen[key]

    async def completes(self, scenario: Scenario) -> bool:
        """Whether the reference comes to the end of `scenario` without an exception (cached)."""
        key = serial.dumps(scenario)
        if key not in self._completed:
            result = (await self._run(scenario)).result
            ended = isinstance(result.termination, Finished)
            raised = any(isinstance(record, StepRaised) for record in result.records)
            self._completed[key] = ended and not raised
        return self._completed[key]

    async def shares(self, check: Check, scenario: Scenario, findings: Iterable[Finding]) -> bool:
        """Whether the reference earns a finding of the same code on the same output."""
        wanted = {(finding.code, finding.where.output) for finding in findings}
        earned = {
            (found.code, found.where.output) for found in await self.findings(check, scenario)
        }
        return bool(wanted & earned)

    async def spread(self, check: Check, scenario: Scenario) -> float:
        """Return the largest share of a budget that the reference uses over several runs.

        For references that are not deterministic: their own spread is part of what is
        achievable, and one control run shows one draw of it. They share a process: the next call
        differs as well, and each new process is a CUDA context on a GPU.
        """
        again = dataclasses.replace(scenario, fresh=False)
        judged = [self._judge(check, again, await self._run(again)) for _ in range(_SPREAD_RUNS)]
        return max((found.share for one in judged for found in one.comparisons), default=0.0)


JudgeScenario = Callable[["Check", Scenario, "Run"], "Judgement"]
