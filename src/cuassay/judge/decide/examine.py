"""Run one check on one candidate: scenarios out, runs in, findings judged and controlled."""

from __future__ import annotations

import copy
import dataclasses
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch

from cuassay.checks.base import Check, Run
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
from cuassay.checks.judgement import Answers, Judgement
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CannotJudgeError, NothingToCheckError, ReferenceError_
from cuassay.judge.decide.confirm import confirmed, marginal
from cuassay.judge.decide.control import Control, RunScenario
from cuassay.judge.plan.allowance import AllowanceSpentError
from cuassay.judge.plan.search import Answer, search
from cuassay.judge.run.memory import shortage
from cuassay.judge.trial import JudgeTrial
from cuassay.model.events import CaseFinished, Event, FindingReported
from cuassay.model.outcome import (
    CheckReport,
    Errored,
    Failed,
    Finding,
    FindingClass,
    Inconclusive,
    Outcome,
    Passed,
    Skipped,
)
from cuassay.model.scenario import ReadResult, Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import BuildFailed, Finished, ScenarioResult, ToolMissing
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import Comparison
from cuassay.oracle.truth.outputs import AMBIGUOUS_CAP
from cuassay.sandbox.host.turns import waiting

# A trusted kernel's scale is up to ten of the reference's own errors (`own_error`): to a search,
# what is beyond these counts as nearer to failing than what is within.
_NEAR = 0.1
_ENOUGH = 3  # wrong findings after which a check stops proposing: one cause, many symptoms
_NOTHING_TO_SEARCH = "planned cases fail already: there is nothing to search for"


class BuildStopped(Exception):
    """The candidate cannot be built: no further check can run."""

    def __init__(self, finding: Finding | None, reason: str) -> None:
        self.finding, self.reason = finding, reason
        super().__init__(reason)


@dataclass(slots=True)
class Tally:
    """What one check has seen so far."""

    wrong: list[Finding] = field(default_factory=list)
    unsafe: list[Finding] = field(default_factory=list)
    advice: list[Finding] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)  # not completed; the reference does
    least_decided: float = 1.0
    shared: list[str] = field(default_factory=list)
    ran: int = 0
    clean: int = 0
    aside: dict[str, str] = field(default_factory=dict)  # outputs set aside in some case, and why
    alone: set[str] = field(default_factory=set)  # those of a scenario of one case
    ambiguous: set[str] = field(default_factory=set)  # those whose elements flip in some case
    judged: set[str] = field(default_factory=set)
    seen: list[tuple[Scenario, ScenarioResult]] = field(default_factory=list)  # what passed
    declined: list[str] = field(default_factory=list)  # cases of ours that cannot be judged
    comparisons: list[Comparison] = field(default_factory=list)  # of the runs that count
    remark: str = ""
    inapplicable: str = ""  # why a run showed that the check does not apply
    cut_short: bool = False  # its allowance was spent before it had proposed everything

    def add(self, finding: Finding) -> None:
        """File a finding by its class."""
        match finding.finding_class:
            case FindingClass.WRONG:
                self.wrong.append(finding)
            case FindingClass.UNSAFE:
                self.unsafe.append(finding)
            case FindingClass.ADVICE:
                self.advice.append(finding)

    def take(self, other: Tally) -> None:
        """Add what was seen of another scenario; its findings are added by themselves."""
        self.undecided += other.undecided
        self.withheld += other.withheld
        self.shared += other.shared
        self.declined += other.declined
        self.seen += other.seen
        self.ran += other.ran
        self.clean += other.clean
        self.aside = other.aside | self.aside
        self.alone |= other.alone
        self.ambiguous |= other.ambiguous
        self.judged |= other.judged
        self.comparisons += other.comparisons
        self.inapplicable = self.inapplicable or other.inapplicable

    def weigh(self, comparisons: Sequence[Comparison], *, cases: int) -> None:
        """Note which outputs a scenario judged and which it set aside as ill-conditioned.

        Several cases set none aside for good: each of them says only part of it.
        """
        self.comparisons += comparisons
        for comparison in comparisons:
            if not comparison.undecided:
                self.judged.add(comparison.output)
                continue
            self.aside.setdefault(comparison.output, comparison.undecided)
            if cases == 1:
                self.alone.add(comparison.output)
            if comparison.ambiguous_share > AMBIGUOUS_CAP:
                self.ambiguous.add(comparison.output)

    @property
    def too_little(self) -> str:
        """Why the candidate let too little be decided for a pass, or an empty string."""
        decided = max(0, self.ran - len(self.withheld))
        if not self.withheld or decided >= self.least_decided * self.ran:
            return ""
        count = f"{len(self.withheld)} of {self.ran} scenarios that the reference completes"
        return f"the candidate did not complete {count}: {self.withheld[0]}"

    @property
    def never_judged(self) -> dict[str, str]:
        """The outputs that were set aside in every case, and why."""
        return {o: why for o, why in self.aside.items() if o in self.alone - self.judged}

    def outcome(self) -> Outcome:
        """Return how the check ended."""
        if self.wrong or self.unsafe:
            return Failed(findings=(*self.wrong, *self.unsafe))
        if self.too_little:
            return Inconclusive(reason=self.too_little)
        # What is rounding alone was held to an error beyond reason: a condition, beside outputs
        # that were judged. Of elements that flip not even that is known.
        never = [w for o, w in self.never_judged.items() if not self.judged or o in self.ambiguous]
        if never and self.clean:
            return Inconclusive(reason=f"an output was set aside in every case: {never[0]}")
        if self.inapplicable and not self.clean and not self.undecided:
            return Skipped(reason=self.inapplicable, applicable=False)
        if self.declined and not self.clean and not self.undecided and not self.shared:
            reason = f"the reference takes none of the inputs that were tried: {self.declined[0]}"
            return Skipped(reason=reason, applicable=False)
        notes = [f"the reference fails it too: {text}" for text in self.shared]
        notes += self.undecided + self.withheld
        if self.cut_short and not self.ran:
            return Skipped(reason="the reference takes longer than a check of this profile may")
        if not self.clean:
            return Inconclusive(reason=notes[0] if notes else "no scenario could be judged")
        summary = f"{self.clean} scenario{'s' if self.clean != 1 else ''}"
        if self.remark:
            summary += f"; {self.remark}"
        if self.cut_short:
            summary += "; no time for the others"
        if notes:
            summary += f"; {len(notes)} decided nothing ({notes[0]})"
        for output, why in self.aside.items():
            where = "every case" if output in self.never_judged else "some"
            summary += f"; output '{output}' was set aside in {where} ({why})"
        return Passed(summary=summary)


