"""Run one check on one candidate: scenarios out, runs in, findings judged and controlled.

Running is awaited; what is thought of a run is not, so that nothing of the trial changes under it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from cuassay.checks.base import Check, Run, SearchingCheck
from cuassay.checks.endings.findings import (
    claims_no_system,
    claims_no_tool,
    exception_text,
    first_raised,
    inconclusive_reason,
    may_lack_memory,
    memory_fault,
    termination_finding,
)
from cuassay.checks.judgement import Answers, Judgement, is_wrong
from cuassay.checks.needs import Process, Split, When
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CannotJudgeError, NothingToCheckError, ReferenceError_
from cuassay.judge.decide.confirm import blamed, confirmed, marginal, seen_again
from cuassay.judge.decide.control import Control
from cuassay.judge.decide.tally import Tally
from cuassay.judge.plan.allowance import AllowanceSpentError
from cuassay.judge.plan.search import Answer, search
from cuassay.judge.run.budget import BudgetSpentError
from cuassay.judge.run.memory import shortage
from cuassay.judge.trial import JudgeTrial
from cuassay.model.case import Case
from cuassay.model.events import CaseFinished, Event, FindingReported
from cuassay.model.outcome import (
    CheckReport,
    Errored,
    Failed,
    Finding,
    FindingClass,
    Inconclusive,
    Outcome,
    Skipped,
)
from cuassay.model.problem import STATE_SOURCE, StateSource
from cuassay.model.scenario import ReadResult, Scenario
from cuassay.model.steps import Disarm, Mode, Overwrite
from cuassay.model.trace import (
    BuildFailed,
    Finished,
    ResultItem,
    ScenarioResult,
    ToolMissing,
)
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import Comparison

# A trusted kernel's scale is up to ten of the reference's own errors (`own_error`): to a search,
# what is beyond these counts as nearer to failing than what is within.
_NEAR = 0.1
_LARGE_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
HELPS = "helps with a check"  # the name of a task
ENOUGH = 3  # wrong findings after which a check stops proposing: one cause, many symptoms
_NOTHING_TO_SEARCH = "planned cases fail already: there is nothing to search for"

RunScenario = Callable[[Scenario], Awaitable[Run]]
Room = Callable[[Scenario], AbstractAsyncContextManager[None]]


class BuildStopped(Exception):
    """The candidate cannot be built: no further check can run."""

    def __init__(self, finding: Finding | None, reason: str) -> None:
        self.finding, self.reason = finding, reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What a check said of a candidate.

    `comparisons` are those of runs that count, `never_judged` the outputs that were set aside in
    every case, and why; with `cut_short` the check had no time for all its scenarios. `passed` are
    the scenarios that were judged and showed nothing, with what came back.
    """

    report: CheckReport
    comparisons: tuple[Comparison, ...] = ()
    never_judged: dict[str, str] = field(default_factory=dict)
    cut_short: bool = False
    passed: tuple[tuple[Scenario, ScenarioResult], ...] = ()


@dataclass(slots=True)
class Rejected:
    """Whether some check of a trial has found the candidate wrong: all its examinations know it.

    `judged`: some output of it was compared. `undecided`: some check could tell nothing.
    """

    is_so: bool = False
    judged: bool = False
    undecided: bool = False

    @property
    def never_ran(self) -> bool:
        """Whether checks ran the candidate, and none of its runs could be judged."""
        return self.undecided and not self.judged

    def note(self, report: CheckReport, *, judged: bool) -> None:
        """Take note of what a check reports, and whether it compared any output."""
        self.is_so = self.is_so or bool(report.wrong)
        self.judged = self.judged or judged
        self.undecided = self.undecided or isinstance(report.outcome, Inconclusive)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """A run of a scenario, what its check says of it, and why it decides nothing, if so.

    `near` is the part of the reference's own error that the answers use, where it was asked.
    """

    run: Run
    judgement: Judgement
    undecided: str = ""
    near: float | None = None


@dataclass(slots=True)
class _Seen:
    """What one scenario added: its findings have no names yet."""

    tally: Tally = field(default_factory=Tally)
    events: list[Event] = field(default_factory=list)
    share: float | None = None  # of its budget, that the candidate used


