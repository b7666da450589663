"""Checks in lanes: each lane runs one check after another in processes of its own.

All lanes are tasks of one thread, which thinks about one run at a time; while a lane waits for its
process, others go on. What was found is told in the order of one lane, whichever was first.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cuassay.checks.interface.initial_state import STATE_OF
from cuassay.checks.needs import When
from cuassay.checks.registry import LEAST
from cuassay.errors import CannotJudgeError
from cuassay.judge.decide.examine import BuildStopped, Examination, Examined, Rejected
from cuassay.judge.decide.gross import PLAIN, first_calls, is_gross
from cuassay.judge.domain import StateFrom
from cuassay.judge.run.budget import TimeBudget
from cuassay.model.events import CheckFinished, CheckStarted, Event, FindingReported
from cuassay.model.jobs import Stop
from cuassay.model.outcome import CheckReport, Failed, Finding, Outcome, Skipped
from cuassay.model.steps import Mode
from cuassay.model.verdict import Lane

if TYPE_CHECKING:
    from cuassay.checks.base import Check
    from cuassay.judge.decide.control import Control
    from cuassay.judge.decide.tried import SizeLog
    from cuassay.judge.run.executor import Executor
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.scenario import Scenario


class Teller:
    """Tells the events of checks in the order of one lane, and gives findings their ids.

    A check that comes first in that order is told as it goes, the others once those before them
    have ended. `label` names the run in commands that reproduce a finding.
    """

    def __init__(
        self, checks: Sequence[Check], emit: Callable[[Event], None], *, label: str
    ) -> None:
        self._order = deque(check.code for check in checks)
        self._emit, self._label = emit, label
        self._waiting: dict[str, list[Event]] = {code: [] for code in self._order}
        self._ended: set[str] = set()
        self._numbers = itertools.count(1)
        self._named: dict[str, Finding] = {}
        self.reports: list[CheckReport] = []

    def of(self, code: str) -> Callable[[Event], None]:
        """Return what tells the events of a check."""

        def tell(event: Event) -> None:
            if isinstance(event, CheckFinished):
                self._ended.add(code)
            if self._order and self._order[0] == code:
                self._say(event)
                self._advance()
            else:
                self._waiting[code].append(event)

        return tell

    def stop(self, report: CheckReport) -> None:
        """Tell that the candidate cannot be built: that is the only report."""
        outcome = report.outcome
        if isinstance(outcome, Failed):
            outcome = replace(outcome, findings=tuple(map(self.with_id, outcome.findings)))
        self.reports = [replace(report, outcome=outcome)]
        self._emit(CheckFinished(report=self.reports[0]))
        self._order.clear()

    def add(self, report: CheckReport) -> None:
        """Add the report of a check that did not run."""
        self._ended.add(report.code)
        self.reports.append(report)
        self._advance()

    def _advance(self) -> None:
        while self._order and self._order[0] in self._ended:
            self._order.popleft()
            for event in self._waiting.pop(self._order[0], ()) if self._order else ():
                self._say(event)
            if self._order:
                self._waiting[self._order[0]] = []

    def _say(self, event: Event) -> None:
        match event:
            case FindingReported(finding=finding):
                self._emit(FindingReported(finding=self.with_id(finding)))
            case CheckFinished(report=report):
                outcome = report.outcome
                if isinstance(outcome, Failed):
                    outcome = replace(outcome, findings=tuple(map(self.with_id, outcome.findings)))
                advice = tuple(map(self.with_id, report.advice))
                self.reports.append(replace(report, outcome=outcome, advice=advice))
                self._emit(CheckFinished(report=self.reports[-1]))
            case _:
                self._emit(event)

    def with_id(self, finding: Finding) -> Finding:
        """Give a finding its id within the run and the command that reproduces it."""
        if finding.id not in self._named or not finding.id:
            number = f"F{next(self._numbers)}"
            told = replace(finding, id=number, reproduce=f"cuassay replay {self._label}/{number}")
            self._named[finding.id] = told
        told = self._named[finding.id]
        return replace(finding, id=told.id, reproduce=told.reproduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What lanes take from each other: checks, then what needs none of them."""

    checks: deque[Check]
    then: deque[Callable[[], Awaitable[object]]]


