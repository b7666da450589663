"""One trial from job to verdict."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from cuassay.checks.gpu.timing import timed
from cuassay.checks.machine.faults import MachineCheck, recording_of
from cuassay.checks.registry import all_checks
from cuassay.checks.state.apart import Apart001
from cuassay.diagnosis import diagnose
from cuassay.errors import CuassayError
from cuassay.judge import benchmark_rule, failures, power, selection, speed
from cuassay.judge.blamed_lines import with_text
from cuassay.judge.choose import choose
from cuassay.judge.clues import gather
from cuassay.judge.control import Control, reference_candidate
from cuassay.judge.decide import bind, conditions, decide
from cuassay.judge.environment import environment
from cuassay.judge.examine import BuildStopped, Examination, judge_scenario
from cuassay.judge.executed_by import executed_by
from cuassay.judge.machine import HostNursery, Replayer
from cuassay.judge.minimise import Minimiser
from cuassay.judge.preconditions import check_constraints, generate_once
from cuassay.judge.runner import Runner
from cuassay.judge.smoke import smoke
from cuassay.judge.source_views import source_views
from cuassay.judge.timeline import Timeline
from cuassay.judge.trial import JudgeTrial, Truths
from cuassay.judge.tried import Tried
from cuassay.model import walls
from cuassay.model.candidate import Candidate
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.events import (
    CheckFinished,
    CheckStarted,
    DecisionReached,
    EngineStarted,
    Event,
    Progress,
)
from cuassay.model.jobs import TrialJob
from cuassay.model.machine import SourceView
from cuassay.model.outcome import (
    CheckReport,
    Failed,
    Finding,
    FindingClass,
    Outcome,
    Skipped,
)
from cuassay.model.problem import Problem
from cuassay.model.scenario import Allocate, Call, Scenario
from cuassay.model.verdict import (
    BenchmarkRule,
    Decision,
    Lane,
    Power,
    Profile,
    Speed,
    Timing,
    Verdict,
)
from cuassay.oracle.grade import grade
from cuassay.sandbox.host.nursery import Nursery

if TYPE_CHECKING:
    from cuassay.checks.base import Check
    from cuassay.formats.execute import LoadedReference
    from cuassay.oracle.compare.outputs import Comparison

T = TypeVar("T")
# Others bring about conditions in which answers may be wrong by design, kernels disarmed say.
_GRADED = ("KNOWN001", "NUM001", "NUM002", "META001", "SHP001", "FUZZ001")
_MINIMISED = 2  # findings that get a minimal counterexample: the worst ones


class Session:
    """Judges one candidate; `emit` receives every event."""

    def __init__(
        self,
        job: TrialJob,
        problem: Problem,
        candidate: Candidate,
        *,
        reference: LoadedReference,
        device: str,
        digest: str,
        toolchain: Mapping[str, str],
        emit: Callable[[Event], None],
        started: float,
        nursery: Nursery | None = None,
        truths: Truths | None = None,
    ) -> None:
        self._job, self._candidate, self._emit = job, candidate, emit
        self._nursery = nursery
        self._device, self._digest, self._toolchain = device, digest, toolchain
        self._started = started
        if device.startswith("cuda"):  # a judge that is kept has judged others
            torch.cuda.reset_peak_memory_stats(device)
        # Drawn only now: the candidate's digest is fixed before any input exists.
        self.seed = job.seed if job.seed is not None else secrets.randbits(62)
        self.trial = JudgeTrial(
            problem,
            reference,
            profile=job.profile,
            device=device,
            root_seed=self.seed,
            truths=truths,
            isolated=job.isolated,
            gpu_memory_gib=job.gpu_memory_gib,
            timeline=Timeline(started),
        )
        self._stack = ExitStack()
        self._host = HostNursery(nursery)
        self._stack.callback(self._host.close)
        self._count = 0
        self.graded: list[Comparison] = []  # of plain calls: what they say of the arithmetic
        self._speed: Speed | None = None
        self._sources: tuple[SourceView, ...] = ()
        self._walls: Mapping[str, str] = {}
        self._kind, self._because = "", ""  # what the candidate's worker says that it built

    def judge(self) -> Verdict:
        """Run every check and return the verdict."""
        self._announce([check.code for check in self._checks()])
        check_constraints(self.trial)
        with self._stack:
            # Its worker starts to build at once, beside the reference's first run.
            quick = self._job.profile is Profile.QUICK  # few scenarios need a new process
            runner = self._stack.enter_context(
                self._runner(self._candidate, spares=1 if quick else None)
            )
            with self.trial.timeline.span(Lane.JUDGE, "the reference on its smallest case"):
                smoke(self.trial)
                generate_once(self.trial)
            self._use_machine()
            self._tune(runner)
            control = self._control()
            reports, extras = self._examine(runner, control)
            build_s, candidate_s = runner.build_s, runner.candidate_s
            self._kind, self._because = runner.kind, runner.because
            self._walls = runner.walls
            self._sources = source_views(self._candidate, self._replayer.seen)
            bound = bind(reports, self._job.require)
            diagnoses = self._diagnosed(bound, runner)
        decision, reason = decide(bound, profile=self._job.profile)
        timing = Timing(
            total_s=time.time() - self._started,
            build_s=build_s,
            truth_s=self.trial.truth_s,
            candidate_s=candidate_s,
            compare_s=self.trial.compare_s,
        )
        verdict = self._verdict(decision, reason, bound, timing=timing, extras=extras)
        if diagnoses:
            first = diagnoses[0]
            where = f" ({first.line.file}:{first.line.line})" if first.line is not None else ""
            verdict = dataclasses.replace(verdict, reason=f"{first.words.rstrip('.')}{where}")
        blamed = {made.line.file for made in diagnoses if made.line is not None}
        known = {view.file for view in verdict.sources}
        views = tuple(
            SourceView(file=source.path, text=source.text)
            for source in self._candidate.sources
            if source.path in blamed - known
        )
        return dataclasses.replace(verdict, diagnoses=diagnoses, sources=(*verdict.sources, *views))

    def _checks(self) -> tuple[Check, ...]:
        return all_checks()

    def _announce(self, codes: list[str]) -> None:
        self._emit(
            EngineStarted(
                run=Path(self._job.run_dir).name,
                problem=self.trial.problem.name,
                candidate=self._candidate.name,
                profile=self._job.profile.value,
                device=self._device,
                digest=self._digest,
                checks=tuple(codes),
                seed=self.seed,
            )
        )

    def _runner(
        self,
        candidate: Candidate,
        *,
        lazy: bool = False,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
    ) -> Runner:
        return Runner(
            self.trial,
            candidate,
            device=self._device,
            nursery=self._nursery,
            lazy=lazy,
            host=self._host,
            spares=spares,
            lane=lane,
        )

    def _use_machine(self) -> None:
        """Let checks execute the candidate's launches, in a process that it does not own."""
        self._replayer = self._stack.enter_context(
            Replayer(
                self._candidate,
                self._digest,
                profile=self._job.profile,
                host=self._host,
                device=self.trial.device,
                timeline=self.trial.timeline,
            )
        )
        self.trial.use_machine(self._replayer)
        self.trial.read_sources(source.text for source in self._candidate.sources)

    def _tune(self, runner: Runner) -> None:
        """Let the candidate's autotuners choose at a listed size: every size uses that choice."""

        def tune() -> None:
            if runner.tunes:
                case = timed(self.trial).cases[0]
                steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"))
                runner(Scenario(label="autotuning at a listed size", cases=(case,), steps=steps))

        if self._device.startswith("cuda"):
            self._optional("", tune)  # what goes wrong here goes wrong in a check, which says so

    def _control(self) -> Control:
        candidate = reference_candidate(self.trial.problem)
        # At `quick` it runs only where the candidate fails, and then a scenario or two.
        quick = self._job.profile is Profile.QUICK
        runner = self._stack.enter_context(
            self._runner(candidate, lazy=quick, spares=0 if quick else None, lane=Lane.REFERENCE)
        )
        return Control(self.trial, runner, lambda c, s, r: judge_scenario(self.trial, c, s, r))

    def _examine(
        self, runner: Runner, control: Control
    ) -> tuple[list[CheckReport], tuple[BenchmarkRule | None, Power | None]]:
        self._tried = Tried(self.trial.problem, runner)
        examination = Examination(
            self.trial,
            run=self._tried,
            control=control,
            emit=self._emit,
            name=self._named,
            ahead=runner.ahead,
        )
        reports: list[CheckReport] = []
        before: Check | None = None
        entry = self._candidate.entry_file
        # A given seed asks for the same trial again: what others left must not change it.
        known = failures.known(self.trial.problem, entry) if self._job.seed is None else ()
        self.trial.preset("known", known)
        if self._device.startswith("cuda"):
            self._optional("", lambda: self._begin(runner))
        try:
            for check in self._checks():
                report = self._checked(check, before, examination, runner)
                before = check if report.scenarios else before
                reports.append(report)
                if self._job.fail_fast and has_wrong(report):
                    break
        except BuildStopped as stopped:
            report = self._build_report(stopped)
            self._emit(CheckFinished(report=report))
            return [report], (None, None)
        decision, reason = decide(bind(reports, self._job.require), profile=self._job.profile)
        self._emit(DecisionReached(decision=decision, reason=reason))
        if self._job.fail_fast and decision is Decision.REJECTED:
            ran = {report.code for report in reports}
            rest = [check for check in self._checks() if check.code not in ran]
            return reports + [_not_run(check) for check in rest], (None, None)
        reports = self._minimised(reports, runner, control)
        if not self._job.isolated:
            failures.keep(self.trial.problem, entry, failures.failing_cases(reports))
        eager = self._optional("", lambda: self._reference_to_time(runner))
        rule = self._optional(
            "the benchmark's own rule", lambda: benchmark_rule.evaluate(self.trial, runner)
        )
        measured = self._optional("power of the inputs", lambda: power.measure(self.trial))
        self._time(runner, eager)
        self._select()
        return reports, (rule, measured)

    def _begin(self, runner: Runner) -> None:
        """Begin what takes a while and needs neither the GPU's worker nor this process.

        The PTX machine executes a first recording, and the candidate builds and runs in a process
        apart, beside the checks that come before theirs. What fails here fails there again.
        """
        machine_begins = False
        for check in self._checks():
            if isinstance(check, MachineCheck) and machine_begins:
                continue
            if not isinstance(check, MachineCheck | Apart001) or check.skip(self.trial):
                continue
            scenario = next(iter(check.propose(self.trial)), None)
            if isinstance(check, Apart001) and scenario is not None:
                with suppress(CuassayError):  # it will say why it cannot be
                    runner.ahead([scenario])
            elif scenario is not None:
                machine_begins = True
                recording = recording_of(runner(scenario))
                if recording is not None:
                    self._replayer.begin(recording, scenario)

    def _checked(
        self, check: Check, before: Check | None, examination: Examination, runner: Runner
    ) -> CheckReport:
        """Run one check; `before` is the last one that ran a scenario."""
        self._emit(CheckStarted(code=check.code, title=check.title))
        waiting, mark = runner.fresh, len(self.trial.comparisons)
        runner.fresh = waiting or self._parts(before, check)
        self._tried.code = check.code
        with self.trial.timeline.span(Lane.JUDGE, check.code):
            report = examination.examine(check)
        if not report.scenarios:
            runner.fresh = waiting
        if check.code in _GRADED:
            self.graded += self.trial.comparisons[mark:]
        self._emit(CheckFinished(report=report))
        return report

    def _parts(self, before: Check | None, check: Check) -> bool:
        """Whether a check needs another process than the one before it.

        Groups of checks have processes of their own. At `quick` they share one, unless a check
        changes or reads what is the whole process's: on a GPU each process costs a context.
        """
        if before is None or check.own_process:
            return True
        if before.own_process and not before.only_reads:
            return True
        return self._job.profile is not Profile.QUICK and before.group != check.group

    def _reference_to_time(self, runner: Runner) -> Runner | None:
        """Return the reference's runner, whose worker builds while the power is measured.

        None where a time says nothing: on a CPU at `quick`, and where kernels are executed or
        interpreted.
        """
        quick = self._job.profile is Profile.QUICK
        self._kind = runner.kind
        if self._device_condition() or (quick and not self._device.startswith("cuda")):
            return None
        reference = reference_candidate(self.trial.problem)
        return self._stack.enter_context(self._runner(reference, spares=0, lane=Lane.REFERENCE))

    def _time(self, runner: Runner, eager: Runner | None) -> None:
        """Time the candidate beside the reference: what the risk of running it buys."""
        if eager is None:
            return

        def compiled() -> Runner:
            reference = speed.compiled_reference(reference_candidate(self.trial.problem))
            return self._stack.enter_context(self._runner(reference, spares=0, lane=Lane.REFERENCE))

        self._speed = self._optional(
            "the time of a call",
            lambda: speed.measure(self.trial, runner, eager, compiled=compiled),
        )

    def _select(self) -> None:
        """Choose the regimes that later trials of this problem run first; `quick` never does."""
        problem = self.trial.problem
        quick = self._job.profile is Profile.QUICK
        if quick or self._job.isolated or selection.load(problem) is not None:
            return
        chosen = self._optional("the input regimes for later trials", lambda: choose(self.trial))
        if chosen is not None:
            selection.store(problem, chosen)

    def _optional(self, what: str, make: Callable[[], T | None]) -> T | None:
        """Return what stands beside the verdict; its failure must not lose the verdict."""
        if what:
            self._emit(Progress(text=what))
        try:
            with self.trial.timeline.span(Lane.JUDGE, what or "preparations"):
                return make()
        except CuassayError as error:
            self._emit(Progress(text=str(error)))
        except Exception as error:
            self._emit(Progress(text=f"a fault of cuassay beside the verdict: {error!r}"))
        return None

    def _minimised(
        self, reports: list[CheckReport], runner: Runner, control: Control
    ) -> list[CheckReport]:
        """Give the worst wrong findings, at most one a check, a minimal counterexample."""
        left = _MINIMISED
        out: list[CheckReport] = []
        by_code = {check.code: check for check in self._checks()}
        for report in reports:
            outcome = report.outcome
            if isinstance(outcome, Failed) and left and report.code in by_code:
                worst = _worst(outcome.findings)
                if worst is not None:
                    left -= 1
                    self._emit(Progress(text=f"smallest failing input for {report.code}"))
                    check = by_code[report.code]
                    minimiser = Minimiser(self.trial, check, run=runner, control=control)
                    rest = [found for found in outcome.findings if found is not worst]
                    with self.trial.timeline.span(Lane.JUDGE, f"smallest input for {check.code}"):
                        changed = (minimiser.minimise(worst), *rest)
                    outcome = dataclasses.replace(outcome, findings=changed)
                    report = dataclasses.replace(report, outcome=outcome)
            out.append(report)
        return out

    def _diagnosed(self, reports: Sequence[CheckReport], runner: Runner) -> tuple[Diagnosis, ...]:
        """Return the causes of what was found, by experiments with the candidate."""
        outcomes = [report.outcome for report in reports]
        found = [f for one in outcomes if isinstance(one, Failed) for f in one.findings]
        if not any(finding.finding_class is FindingClass.WRONG for finding in found):
            return ()
        clues = self._optional(
            "the cause",
            lambda: gather(
                self.trial,
                runner,
                self._candidate,
                found,
                self._replayer.seen,
                runs=lambda edited: Runner(
                    self.trial,
                    edited,
                    device=self._device,
                    nursery=runner.nursery,
                    spares=0,
                    host=self._host,
                ),
            ),
        )
        return tuple(with_text(made, self._candidate) for made in diagnose(found, clues))

    def _named(self, finding: Finding) -> Finding:
        """Give a finding its id within the run and the command that reproduces it."""
        self._count += 1
        run = self._job.run_label or Path(self._job.run_dir).name or "RUN"
        return dataclasses.replace(
            finding, id=f"F{self._count}", reproduce=f"cuassay replay {run}/F{self._count}"
        )

    def _verdict(
        self,
        decision: Decision,
        reason: str,
        reports: tuple[CheckReport, ...],
        *,
        timing: Timing,
        extras: tuple[BenchmarkRule | None, Power | None],
    ) -> Verdict:
        kind = "float32" if "float32" in self.trial.kinds else "float64"
        return Verdict(
            decision=decision,
            reason=reason,
            problem=self.trial.problem.name,
            candidate=self._candidate.name,
            profile=self._job.profile,
            device=self._device,
            digest=self._digest,
            truth=kind,
            truth_reason=self.trial.kinds.get(kind, ""),
            precision_grade=grade(self.graded),
            checks=reports,
            conditions=(
                *conditions(reports),
                *self._device_condition(),
                *self._unconfined(),
                *self.trial.memory_conditions,
            ),
            benchmark_rule=extras[0],
            power=extras[1],
            timing=timing,
            environment=environment(self._device, self._toolchain),
            seed=self.seed,
            run=Path(self._job.run_dir).name,
            coverage=self._tried.coverage(),
            speed=self._speed,
            sources=self._sources,
            timeline=tuple(self.trial.timeline.spans),
            walls=self._walls,
        )

    def _unconfined(self) -> tuple[str, ...]:
        text = walls.condition(self._walls) if self._walls else ""
        return (text,) if text else ()

    def _device_condition(self) -> tuple[str, ...]:
        said = executed_by(self._candidate, self._device, self._kind, because=self._because)
        return (said,) if said else ()

    def _build_report(self, stopped: BuildStopped) -> CheckReport:
        outcome: Outcome = Skipped(reason=stopped.reason)
        if stopped.finding is not None:
            outcome = Failed(findings=(self._named(stopped.finding),))
        title = "The candidate builds and imports"
        return CheckReport(code="BUILD001", title=title, outcome=outcome)


def has_wrong(report: CheckReport) -> bool:
    """Whether a check saw a wrong result, which rejects whatever is required."""
    outcome = report.outcome
    return isinstance(outcome, Failed) and any(
        finding.finding_class is FindingClass.WRONG for finding in outcome.findings
    )


def _not_run(check: Check) -> CheckReport:
    why = Skipped(reason="--fail-fast: an earlier check rejected the kernel")
    return CheckReport(code=check.code, title=check.title, outcome=why)


def _worst(findings: Sequence[Finding]) -> Finding | None:
    """Return the wrong finding that overspends most among those that can be shrunk."""
    wrong = [
        finding
        for finding in findings
        if finding.finding_class is FindingClass.WRONG
        and finding.scenario is not None
        and len(finding.scenario.cases) == 1
        and finding.scenario.cases[0].state is None
    ]
    return max(wrong, key=lambda finding: finding.share or 0.0, default=None)