class Together:
    """What a check proposes, and what is seen of it: each scenario goes to one side of a trial.

    One side examines the check and reports on it. Where the check is `divided`, others that have
    nothing else to do join it. What they see is added up, and told, in the order in which it was
    proposed: as by one side alone.
    """

    def __init__(
        self,
        check: Check,
        tally: Tally,
        proposed: Iterator[Scenario],
        *,
        emit: Callable[[Event], None],
        name: Callable[[Finding], Finding],
    ) -> None:
        self.check = check
        self._tally, self._proposed = tally, proposed
        self._emit, self._name = emit, name
        self._planning, self._changed = threading.Lock(), threading.Condition()
        self._given = self._told = self._joined = 0
        self._ended: dict[int, tuple[Tally, Sequence[Event]]] = {}
        self.failed: list[BaseException] = []  # what was raised in sides that joined
        self.over = False  # nothing more is proposed, or asked for

    def scenarios(self) -> Iterator[tuple[int, Scenario]]:
        """Yield what no side has taken so far, numbered, and so on; in any thread."""
        while not self.over:
            with waiting():
                self._planning.acquire()
            try:
                scenario = None if self.over else next(self._proposed, None)
                number, self._given = self._given, self._given + 1
            finally:
                self._planning.release()
            if scenario is None:
                self.over = True
                return
            yield number, scenario

    def ended(self, number: int, seen: Tally, events: Sequence[Event]) -> None:
        """Take what came of a scenario, whose findings have no names yet."""
        self._ended[number] = seen, events
        while self._told in self._ended and len(self._tally.wrong) < _ENOUGH:
            seen, events = self._ended.pop(self._told)
            self._told += 1
            self._tally.take(seen)
            for event in events:
                if isinstance(event, FindingReported):
                    event = FindingReported(finding=self._name(event.finding))
                    self._tally.add(event.finding)
                self._emit(event)
        self.over = self.over or len(self._tally.wrong) >= _ENOUGH

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Take part in this block; what it raises is kept for the side that examines the check."""
        with self._changed:
            self._joined += 1
        try:
            yield
        except BaseException as error:
            self.over = True
            self.failed.append(error)
        finally:
            with self._changed:
                self._joined -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """Give out no more, and wait until those that take part have judged what they took."""
        self.over = True
        with waiting(), self._changed:
            self._changed.wait_for(lambda: not self._joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """A run of a scenario, what its check says of it, and why it decides nothing, if so."""

    run: Run
    judgement: Judgement
    undecided: str = ""


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


class Examination:
    """Runs checks on the candidate, with the reference as control."""

    def __init__(
        self,
        trial: JudgeTrial,
        *,
        run: RunScenario,
        control: Control,
        emit: Callable[[Event], None],
        name: Callable[[Finding], Finding],
        ahead: Callable[[Sequence[Scenario]], None] | None = None,
        room: Callable[[Scenario], AbstractContextManager[None]] = lambda scenario: nullcontext(),
        beside: Examination | None = None,
    ) -> None:
        """`room` is entered around each scenario: it may wait until one has room beside others.

        What is found wrong is known to this one and the one `beside` it.
        """
        self._trial, self._run, self._control, self._room = trial, run, control, room
        self._ahead = ahead
        self._near: float | None = None  # what the last run used of the reference's own error
        self._emit, self._name = emit, name
        self._rejected: threading.Event = threading.Event() if beside is None else beside._rejected
        self._together: Together | None = None
        # Comparisons of plain calls, which tell the precision that the kernel keeps.
        self.graded: list[Comparison] = []

    def examine(self, check: Check) -> CheckReport:
        """Run one check to its end. Raises BuildStopped where the candidate cannot be built."""
        started = time.perf_counter()
        tally = Tally(least_decided=check.least_decided)
        outcome: Outcome
        try:
            outcome = self._with_room(check, tally)
        except NothingToCheckError as error:
            outcome = Skipped(reason=str(error), applicable=False)
        except CannotJudgeError as error:
            outcome = Inconclusive(reason=str(error))
        except torch.OutOfMemoryError:
            self._trial.relieve()
            outcome = Inconclusive(reason="out of memory in the judge while planning the check")
        except (BuildStopped, KeyboardInterrupt):
            raise
        except Exception as error:  # a fault of the check must not lose the other checks
            outcome = Errored(
                reason=f"{type(error).__name__}: {error}", traceback=traceback.format_exc()
            )
        if tally.wrong and not isinstance(outcome, Failed):
            outcome = tally.outcome()  # what was seen before the check ended so stands
        if check.grades:  # others make answers wrong by design, with kernels disarmed say
            self.graded += tally.comparisons
        if check.code == "NUM001" and tally.judged:
            self._trial.note_never_judged(tally.never_judged)
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
        if report.wrong:
            self._rejected.set()
        return report

    @property
    def shared(self) -> Check | None:
        """The check that it examines now, where others may run scenarios of it that are left."""
        return None if self._together is None or self._together.over else self._together.check

    def join(self, other: Examination) -> None:
        """Run scenarios of what `other` examines, which reports on them."""
        together = other._together
        if together is not None:
            self._trial.begin_check(together.check.worth)
            with together.joined():
                self._take_part(together)

    def _take_part(self, together: Together) -> None:
        for number, scenario in together.scenarios():
            events: list[Event] = []
            own = copy.copy(self)
            own._emit, own._name = events.append, lambda finding: finding
            seen = Tally()
            try:
                with self._room(scenario):
                    own._guarded(together.check, scenario, seen)
            finally:
                together.ended(number, seen, events)

    def _skipped(self, check: Check) -> Skipped | None:
        """Return why a check does not run, if it does not."""
        if check.gpu_only and not self._trial.device.startswith("cuda"):
            reason = f"needs an NVIDIA GPU: this trial runs on the {self._trial.device}"
            return Skipped(reason=reason, applicable=False, needs_gpu=True)
        reason = check.skip(self._trial)
        if not reason and check.searches and self._rejected.is_set():
            reason = _NOTHING_TO_SEARCH
        if not reason and check.after_clean and self._rejected.is_set():
            reason = "other checks rejected the kernel already"
        if reason:
            return Skipped(reason=reason, applicable=False)
        missing = check.missing()
        return Skipped(reason=missing) if missing else None

    def _with_room(self, check: Check, tally: Tally) -> Outcome:
        """Return what a check finds.

        Where planning meets our own bound on memory, or the reference refuses all that it accepted
        without data, plan again.
        """
        while True:
            try:
                outcome = self._skipped(check) or self._outcome(check, tally)
            except torch.OutOfMemoryError:
                if tally.ran or not self._trial.relieve():
                    raise
                continue
            if tally.ran or not tally.declined or not self._trial.plan_with_data():
                return outcome
            tally.declined.clear()

    def _outcome(self, check: Check, tally: Tally) -> Outcome:
        """Run what a check proposes, then what a search for it comes upon."""
        proposed: Iterable[Scenario] = self._affordable(check, tally)
        if check.side_by_side and self._ahead is not None:
            proposed = list(proposed)
            if len(proposed) > 1:
                self._ahead(proposed)
        together = Together(check, tally, iter(proposed), emit=self._emit, name=self._name)
        self._together = together if check.divided else None
        try:
            self._take_part(together)
        finally:
            together.end()
            self._together = None
        if together.failed:
            raise together.failed[0]
        if len(tally.wrong) >= _ENOUGH:
            return tally.outcome()
        if check.searches:
            search(
                self._trial,
                lambda case: self._answer(check, check.on_case(case), tally),
                going=lambda: not self._rejected.is_set(),
            )
            # A check beside this one found the kernel wrong meanwhile.
            if self._rejected.is_set() and not tally.wrong:
                return Skipped(reason=_NOTHING_TO_SEARCH, applicable=False)
        tally.remark = check.said(self._trial, tally.seen)
        return tally.outcome()

    def _affordable(self, check: Check, tally: Tally) -> Iterator[Scenario]:
        """Yield what a check proposes until its allowance is spent: the first one always."""
        allowance = self._trial.begin_check(check.worth)
        proposed = iter(check.propose(self._trial))
        while True:
            allowance.planning, scenario = True, None
            try:
                scenario = next(proposed, None)
            except (AllowanceSpentError, NothingToCheckError):
                if not allowance.spent:  # nothing was found, and everything was tried
                    raise
            finally:
                allowance.planning = False
            if scenario is None or not allowance.allows(self._trial.scenario_s(scenario)):
                tally.cut_short = scenario is not None or allowance.spent
                break
            yield scenario
        if tally.cut_short:
            self._trial.cut_short(check.code)

    def _answer(self, check: Check, scenario: Scenario, tally: Tally) -> Answer:
        """Run one searched scenario and say what a search learns from it."""
        wrong, self._near = len(tally.wrong), None
        compared = self._guarded(check, scenario, tally)
        shares = [comparison.share for comparison in compared if not comparison.undecided]
        if not shares and self._near is not None:
            shares = [_NEAR * self._near]
        return Answer(share=max(shares, default=None), failed=len(tally.wrong) > wrong)

    def _guarded(
        self, check: Check, scenario: Scenario, tally: Tally, *, again: bool = True
    ) -> tuple[Comparison, ...]:
        """Run one scenario; one that cannot be judged loses no finding of the others.

        Return what was compared. Where memory is short it runs once more (`again`) after what is
        kept has been let go.
        """
        try:
            return self._one(check, scenario, tally)
        except NothingToCheckError as error:
            tally.inapplicable = tally.inapplicable or str(error)
        except ReferenceError_ as error:
            # Inputs that we chose and the reference refuses say nothing of the kernel.
            chosen = not any(case.benchmark for case in scenario.cases)
            foreign = self._trial.problem.origin != "native"
            (tally.declined if chosen and foreign else tally.undecided).append(str(error))
        except CannotJudgeError as error:
            tally.undecided.append(str(error))
        except torch.OutOfMemoryError:
            if self._trial.relieve() or again:
                self._trial.end_idle()
                return self._guarded(check, scenario, tally, again=False)
            # A candidate may have taken the memory: never a reason to pass over a check.
            tally.undecided.append(f"out of memory in the judge ({scenario.label})")
        return ()

    def _one(self, check: Check, scenario: Scenario, tally: Tally) -> tuple[Comparison, ...]:
        """Run one scenario on the candidate and, where it fails, on the reference.

        Return what was compared of the candidate's answers.
        """
        started = time.perf_counter()
        settled = self._settled(check, scenario)
        run, reason = settled.run, settled.undecided
        findings, compared = list(settled.judgement.findings), settled.judgement.comparisons
        tally.ran += 1
        tally.weigh(compared, cases=len(scenario.cases))
        if findings and (earned := self._shared(check, scenario, findings)):
            tally.shared.append(earned)
            return compared
        if findings and not self._trial.repeats(scenario.cases[0]):
            findings, reason = self._beyond_spread(check, scenario, findings)
        findings = self._pinned(scenario, run, findings)
        if marginal(findings) and scenario.cases:
            findings, reason = self._confirmed(check, scenario, findings, reason)
        if reason and self._withheld(scenario, run):
            tally.withheld.append(reason)
        elif reason:
            tally.undecided.append(reason)
        elif not findings:
            tally.clean += 1
            tally.seen.append((scenario, run.result))
        for finding in map(self._name, findings):
            tally.add(finding)
            self._emit(FindingReported(finding=finding))
        duration_s = time.perf_counter() - started
        self._emit(CaseFinished(code=check.code, label=scenario.label, duration_s=duration_s))
        return compared

    def _shared(self, check: Check, scenario: Scenario, findings: Sequence[Finding]) -> str:
        """Return what the reference earns on a scenario that the candidate fails, or nothing.

        At `quick` the same code on the same output; beyond it, on more and harder scenarios,
        whatever it earns: what the operator's own definition does not survive decides nothing.
        """
        if self._trial.profile is Profile.QUICK:
            return findings[0].message if self._control.shares(check, scenario, findings) else ""
        earned = self._control.findings(check, scenario)
        return earned[0].message if earned else ""

    def _judged(self, check: Check, scenario: Scenario, run: Run) -> Judgement:
        """Return what is said of a run of the candidate; the first failure of all is graded."""
        judgement = judge_scenario(self._trial, check, scenario, run, grade=not self._trial.graded)
        self._trial.note(judgement)
        return judgement

    def _settled(self, check: Check, scenario: Scenario) -> _Settled:
        """Run and judge a scenario.

        At `quick`, and always for a check whose clean passes count, a scenario that asks for a new
        process, a CUDA context on a GPU, first runs in the one at hand. Only a clean pass with
        every answer right counts there, or the end of the process; all else is asked again in a
        new process, and that answer counts.
        """
        quick = self._trial.profile is Profile.QUICK
        if quick and check.late:
            scenario = dataclasses.replace(scenario, fresh=True)
        shares = quick or check.clean_counts
        if shares and scenario.fresh and (check.late or not check.own_process):
            settled = self._beside_others(check, scenario)
            if settled is not None:
                return settled
        run = self._run(scenario)
        self._raise_if_unbuilt(scenario, run)
        reason = self._nothing_shown(scenario, run)
        self._near = self._near_share(scenario, run) if check.asks_right and not reason else None
        if not reason and self._near is None:
            reason = self._ill_conditioned(scenario, roughly=check.searches)
        if reason:
            return _Settled(run=run, judgement=Judgement(), undecided=reason)
        judgement = self._judged(check, scenario, run)
        return _Settled(run=run, judgement=judgement, undecided=judgement.undecided)

    def _nothing_shown(self, scenario: Scenario, run: Run) -> str:
        """Return why a run shows nothing of the candidate, or an empty string.

        Out of memory counts where the judge sees too little of it; elsewhere it is what any
        other exception is.
        """
        if may_lack_memory(scenario, run) and not claims_no_tool(run):
            return shortage(self._trial.device, scenario, self._trial.problem)
        return inconclusive_reason(run)

    def _withheld(self, scenario: Scenario, run: Run) -> bool:
        """Whether the candidate alone did not complete a scenario, by what it says itself."""
        claimed = may_lack_memory(scenario, run) or claims_no_tool(run) or claims_no_system(run)
        return claimed and self._control.completes(scenario)

    def _beside_others(self, check: Check, scenario: Scenario) -> _Settled | None:
        """Return a run in the process at hand where it is conclusive."""
        run = self._run(dataclasses.replace(scenario, fresh=False))
        if inconclusive_reason(run):
            return None
        ended = not isinstance(run.result.termination, Finished | BuildFailed | ToolMissing)
        judgement = Judgement()
        try:
            judgement = self._judged(check, scenario, run)
            counts = ended or (not judgement.findings and self._all_right(scenario, run))
        except NothingToCheckError:  # where all is right, there is nothing in a new process either
            if check.late and self._all_right(scenario, run):
                raise
            counts = False
        except CannotJudgeError:
            counts = False
        if counts:
            return _Settled(run=run, judgement=judgement)
        # What the reference earns is reported for nobody, in whichever process it was seen.
        findings = judgement.findings
        if findings and self._control.shares(check, scenario, findings):
            return _Settled(run=run, judgement=Judgement(findings=findings))
        return None

    def _all_right(self, scenario: Scenario, run: Run) -> bool:
        """Whether every answer is right: after a wrong one a check may have nothing to say."""
        reads = reads_of(scenario, run)
        if len(reads) < sum(isinstance(step, ReadResult) for step in scenario.steps):
            return False
        answers = Answers(self._trial, run)
        return not any(answers.wrong(read) for read in reads)

    def _near_share(self, scenario: Scenario, run: Run) -> float | None:
        """Return the part of the reference's own error that the answers use, None beyond it.

        Within it no truth has to be made.
        """
        found = []
        for read in reads_of(scenario, run):
            share = self._trial.near_share(read.case, run, read.items)
            if share is None:
                return None
            found.append(share)
        return max(found, default=None)

    def _pinned(self, scenario: Scenario, run: Run, findings: list[Finding]) -> list[Finding]:
        """Pin a fault of the device to the launch that caused it, by a run that waits for each.

        An asynchronous error is reported by whatever asks next, which may be another kernel.
        """
        raised = first_raised(run)
        cuda = self._trial.device.startswith("cuda")
        if not findings or raised is None or not cuda or not memory_fault(raised):
            return findings
        blocking = dataclasses.replace(scenario, mode=Mode.BLOCKING, fresh=True)
        again = first_raised(self._run(blocking))
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

    def _confirmed(
        self, check: Check, scenario: Scenario, findings: list[Finding], reason: str
    ) -> tuple[list[Finding], str]:
        """Keep findings by a small margin if other values by the same recipes fail too."""

        def judged(again: Scenario) -> Iterable[Finding]:
            if self._ill_conditioned(again):
                raise CannotJudgeError("ill-conditioned")
            return judge_scenario(self._trial, check, again, self._run(again)).findings

        luck = confirmed(self._trial, scenario, findings, judged=judged)
        return ([], luck) if luck else (findings, reason)

    def _beyond_spread(
        self, check: Check, scenario: Scenario, findings: list[Finding]
    ) -> tuple[list[Finding], str]:
        """Keep what twice the spread of a reference that is not deterministic cannot explain."""
        allowed = 2.0 * self._control.spread(check, scenario)
        kept = [f for f in findings if f.share is None or f.share > max(allowed, 1.0)]
        if kept:
            return kept, ""
        return [], "within twice the spread of the reference, which is not deterministic"

    def _ill_conditioned(self, scenario: Scenario, *, roughly: bool = False) -> str:
        """Return why no output of the only case of a scenario can be judged, if so.

        Where no tensor is read, nothing depends on that: truth is not made for it.
        """
        if len(scenario.cases) != 1 or scenario.fresh:
            return ""
        if not any(step.sends for step in scenario.steps):
            return ""
        first = self._trial.rough if roughly else self._trial.first_truth
        return first(scenario.cases[0]).ill_conditioned

    def _raise_if_unbuilt(self, scenario: Scenario, run: Run) -> None:
        match run.result.termination:
            case BuildFailed(out_of_memory=True) if shortage(
                self._trial.device, scenario, self._trial.problem
            ):
                raise BuildStopped(
                    None, shortage(self._trial.device, scenario, self._trial.problem)
                )
            case BuildFailed():
                raise BuildStopped(termination_finding(scenario, run), "it does not build")
            case ToolMissing(what=what):
                raise BuildStopped(None, what)
            case _:
                return