class Lanes:
    """What the lanes of one trial share, and what they made of the checks so far."""

    def __init__(
        self,
        trial: JudgeTrial,
        control: Control,
        tried: SizeLog,
        teller: Teller,
        *,
        planned: Collection[str],
        executed: Collection[str] = (),
        stop: Stop,
        several: bool,
        budget: TimeBudget,
    ) -> None:
        """`planned` are the codes of the checks; `stop` says what ends it before the last one.

        `executed` are those of checks that judge what the PTX machine executes beside the others.
        """
        self.budget = budget
        self._executed = frozenset(executed)
        self.trial, self.control, self.tried, self.teller = trial, control, tried, teller
        self._planned, self._stop = frozenset(planned), stop
        self.rejected = Rejected()
        self.gross = False  # the plain call is wrong on every input
        self.heavy = asyncio.Lock() if several else None
        self.examined: list[Examined] = []
        self.begun: set[str] = set()  # codes of checks
        self.alone: set[str] = set()  # of those that ran while nothing else used the device
        self.built = True

    @property
    def over(self) -> str:
        """Why no further check runs, or an empty string."""
        if self._stop is Stop.FIRST and self.rejected.is_so:
            return "--fail-fast: an earlier check rejected the kernel"
        if self._stop is Stop.GROSS and self.gross:
            return "not run: a plain call is wrong on every input; --no-fail-fast runs this check"
        return ""

    def hurries(self, check: Check) -> bool:
        """Whether a check leaves its other scenarios out, for what an acceptance rests on waits.

        One check whose truth takes long must not be all that was judged as the time ends, and what
        was executed beside the others must not end unjudged.
        """
        unasked = self._planned - self.begun
        waits = any(
            not unasked.isdisjoint(codes) and self.begun.isdisjoint(codes)
            for codes in LEAST.values()
        )
        late = check.code not in self._executed and not self._executed.isdisjoint(unasked)
        if not (waits and self.budget.is_half_spent) and not (late and self.budget.is_nearly_spent):
            return False
        self.budget.cut[check.code] = None
        return True

    def skip(self, check: Check, why: str) -> None:
        """Report that a check did not run."""
        report = CheckReport(code=check.code, title=check.title, outcome=Skipped(reason=why))
        self.teller.add(report)