class Proposed:
    """What a check proposes, and what is seen of it, added up in the order of proposals.

    One lane examines the check and reports on it; where its scenarios may be shared, others that
    have nothing else to do help. What they see is told as if one lane had run all.
    """

    def __init__(
        self,
        check: Check,
        tally: Tally,
        scenarios: Iterator[Scenario],
        *,
        emit: Callable[[Event], None],
    ) -> None:
        self.check, self.tally = check, tally
        self._scenarios, self._emit = scenarios, emit
        self._given = self._told = self._named = 0
        self._ended: dict[int, _Seen] = {}
        self._helpers: list[asyncio.Task[None]] = []
        self.is_over = False  # nothing more is proposed, or asked for

    def take(self) -> tuple[int, Scenario] | None:
        """Return what no lane has taken so far, with its number; None where nothing is left."""
        scenario = None if self.is_over else next(self._scenarios, None)
        if scenario is None:
            self.is_over = True
            return None
        self._given += 1
        return self._given - 1, scenario

    def ended(self, number: int, seen: _Seen) -> None:
        """Take what came of a scenario."""
        self._ended[number] = seen
        while self._told in self._ended and len(self.tally.wrong) < ENOUGH:
            self.tell(self._ended.pop(self._told))
            self._told += 1
        self.is_over = self.is_over or len(self.tally.wrong) >= ENOUGH

    def tell(self, seen: _Seen) -> None:
        """Add what was seen of a scenario, and give its findings names within the check."""
        self.tally.take(seen.tally)
        for event in seen.events:
            if isinstance(event, FindingReported):
                self._named += 1
                name = f"{self.check.code}.{self._named}"
                event = FindingReported(finding=dataclasses.replace(event.finding, id=name))
                self.tally.add(event.finding)
            self._emit(event)

    async def help_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a lane that helps: who examines the check waits for it."""
        helper = asyncio.create_task(work, name=HELPS)
        self._helpers.append(helper)
        await asyncio.wait((helper,))  # what it raises is raised where the check is examined

    async def end(self) -> None:
        """Give out no more, and wait until those that help have judged what they took."""
        self.is_over = True
        await asyncio.gather(*self._helpers)


def judge_scenario(
    trial: JudgeTrial, check: Check, scenario: Scenario, run: Run, *, grade: bool = False
) -> Judgement:
    """Return what is said of one run: how it ended first, then what the check says.

    With `grade` its first failure tells the precision that the kernel keeps.
    """
    ended = termination_finding(scenario, run, problem=trial.problem)
    if ended is not None and not check.judges_failures:
        return Judgement(findings=(ended,))
    return check.judge(trial, scenario, run, grade=grade)


def _outcome_of(error: Exception) -> Outcome:
    """Return how a check ends by an exception: a fault of the check must not lose the others."""
    match error:
        case NothingToCheckError():
            return Skipped(reason=str(error), applicable=False)
        case CannotJudgeError():
            return Inconclusive(reason=str(error))
        case _:
            text = "".join(traceback.format_exception(error))
            return Errored(reason=f"{type(error).__name__}: {error}", traceback=text)


class Examination:
    """Runs checks on the candidate, with the reference as control."""

    def __init__(
        self,
        trial: JudgeTrial,
        *,
        run: RunScenario,
        control: Control,
        emit: Callable[[Event], None],
        rejected: Rejected | None = None,
        ahead: Callable[[Sequence[Scenario]], None] | None = None,
        room: Room = lambda scenario: nullcontext(),
        note: Callable[[Scenario, Run], None] = lambda scenario, run: None,
        hurries: Callable[[], bool] = lambda: False,
    ) -> None:
        """`room` is entered around each scenario: it may wait until one has room beside others.

        `note` is told of each scenario that ran. A check that has judged one ends where it
        `hurries`. What is found wrong is known to all that share
        `rejected`.
        """
        self._trial, self._run, self._control, self._room = trial, run, control, room
        self._note, self._hurries = note, hurries
        self._emit, self._ahead = emit, ahead
        self._rejected = rejected or Rejected()
        self.proposed: Proposed | None = None  # of a check whose scenarios others may run

    async def examine(self, check: Check) -> Examined:
        """Run one check to its end. Raises BuildStopped where the candidate cannot be built."""
        started = time.perf_counter()
        tally = Tally(least_decided=check.least_decided)
        outcome: Outcome | None = None
        while outcome is None:
            try:
                outcome = self._skipped(check)
                if outcome is None:
                    trial = self._trial.for_check(check.worth)
                    scenarios = self._affordable(trial, check, tally)
                    if check.needs.split is Split.AT_ONCE and self._ahead is not None:
                        listed = list(scenarios)
                        if len(listed) > 1:
                            self._ahead(listed)
                        scenarios = iter(listed)
                    proposed = Proposed(check, tally, scenarios, emit=self._emit)
                    self.proposed = proposed if check.needs.split is Split.AMONG_SIDES else None
                    try:
                        await self._take_part(trial, proposed)
                    finally:
                        self.proposed = None
                        await proposed.end()
                    outcome = await self._after(trial, proposed)
                # Where the reference refuses all that it accepted without data, plan again.
                if (
                    tally.declined
                    and not tally.ran
                    and self._trial.planned.learning.sizes_with_data()
                ):
                    tally.declined.clear()
                    outcome = None
            except BuildStopped:
                raise
            except torch.OutOfMemoryError:
                # Where planning met our own bound on memory, plan again with less.
                if not self._trial.memory.relieve() or tally.ran:
                    reason = "out of memory in the judge while planning the check"
                    outcome = Inconclusive(reason=reason)
            except BudgetSpentError as error:
                tally.cut_short = True  # the time ended while it planned: what ran before counts
                outcome = tally.outcome() if tally.clean else _outcome_of(error)
            except Exception as error:
                outcome = _outcome_of(error)
        if tally.wrong and not isinstance(outcome, Failed):
            outcome = tally.outcome()  # what was seen before the check ended so stands
        report = CheckReport(
            code=check.code,
            title=check.title,
            outcome=outcome,
            advice=tuple(tally.advice),
            duration_s=time.perf_counter() - started,
            scenarios=tally.ran,
            clean=tally.clean,
            withheld=tally.too_little,
        )
        self._rejected.note(report, judged=bool(tally.judged))
        return Examined(
            report=report,
            comparisons=tuple(tally.comparisons),
            never_judged=tally.never_judged if tally.judged else {},
            cut_short=tally.cut_short,
            passed=tuple(tally.seen),
        )

    async def help(self, proposed: Proposed) -> None:
        """Run scenarios of a check that another lane examines."""
        trial = self._trial.for_check(proposed.check.worth)
        await proposed.help_with(self._take_part(trial, proposed))

    def _skipped(self, check: Check) -> Skipped | None:
        """Return why a check does not run, if it does not."""
        if check.needs.gpu and not self._trial.device.on_gpu:
            reason = f"needs an NVIDIA GPU: this trial runs on the {self._trial.device}"
            return Skipped(reason=reason, applicable=False, needs_gpu=True)
        reason = check.skip(self._trial)
        if self._trial.problem.ranks is not None and not check.ranks:
            reason = "not for calls of several ranks"
        if not reason and isinstance(check, SearchingCheck) and self._rejected.is_so:
            reason = _NOTHING_TO_SEARCH
        if not reason and check.needs.when is When.AFTER_CLEAN and self._rejected.is_so:
            reason = "other checks rejected the kernel already"
        if not reason and check.needs.when is When.AFTER_CLEAN and self._rejected.never_ran:
            # A process that cannot say what this machine lacks would blame the kernel for it.
            reason = "no other check could run the kernel"
        if reason:
            return Skipped(reason=reason, applicable=False)
        missing = check.missing()
        return Skipped(reason=missing) if missing else None

    async def _after(self, trial: JudgeTrial, proposed: Proposed) -> Outcome:
        """Return how a check ends once all that it proposed ran, and what a search came upon."""
        check, tally = proposed.check, proposed.tally
        if len(tally.wrong) >= ENOUGH:
            return tally.outcome()
        if isinstance(check, SearchingCheck):

            async def answer(case: Case) -> Answer:
                wrong = len(tally.wrong)
                seen = _Seen()
                await self._guarded(trial, check, check.on_case(case), seen)
                proposed.tell(seen)
                return Answer(share=seen.share, failed=len(tally.wrong) > wrong)

            await search(trial, answer, going=lambda: not self._rejected.is_so)
            # A check beside this one found the kernel wrong meanwhile.
            if self._rejected.is_so and not tally.wrong:
                return Skipped(reason=_NOTHING_TO_SEARCH, applicable=False)
        tally.remark = check.said(trial, tally.seen)
        return tally.outcome()

    async def _take_part(self, trial: JudgeTrial, proposed: Proposed) -> None:
        while (taken := proposed.take()) is not None:
            number, scenario = taken
            seen = _Seen()
            try:
                async with self._room(scenario):
                    await self._guarded(trial, proposed.check, scenario, seen)
            except BaseException:
                proposed.is_over = True
                raise
            finally:
                proposed.ended(number, seen)

    def _affordable(self, trial: JudgeTrial, check: Check, tally: Tally) -> Iterator[Scenario]:
        """Yield what a check proposes until its allowance is spent: the first one always."""
        allowance = trial.allowance
        proposed = iter(check.propose(trial))
        while True:
            if tally.clean and self._hurries():
                tally.cut_short = True
                return
            allowance.planning, scenario = True, None
            try:
                scenario = next(proposed, None)
            except (AllowanceSpentError, NothingToCheckError):
                if not allowance.spent:  # nothing was found, and everything was tried
                    raise
            finally:
                allowance.planning = False
            if scenario is None or not allowance.allows(trial.scenario_s(scenario)):
                tally.cut_short = scenario is not None or allowance.spent
                return
            yield scenario

    async def _guarded(
        self, trial: JudgeTrial, check: Check, scenario: Scenario, seen: _Seen
    ) -> None:
        """Run one scenario; one that cannot be judged loses no finding of the others.

        Where memory is short it runs once more after what is kept has been let go.
        """
        for is_last in (False, True):
            started, asked = time.perf_counter(), scenario
            if trial.profile is Profile.QUICK and check.needs.when is When.LATE:
                asked = dataclasses.replace(scenario, fresh=True)
            try:
                settled = await self._in_process_at_hand(trial, check, asked)
                if settled is None:
                    run = await self._run(asked)
                    settled = self._settled(trial, check, asked, run)
                await self._weigh(check, scenario, settled, seen, started=started)
            except NothingToCheckError as error:
                seen.tally.inapplicable = seen.tally.inapplicable or str(error)
            except ReferenceError_ as error:
                # Inputs that we chose and the reference refuses say nothing of the kernel.
                chosen = not any(case.benchmark for case in scenario.cases)
                foreign = trial.problem.origin != "native"
                declined = seen.tally.declined if chosen and foreign else seen.tally.undecided
                declined.append(str(error))
            except CannotJudgeError as error:
                seen.tally.undecided.append(str(error))
            except torch.OutOfMemoryError:
                if trial.memory.relieve() or not is_last:
                    trial.memory.end_idle()
                    continue
                # A candidate may have taken the memory: never a reason to pass over a check.
                seen.tally.undecided.append(f"out of memory in the judge ({scenario.label})")
            return
        seen.tally.undecided.append(f"out of memory in the judge ({scenario.label})")

    async def _weigh(
        self, check: Check, scenario: Scenario, settled: _Settled, seen: _Seen, *, started: float
    ) -> None:
        """Note what a run adds, once the reference was asked about what it shows.

        `started`: when the scenario began, by `time.perf_counter`.
        """
        tally, trial = seen.tally, self._trial
        run, reason = settled.run, settled.undecided
        findings, compared = list(settled.judgement.findings), settled.judgement.comparisons
        shares = [one.share for one in compared if not one.undecided]
        near = None if settled.near is None else _NEAR * settled.near
        seen.share = max(shares, default=near)
        tally.ran += 1
        tally.weigh(compared, cases=len(scenario.cases))
        if findings and (earned := await self._earned(check, scenario, findings)):
            tally.shared.append(earned)
            return
        if findings and not trial.truths.repeats(scenario.cases[0]):
            allowed = 2.0 * await self._control.spread(check, scenario)
            kept = [f for f in findings if f.share is None or f.share > max(allowed, 1.0)]
            if kept:
                findings, reason = kept, ""
            else:
                findings, reason = (
                    [],
                    "within twice the spread of the reference, which is not deterministic",
                )
        findings = await self._pinned(scenario, run, findings)

        async def judged(again: Scenario) -> Sequence[Finding]:
            other = await self._run(again)
            if self._ill_conditioned(check, again, other):
                raise CannotJudgeError("ill-conditioned")
            return judge_scenario(self._trial, check, again, other).findings

        findings = [
            await seen_again(check.again(scenario, finding), finding, judged=judged)
            for finding in findings
        ]
        findings = [
            await blamed(check.controls(trial, scenario, finding), finding, judged=judged)
            for finding in findings
        ]
        if marginal(findings) and scenario.cases:
            luck = await confirmed(self._trial, scenario, findings, judged=judged)
            findings, reason = ([], luck) if luck else (findings, reason)
        if reason and await self._withheld(scenario, run):
            tally.withheld.append(reason)
        elif reason:
            tally.undecided.append(reason)
        elif all(finding.finding_class is FindingClass.ADVICE for finding in findings):
            # Advice is about what the contract leaves open: the scenario is passed.
            tally.clean += 1
            tally.seen.append((scenario, run.result))
        seen.events += [FindingReported(finding=finding) for finding in findings]
        duration_s = time.perf_counter() - started
        seen.events.append(
            CaseFinished(code=check.code, label=scenario.label, duration_s=duration_s)
        )

    async def _earned(self, check: Check, scenario: Scenario, findings: Sequence[Finding]) -> str:
        """Return what the reference earns on a scenario that the candidate fails, or nothing.

        At `quick` the same code on the same output; beyond it, on more and harder scenarios,
        whatever it earns: what the operator's own definition does not survive decides nothing.
        """
        if self._trial.profile is Profile.QUICK:
            shares = await self._control.shares(check, scenario, findings)
            return findings[0].message if shares else ""
        earned = await self._control.findings(check, scenario)
        return earned[0].message if earned else ""

    def _judged(self, check: Check, scenario: Scenario, run: Run) -> Judgement:
        """Return what is said of a run of the candidate; the first failure of all is graded."""
        comparing = self._trial.comparing
        judgement = judge_scenario(self._trial, check, scenario, run, grade=not comparing.graded)
        comparing.note(judgement)
        return judgement

    def _settled(self, trial: JudgeTrial, check: Check, scenario: Scenario, run: Run) -> _Settled:
        """Judge a run. Raises BuildStopped where the candidate cannot be built."""
        self._note(scenario, run)
        match run.result.termination:
            case BuildFailed(out_of_memory=True) if short := shortage(
                self._trial.device, scenario, self._trial.problem
            ):
                raise BuildStopped(None, short)
            case BuildFailed():
                raise BuildStopped(termination_finding(scenario, run), "it does not build")
            case ToolMissing(what=what):
                raise BuildStopped(None, what)
            case _:
                pass
        if may_lack_memory(scenario, run) and not claims_no_tool(run):
            # It counts where the judge sees too little; elsewhere it is any other exception.
            reason = shortage(trial.device, scenario, trial.problem)
        else:
            reason = inconclusive_reason(run)
        one = len(scenario.cases) == 1  # of several cases a check asks for those that it needs
        near = self._near_share(scenario, run) if one and check.asks_right and not reason else None
        if not reason and near is None:
            reason = self._ill_conditioned(check, scenario, run)
        if reason:
            return _Settled(run=run, judgement=Judgement(), undecided=reason)
        judgement = self._judged(check, scenario, run)
        return _Settled(run=run, judgement=judgement, undecided=judgement.undecided, near=near)

    async def _in_process_at_hand(
        self, trial: JudgeTrial, check: Check, scenario: Scenario
    ) -> _Settled | None:
        """Return a conclusive run in the process that ran others; None for all others.

        At `quick`, and always for a check whose clean passes count, a scenario that asks for a new
        process, a CUDA context on a GPU, first runs in the one at hand. Only a clean pass with
        every answer right counts there, or the end of the process; all else is asked again in a
        new process, and that answer counts. Calls as a server makes them never share one: where a
        cache is full or a capture once failed, a kernel no longer does what it does in production.
        """
        process, is_late = check.needs.process, check.needs.when is When.LATE
        shares = trial.profile is Profile.QUICK or process is Process.NEW_IF_WRONG
        if not (shares and scenario.fresh and (is_late or process.takes_any)) or scenario.serves:
            return None
        run = await self._run(dataclasses.replace(scenario, fresh=False))
        self._note(scenario, run)
        if inconclusive_reason(run):
            return None
        ended = not isinstance(run.result.termination, Finished | BuildFailed | ToolMissing)
        judgement = Judgement()
        try:
            judgement = self._judged(check, scenario, run)
            counts = ended or (not judgement.findings and self._all_right(scenario, run))
        except NothingToCheckError:  # where all is right, there is nothing in a new process either
            if is_late and self._all_right(scenario, run):
                raise
            counts = False
        except CannotJudgeError:
            counts = False
        if counts:
            return _Settled(run=run, judgement=judgement)
        # What the reference earns is reported for nobody, in whichever process it was seen.
        findings = judgement.findings
        if findings and await self._control.shares(check, scenario, findings):
            return _Settled(run=run, judgement=Judgement(findings=findings))
        return None

    async def _withheld(self, scenario: Scenario, run: Run) -> bool:
        """Whether the candidate alone did not complete a scenario, by what it says itself."""
        claimed = may_lack_memory(scenario, run) or claims_no_tool(run) or claims_no_system(run)
        return claimed and await self._control.completes(scenario)

    def _all_right(self, scenario: Scenario, run: Run) -> bool:
        """Whether every answer is right: after a wrong one a check may have nothing to say.

        What calls answer while the candidate's kernels are switched off is wrong by design, what
        the caller wrote into a result is no answer, nor is a sample of a module's state.
        """
        reads, armed, on, written = reads_of(scenario, run), [], True, set[str]()
        for step in scenario.steps:
            match step:
                case Disarm(active=off):
                    on = not off
                case Overwrite(result=result):
                    written.add(result)
                case ReadResult(result=result):
                    armed.append(on and result not in written)
        if len(reads) < len(armed):
            return False
        answers = Answers(self._trial, run)
        sample = StateSource.SAMPLE.value
        return not any(
            answers.wrong(one)
            for one, counts in zip(reads, armed, strict=True)
            if counts and one.case.scalars.get(STATE_SOURCE) != sample
        )

    def _near_share(self, scenario: Scenario, run: Run) -> float | None:
        """Return the part of the reference's own error that the answers use, None beyond it.

        Within it no truth has to be made.
        """
        found = []
        for read in reads_of(scenario, run):
            share = self._trial.comparing.near_share(read.case, run, read.items)
            if share is None:
                return None
            found.append(share)
        return max(found, default=None)

    async def _pinned(self, scenario: Scenario, run: Run, findings: list[Finding]) -> list[Finding]:
        """Pin a fault of the device to the launch that caused it, by a run that waits for each.

        An asynchronous error is reported by whatever asks next, which may be another kernel.
        """
        raised = first_raised(run)
        cuda = self._trial.device.on_gpu
        if not findings or raised is None or not cuda or not memory_fault(raised):
            return findings
        blocking = dataclasses.replace(scenario, mode=Mode.BLOCKING, fresh=True)
        again = first_raised(await self._run(blocking))
        if again is None:
            said = "the fault did not come again"
        else:
            said = f"{exception_text(again)} in step {again.index + 1}"
        first = dataclasses.replace(
            findings[0],
            details=(*findings[0].details, ("with every launch waited for", said)),
            evidence=(again.traceback or findings[0].evidence) if again else findings[0].evidence,
        )
        return [first, *findings[1:]]

    def _ill_conditioned(self, check: Check, scenario: Scenario, run: Run) -> str:
        """Return why no output of the only case of a scenario can be judged, if so.

        Where no tensor is read, nothing depends on that: truth is not made for it. Nor is it where
        the answers are as near to truth as the reference as written, which is known only of cases
        that decide, or have its bits: a check that compares no closer than that needs no truth.
        That a call on a workload's own inputs raises needs none either. Answers that are no
        numbers are judged where every trusted run has some.
        """
        if len(scenario.cases) != 1 or scenario.fresh:
            return ""
        if scenario.cases[0].benchmark and first_raised(run) is not None:
            return ""
        if not any(step.sends for step in scenario.steps):
            return ""
        if not (check.grades or check.asks_right) and self._near_share(scenario, run) is not None:
            return ""
        truths = self._trial.truths
        searches, comparing = isinstance(check, SearchingCheck), self._trial.comparing
        first = truths.rough if searches else truths.first
        reason = comparing.ill_conditioned(scenario.cases[0], first)
        if (
            reason
            and not searches
            and any(
                compared.is_of_other_class and is_wrong(compared)
                for read in reads_of(scenario, run)
                if not _all_finite(run, read.items)
                for compared in comparing.compare(read.case, run, read.items)
            )
        ):
            return ""  # whichever way its elements flip, they are finite
        return reason


def _all_finite(run: Run, items: Sequence[ResultItem]) -> bool:
    """Whether every number of an answer is finite; integers are."""
    tensors = (run.tensor(item) for item in items if item.buffer >= 0)
    return all(
        bool(one.isfinite().all()) for one in tensors if one.dtype in _LARGE_FLOATS and one.numel()
    )