class CheckLane:
    """Runs checks one after another, with the processes that it runs the candidate in."""

    def __init__(
        self,
        lanes: Lanes,
        executor: Executor,
        *,
        parts: Callable[[Check | None, Check], bool],
        lane: Lane = Lane.JUDGE,
        main: CheckLane | None = None,
    ) -> None:
        """`main` is the lane beside which it runs; `parts` says whether checks part processes."""
        self._lanes, self.executor, self._parts = lanes, executor, parts
        self._lane, self._main = lane, main
        self._examination: Examination | None = None  # of the check that runs now
        self._before: Check | None = None  # the last one that ran a scenario

    async def run(self, checks: Sequence[Check]) -> None:
        """Run checks in order, until there is a reason to run no more."""
        for place, check in enumerate(checks):
            if not self._lanes.built:
                return
            # Whose process is of a mode of its own starts while two checks run before it.
            modes = [after.needs.mode for after in checks[place + 1 : place + 3]]
            self.executor.expect(next((one for one in modes if one is not Mode.PLAIN), Mode.PLAIN))
            if check.code not in self._lanes.begun:
                if why := self._lanes.over:
                    self._lanes.skip(check, why)
                else:
                    await self._run(check)

    async def look_first(self, plain: Check | None) -> None:
        """Make a plain call. Where it is wrong whatever the inputs, `plain` is the first check.

        If that says so too, it is the last one. Where every plain call lacks a tool, none is run.
        None: nothing is looked at.
        """
        lanes = self._lanes
        if plain is None or not lanes.built:
            return
        if self._before is not None and self._parts(self._before, plain):
            self.executor.fresh = True
        first = await first_calls(lanes.trial, run=self.executor.run, room=self._room)
        self._before = plain
        if first.lack and lanes.built:
            lanes.built = False
            lanes.teller.stop(_build_report(BuildStopped(None, first.lack)))
        if first.wrong and plain.code not in lanes.begun:
            await self._run(plain)
            lanes.gross = any(is_gross(e.report) for e in lanes.examined if e.report.code == PLAIN)

    async def take(self, work: Work, *, may: Callable[[Check], bool] = lambda check: True) -> None:
        """Run the first check of those that are left, and so on: other lanes take theirs.

        The first one that this lane may not run is left to them, with all that come after it.
        Once none is left, it helps with the check that the main lane runs, and does what is left
        to do beside those that others still run.
        """
        while self._lanes.built:
            if work.checks:
                if not may(work.checks[0]):
                    return
                check = work.checks.popleft()
                if check.code in self._lanes.begun:
                    continue
                if why := self._lanes.over:
                    self._lanes.skip(check, why)
                    continue
                await self._run(check)
            elif self._main is not None and self._main.shares:
                proposed = (
                    self._main._examination.proposed
                    if self._main._examination is not None
                    else None
                )
                if proposed is not None:
                    with self._lanes.trial.timeline.span(self._lane, proposed.check.code):
                        await self._examination_of(proposed.check).help(proposed)
            elif work.then and not self._lanes.over:
                await work.then.popleft()()
            else:
                return

    @property
    def shares(self) -> bool:
        """Whether the check that runs now has scenarios that other lanes may run."""
        proposed = self._examination.proposed if self._examination is not None else None
        return proposed is not None and not proposed.is_over

    def _examination_of(self, check: Check) -> Examination:
        lanes = self._lanes
        return Examination(
            lanes.trial,
            run=self.executor.run,
            control=lanes.control,
            emit=lanes.teller.of(check.code),
            rejected=lanes.rejected,
            ahead=self.executor.ahead,
            room=self._room,
            note=partial(lanes.tried.note, check.code),
            hurries=partial(lanes.hurries, check),
        )

    async def _run(self, check: Check) -> None:
        lanes, executor = self._lanes, self.executor
        lanes.begun.add(check.code)
        tell = lanes.teller.of(check.code)
        tell(CheckStarted(code=check.code, title=check.title))
        # On a GPU what is executed beside the others is judged last.
        waits = lanes.trial.device.on_gpu and check.needs.when is not When.EXECUTED
        if lanes.budget.is_spent or (waits and lanes.budget.is_nearly_spent):
            applicable = self._may_apply(check)
            if applicable:
                lanes.budget.missed[check.code] = None
            why = Skipped(reason=f"not run: {lanes.budget.reason}", applicable=applicable)
            report = CheckReport(code=check.code, title=check.title, outcome=why)
            tell(CheckFinished(report=report))
            return
        fresh = executor.fresh
        executor.fresh = fresh or self._parts(self._before, check)
        if check.needs.alone and executor.is_quiet:
            lanes.alone.add(check.code)
        self._examination = self._examination_of(check)
        try:
            with lanes.trial.timeline.span(self._lane, check.code):
                examined = await self._examination.examine(check)
        except BuildStopped as stopped:
            if lanes.built:  # other lanes meet it too
                lanes.built = False
                lanes.teller.stop(_build_report(stopped))
            return
        finally:
            self._examination = None
        outcome = examined.report.outcome
        if lanes.budget.is_spent and not examined.report.wrong:
            lanes.budget.cut[check.code] = None
        for finding in outcome.findings if isinstance(outcome, Failed) else ():
            if finding.cause in STATE_OF:
                lanes.trial.planned.learning.replan(StateFrom(source=STATE_OF[finding.cause]))
        if examined.report.scenarios:
            self._before = check
        else:
            executor.fresh = fresh
        lanes.examined.append(examined)
        if lanes.built:
            tell(CheckFinished(report=examined.report))

    def _may_apply(self, check: Check) -> bool:
        """Whether a check could have judged something, had there been time.

        Of those that an acceptance rests on the check itself is asked; what it would have to run
        for its answer is over at once.
        """
        trial = self._lanes.trial
        if trial.problem.ranks is not None and not check.ranks:
            return False
        if not any(check.code in codes for codes in LEAST.values()):
            return True
        try:
            return not check.skip(trial)
        except CannotJudgeError:
            return True

    @asynccontextmanager
    async def _room(self, scenario: Scenario) -> AsyncIterator[None]:
        """Let one scenario at a time take more than a small part of the planned memory."""
        heavy = self._lanes.heavy
        if heavy is None or self._lanes.trial.memory.is_light(scenario.cases):
            yield
            return
        await self.executor.make_ready(scenario)  # others need not wait for that
        async with heavy:
            yield


def _build_report(stopped: BuildStopped) -> CheckReport:
    outcome: Outcome = Skipped(reason=stopped.reason)
    if stopped.finding is not None:
        outcome = Failed(findings=(stopped.finding,))
    title = "The candidate builds and imports"
    return CheckReport(code="BUILD001", title=title, outcome=outcome)
