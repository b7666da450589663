"""One trial from job to verdict."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

from cuassay import build
from cuassay.build.cuda_facade import MULTIPROCESSORS
from cuassay.checks.gpu.timing import timed
from cuassay.checks.interface.initial_state import STATE_OF
from cuassay.checks.machine.faults import MachineCheck, recording_of
from cuassay.checks.registry import all_checks
from cuassay.checks.state.apart import Apart001
from cuassay.diagnosis import diagnose
from cuassay.errors import CuassayError
from cuassay.formats.execute import load_reference
from cuassay.inputs.seeds import new_root
from cuassay.judge.decide import benchmark_rule
from cuassay.judge.decide.control import Control, reference_candidate
from cuassay.judge.decide.examine import BuildStopped, Examination, judge_scenario
from cuassay.judge.decide.executed_by import executed_by
from cuassay.judge.decide.refused_sizes import follow_sizes
from cuassay.judge.decide.tried import Tried
from cuassay.judge.decide.verdict import bind, conditions, decide, decide_proofs
from cuassay.judge.diagnose.blamed_lines import with_text
from cuassay.judge.diagnose.clues import gather
from cuassay.judge.diagnose.minimise import Minimiser
from cuassay.judge.diagnose.source_views import source_views
from cuassay.judge.environment import choose_device, environment
from cuassay.judge.kept import failures
from cuassay.judge.measure import power, selection, speed
from cuassay.judge.measure.choose import choose
from cuassay.judge.plan.launch_sizes import LaunchProbe
from cuassay.judge.plan.preconditions import check_constraints, generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.run.bookings import Booking, Queue, gpu_of
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.run.runner import Runner
from cuassay.judge.run.stuck import ended_where_stuck
from cuassay.judge.timeline import Timeline
from cuassay.judge.trial import JudgeTrial, Truths
from cuassay.model import walls
from cuassay.model.candidate import Candidate, Language
from cuassay.model.conditions import wanted_proofs
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.events import (
    CheckFinished,
    CheckStarted,
    DecisionReached,
    EngineStarted,
    Event,
    FindingReported,
    Progress,
)
from cuassay.model.jobs import TrialJob
from cuassay.model.machine import SourceView
from cuassay.model.outcome import (
    CheckReport,
    Failed,
    Finding,
    Outcome,
    Skipped,
)
from cuassay.model.problem import Problem
from cuassay.model.proofs import Proof, Property
from cuassay.model.scenario import Allocate, Call, Scenario
from cuassay.model.steps import Mode
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
from cuassay.sandbox.host.turns import Turns, waiting

if TYPE_CHECKING:
    from cuassay.checks.base import Check, Run
    from cuassay.formats.execute import LoadedReference
    from cuassay.oracle.compare.outputs import Comparison

T = TypeVar("T")
# For the judge, the candidate's processes and the PTX machine: with one side beside the first, two.
_CORES = (4, 8)
_LAUNCH_SIZES_S = 5.0
_QUICK_SIZES_S, _QUICK_SIZES = 3.0, 8  # the same at quick: seconds, sizes of an axis
_QUICK_CALL_S = 0.5  # of one call there: most kernels compile in 0.1 s
_BLOCK_S, _INTERPRETED_S = 5e-5, 5e-3  # of a block of 128 threads on a CPU, as they are executed
_LAST = 4  # checks: before them the process starts that comes after all
_MINIMISED = 2  # findings that get a minimal counterexample: the worst ones


class StartRunner(Protocol):
    """Makes what runs the scenarios of a candidate; `Runner` gives it processes of its own."""

    def __call__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        device: str,
        nursery: Nursery | None,
        lazy: bool = False,
        host: HostNursery | None = None,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
    ) -> Runner:
        """Return the runner, which is a context manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """What a trial does: the checks it runs, and what it says beside their decision.

    `smallest` looks for minimal counterexamples, `causes` for the causes of what is wrong,
    `extras` evaluates the benchmark's own rule, power and times. None of these three decides.
    `beside` is how many sides run checks that allow it at the same time as the others, in processes
    of their own; None: at `quick` on a GPU one, or two where the host has processors for them.
    """

    checks: tuple[Check, ...]
    smallest: bool = True
    causes: bool = True
    extras: bool = True
    beside: int | None = None
    start: StartRunner = Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """How a trial ended. `graded` are comparisons of plain calls, which tell the precision."""

    verdict: Verdict
    graded: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """What the parts of one trial share."""

    job: TrialJob
    plan: TrialPlan
    candidate: Candidate
    digest: str
    device: str
    emit: Callable[[Event], None]
    trial: JudgeTrial
    nursery: Nursery | None
    host: HostNursery
    stack: ExitStack  # what is opened lives until the trial's end
    opened: list[Runner] = field(default_factory=list)

    @property
    def quick(self) -> bool:
        return self.job.profile is Profile.QUICK

    @property
    def sides_beside(self) -> int:
        """How many sides of checks run beside the first.

        None at `deep` and without a GPU, none where others judge at the same time, whose processes
        take turns on it with ours, and none where the first wrong result ends all.
        """
        wished, job = self.plan.beside, self.job
        if wished is not None or job.fail_fast or job.isolated:
            return 0 if job.fail_fast else wished or 0
        if job.profile is Profile.DEEP or not self.device.startswith("cuda"):
            return 0
        if not self.trial.is_alone or self.trial.is_large:
            return 0
        cores = len(os.sched_getaffinity(0))
        return sum(cores >= least for least in _CORES)

    def runner(
        self,
        candidate: Candidate,
        *,
        lazy: bool = False,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
        trial: JudgeTrial | None = None,
    ) -> Runner:
        made = self.plan.start(
            trial or self.trial,
            candidate,
            device=self.device,
            nursery=self.nursery,
            lazy=lazy,
            host=self.host,
            spares=spares,
            lane=lane,
        )
        self.opened.append(made)
        return self.stack.enter_context(made)

    def optional(self, what: str, make: Callable[[], T | None]) -> T | None:
        """Return what stands beside the verdict; its failure must not lose the verdict."""
        if what:
            self.emit(Progress(text=what))
        try:
            with self.trial.timeline.span(Lane.JUDGE, what or "preparations"):
                return make()
        except CuassayError as error:
            self.emit(Progress(text=str(error)))
        except Exception as error:
            self.emit(Progress(text=f"a fault of cuassay beside the verdict: {error!r}"))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """What the checks said, and which numbers grade the arithmetic; `built`: whether it builds.

    `power` is that of the inputs where it was measured beside the last checks.
    """

    reports: tuple[CheckReport, ...]
    graded: tuple[Comparison, ...] = ()
    built: bool = True
    power: Power | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extras:
    rule: BenchmarkRule | None = None
    power: Power | None = None
    speed: Speed | None = None


@contextmanager
def judged(
    job: TrialJob,
    problem: Problem,
    candidate: Candidate,
    *,
    reference: LoadedReference,
    device: str,
    digest: str,
    toolchain: Mapping[str, str],
    emit: Callable[[Event], None],
    timeline: Timeline,
    nursery: Nursery | None = None,
    truths: Truths | None = None,
    plan: TrialPlan | None = None,
) -> Iterator[TrialEnded]:
    """Judge one candidate: run the checks, decide once, then explain. `emit` gets every event.

    What the trial opened, its processes and its share of the GPU, is closed after the block: that
    takes a while, and who wants the verdict need not wait for it. Raises CannotJudgeError and
    UsageError where the problem itself cannot be judged.
    """
    if device.startswith("cuda"):  # a judge that is kept has judged others
        torch.cuda.reset_peak_memory_stats(device)
    # Drawn only now: the candidate's digest is fixed before any input exists.
    seed = job.seed if job.seed is not None else new_root()
    trial = JudgeTrial(
        problem,
        reference,
        profile=job.profile,
        device=device,
        root_seed=seed,
        truths=truths,
        isolated=job.isolated,
        gpu_memory_gib=job.gpu_memory_gib,
        timeline=timeline,
    )
    plan = plan or TrialPlan(checks=all_checks())
    emit(
        EngineStarted(
            run=Path(job.run_dir).name,
            problem=problem.name,
            candidate=candidate.name,
            profile=job.profile.value,
            device=device,
            digest=digest,
            checks=tuple(check.code for check in plan.checks),
            seed=seed,
        )
    )
    check_constraints(trial)
    with ExitStack() as stack:
        waits = partial(_waits, emit)
        with trial.timeline.span(Lane.JUDGE, "room on the GPU"):
            trial.book(stack.enter_context(Booking(gpu_of(device), waits)))
        host = HostNursery(nursery)
        stack.callback(host.close)
        bench = _Bench(
            job=job,
            plan=plan,
            candidate=candidate,
            digest=digest,
            device=device,
            emit=emit,
            trial=trial,
            nursery=nursery,
            host=host,
            stack=stack,
        )
        # Its worker starts to build at once, beside the reference's first run. At `quick` few
        # scenarios need a new process: one is kept ready where a start takes a CUDA context.
        ready = 1 if device.startswith("cuda") else 0
        runner = bench.runner(candidate, spares=ready if bench.quick else None)
        trial.end_idle_by(runner.let_go)
        with (
            trial.timeline.span(Lane.JUDGE, "the reference on its smallest case"),
            ended_where_stuck(
                emit,
                "the reference (or its generator) on a small case",
                progress=lambda: (len(trial.tried), trial.truth_s),
            ),
        ):
            smoke(trial)
            generate_once(trial)
        machine = _use_machine(bench)
        beside = _runners_beside(bench, runner)
        _tune(bench, runner, beside[0] if beside else runner)
        bench.optional("", lambda: follow_sizes(trial, runner))
        on_trial = _reference(bench, runner)
        tried = Tried(problem, runner)
        checked = _run_checks(bench, runner, on_trial, tried, beside, machine)
        decision, reason = decide(bind(checked.reports, job.require), profile=job.profile)
        wanted = () if decision is Decision.REJECTED else wanted_proofs(job.require)
        proved = _proved(bench, wanted) if wanted else ()
        decision, reason = decide_proofs(decision, reason, proved, wanted)
        emit(DecisionReached(decision=decision, reason=reason))
        found, extras = checked.reports, _Extras()
        if checked.built and not (job.fail_fast and decision is Decision.REJECTED):
            if plan.smallest:
                found = _with_smallest_inputs(bench, found, runner, on_trial.control(trial))
            if not job.isolated:
                failures.keep(problem, candidate.entry_file, failures.failing_cases(found))
            extras = _extras(bench, runner, on_trial, checked.power) if plan.extras else extras
        reports = bind(found, job.require)
        diagnoses = _diagnosed(bench, reports, runner, machine) if plan.causes else ()
        timing = Timing(
            total_s=time.time() - timeline.started,
            build_s=runner.build_s,
            truth_s=trial.truth_s,
            candidate_s=sum(one.candidate_s for one in (runner, *beside)),
            compare_s=trial.compare_s,
        )
        stood = runner.walls
        # A process that never started has tried no wall, and forged nothing.
        unconfined = walls.walls_condition(stood) if walls.were_tried(stood) else ""
        said = (
            _executed_by(bench, runner),
            unconfined,
            trial.built_condition,
            trial.listed_condition,
        )
        kind = "float32" if "float32" in trial.kinds else "float64"
        verdict = Verdict(
            decision=decision,
            reason=_lead(diagnoses) or reason,
            problem=problem.name,
            candidate=candidate.name,
            profile=job.profile,
            device=device,
            digest=digest,
            truth=kind,
            truth_reason=trial.kinds.get(kind, ""),
            precision_grade=grade(checked.graded),
            checks=reports,
            conditions=(*conditions(reports), *filter(None, said), *trial.plan_conditions),
            benchmark_rule=extras.rule,
            power=extras.power,
            timing=timing,
            environment=environment(device, toolchain),
            seed=seed,
            run=Path(job.run_dir).name,
            coverage=tried.coverage(),
            tried_sizes=tried.sizes(
                finding
                for report in reports
                if isinstance(report.outcome, Failed)
                for finding in report.outcome.findings
            ),
            speed=extras.speed,
            sources=_sources(candidate, machine, diagnoses),
            timeline=tuple(trial.timeline.spans),
            workers=sum(one.started for one in bench.opened),
            walls=stood,
            diagnoses=diagnoses,
            proved=proved,
            launches=machine.count(),
        )
        yield TrialEnded(verdict=verdict, graded=checked.graded)


def _waits(emit: Callable[[Event], None], queue: Queue | None) -> None:
    """Say that the trial waits for memory, with None that it has it."""
    if queue is None:
        emit(Progress(text="has the memory that it waited for"))
        return
    emit(
        Progress(
            text=f"waits for {queue.needed_bytes / 2**30:.1f} GiB of the GPU's memory; "
            f"{queue.holders} other trials hold {queue.held_bytes / 2**30:.1f} GiB",
            waits=True,
        )
    )


def _proved(bench: _Bench, wanted: tuple[Property, ...]) -> tuple[Proof, ...]:
    """Return which properties hold of the candidate. Its host code is recorded on a CPU."""
    from cuassay.judge.proofs.prove import proofs  # with ptxsan, which a judge can do without

    job = bench.job
    with bench.trial.timeline.span(Lane.MACHINE, "proofs"):
        return proofs(
            bench.trial.problem,
            bench.candidate,
            bench.host,
            profile=job.profile,
            seed=job.seed or 0,
            emit=bench.emit,
            wanted=wanted,
        )


def _use_machine(bench: _Bench) -> Replayer:
    """Let checks execute the candidate's launches, in a process that it does not own."""
    replayer = bench.stack.enter_context(
        Replayer(
            bench.candidate,
            bench.digest,
            profile=bench.job.profile,
            host=bench.host,
            device=bench.trial.device,
            timeline=bench.trial.timeline,
        )
    )
    bench.trial.use_machine(replayer)
    bench.trial.read_sources(source.text for source in bench.candidate.sources)
    _plan_by_launches(bench, is_absent=bool(replayer.absent))
    return replayer


def _plan_by_launches(bench: _Bench, *, is_absent: bool) -> None:
    """Plan shapes beside sizes at which the candidate's launches change, and none that takes long.

    When shapes are first asked for, or beside other checks before; at `quick` on a CPU alone, once
    its kernels are compiled. Where Triton's interpreter stands in for the machine, `is_absent`,
    each row may be a program.
    """
    trial, candidate = bench.trial, bench.candidate
    launches = candidate.names_triton or candidate.language is Language.CUDA_KERNEL
    if bench.device == "cpu" and launches and is_absent:
        trial.plan_by_launches(row_s=_INTERPRETED_S)
    elif is_absent or trial.problem.built:
        return
    elif not bench.quick:
        trial.plan_by_launches(
            first=lambda: bench.optional(
                "sizes at which its launches change", lambda: _name_launch_sizes(bench)
            )
        )
    elif bench.device == "cpu" and launches:
        runner = Runner(
            trial, candidate, device="cpu", nursery=bench.host.get(), lazy=True, host=bench.host
        )
        probe = LaunchProbe(trial, bench.stack.enter_context(runner))

        def name_sizes() -> None:
            trial.name_sizes(
                probe.sizes(limit_s=_QUICK_SIZES_S, most=_QUICK_SIZES, call_s=_QUICK_CALL_S)
            )

        trial.plan_by_launches(
            row_s=_BLOCK_S,
            executed_s=probe.executed_s,
            first=lambda: bench.optional("sizes at which its launches change", name_sizes),
        )


def _name_launch_sizes(bench: _Bench) -> None:
    """Plan shapes beside sizes at which the candidate's launches change.

    In a process of its own, on a CPU: what it keeps of calls that compute nothing is wrong.
    """
    trial, candidate, nursery = bench.trial, bench.candidate, bench.host.get()
    hosted, units = trial, MULTIPROCESSORS
    if bench.device.startswith("cuda"):
        build.prepare(candidate, device="cpu", notify=lambda text: bench.emit(Progress(text=text)))
        units = torch.cuda.get_device_properties(bench.device).multi_processor_count
        hosted = JudgeTrial(
            trial.problem,
            load_reference(trial.problem),
            profile=trial.profile,
            device=choose_device("cpu"),
            root_seed=trial.seed("launches"),
        )
    with Runner(
        hosted, candidate, device="cpu", nursery=nursery, lazy=True, host=bench.host
    ) as apart:
        named = LaunchProbe(hosted, apart).sizes(limit_s=_LAUNCH_SIZES_S, multiprocessors=units)
    trial.name_sizes(named)


def _make_truths(trial: JudgeTrial, runner: Runner) -> None:
    """Make truths that SHP001 asks for while the first worker starts: the judge has the time.

    Not of modules with a state, or that are built for sizes: what is learnt of them comes later.
    """
    if trial.problem.built or trial.problem.state:
        return
    for case in trial.cases("shapes"):
        if not runner.is_starting:
            return
        trial.truth(case)


def _tune(bench: _Bench, runner: Runner, tuner: Runner) -> None:
    """Let the candidate's autotuners choose at a listed size: every process uses that choice.

    In a process of `tuner`: that of `runner` stays one in which nothing ran.
    """

    def tune() -> None:
        if runner.tunes:
            case = timed(bench.trial).cases[0]
            steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"))
            tuner(Scenario(label="autotuning at a listed size", cases=(case,), steps=steps))

    if bench.device.startswith("cuda"):
        bench.optional("", tune)  # what goes wrong here goes wrong in a check, which says so


def _runners_beside(bench: _Bench, runner: Runner) -> tuple[Runner, ...]:
    """Return what runs the checks beside others, if any are to run so.

    Two first builds of the same sources would get into each other's way. On a GPU nothing starts
    yet: the driver makes one context after another, and a first check may need a special one.
    """
    if bench.device.startswith("cuda"):
        if bench.quick:  # beyond it, shapes are planned by launches
            bench.optional("", lambda: _make_truths(bench.trial, runner))
        bench.optional("", runner.wait_built)
    return tuple(
        bench.runner(
            bench.candidate,
            lazy=not runner.built or bench.device.startswith("cuda"),
            spares=0 if bench.quick else 1,  # beyond it scenarios have processes of their own
        )
        for _ in range(bench.sides_beside)
    )


class _Reference:
    """The reference's processes, which the sides of a trial share: one at a time uses them.

    Where a case takes most of a GPU, those of the `candidate` end before, and its own after it.
    `compiled` returns what runs the compiled reference, whose process begins with the first call.
    """

    def __init__(
        self, runner: Runner, candidate: Runner, *, compiled: Callable[[], Runner]
    ) -> None:
        self._runner, self._candidate = runner, candidate
        self.compiled = cache(compiled)
        self._free = threading.Lock()

    def control(self, trial: JudgeTrial) -> Control:
        """Return the reference on trial for the checks of one side."""

        def run(scenario: Scenario) -> Run:
            with waiting():
                self._free.acquire()
            try:
                self._runner.work_for(trial)
                if not trial.is_large:
                    return self._runner(scenario)
                self._candidate.let_go()
                run = self._runner(scenario)
                self._runner.let_go()
                return run
            finally:
                self._free.release()

        return Control(trial, run, partial(judge_scenario, trial))

    def begin(self) -> None:
        """Start a process of it, which begins to build, where none is there or at work."""
        if self._free.acquire(blocking=False):
            try:
                self._runner.begin()
            finally:
                self._free.release()

    def to_time(self, trial: JudgeTrial) -> Runner:
        """Return what runs it where no side is at work, with a process that begins to build."""
        self._runner.work_for(trial)
        self.begin()
        return self._runner


def _reference(bench: _Bench, candidate: Runner) -> _Reference:
    """Return the reference on trial, which runs only where the candidate fails."""
    return _Reference(
        bench.runner(
            reference_candidate(bench.trial.problem),
            lazy=True,
            spares=0,
            lane=Lane.REFERENCE,
        ),
        candidate,
        compiled=lambda: _reference_to_time(bench, compiled=True),
    )


def _begin(bench: _Bench, runner: Runner, machine: Replayer) -> None:
    """Begin what takes a while and needs neither the GPU's worker nor this process.

    The PTX machine executes its first recordings, the candidate builds and runs in a process apart,
    and once below each tool of compute-sanitizer, beside the checks that come before theirs. What
    fails here fails there again.
    """
    machine_begins = False
    for check in bench.plan.checks:
        if isinstance(check, MachineCheck) and machine_begins:
            continue
        if not (_begun_ahead(check) or check.side_by_side):
            continue
        if check.skip(bench.trial) or check.missing():
            continue
        if check.side_by_side:
            # With `fail_fast` the first wrong result ends all, and would wait for what was begun.
            scenarios = () if bench.job.fail_fast else tuple(check.propose(bench.trial))
            if all(bench.trial.is_light(one.cases) for one in scenarios):
                runner.ahead(scenarios)
            continue
        if isinstance(check, Apart001):
            with suppress(CuassayError):  # it will say why it cannot be
                runner.ahead([*check.propose(bench.trial)][:1])
            continue
        for scenario in check.propose(bench.trial):
            machine_begins = True
            recording = recording_of(scenario, runner(scenario))
            if recording is not None:
                # Both start processes from one nursery, which may serve one thread at a time: the
                # machine's thread begins after the sizes at which launches change are known.
                bench.trial.name_by_launches()
                machine.begin(recording, scenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """What sides take from each other: checks, then what needs none of them.

    `prepare` is called before each of the last checks: there what comes after them may begin.
    """

    checks: deque[Check]
    then: deque[Callable[[], object]]
    prepare: Callable[[], object]


class _Side:
    """Checks that run one after another, with the processes that they run the candidate in."""

    def __init__(
        self,
        bench: _Bench,
        trial: JudgeTrial,
        runner: Runner,
        control: Control,
        tried: Tried,
        *,
        emit: Callable[[Event], None],
        name: Callable[[Finding], Finding],
        heavy: threading.Lock | None,
        lane: Lane = Lane.JUDGE,
        main: _Side | None = None,
    ) -> None:
        """`main` is the side that it runs beside."""
        self._lane, self._main = lane, main
        self._bench, self.trial, self._runner, self.tried = bench, trial, runner, tried
        self._emit, self._name, self._heavy = emit, name, heavy
        self.examination: Examination = Examination(
            trial,
            run=tried,
            control=control,
            emit=emit,
            name=name,
            ahead=runner.ahead,
            room=self._room,
            beside=None if main is None else main.examination,
        )
        self.reports: list[CheckReport] = []
        self.built = True
        self.stopped = False  # set by whom it waits for: no further check begins
        self._before: Check | None = None  # the last one that ran a scenario

    def run(self, checks: Sequence[Check]) -> None:
        """Run checks in order; with `fail_fast` those after the first wrong result do not run."""
        for place, check in enumerate(checks):
            if self.stopped or not self.built:
                return
            # Whose process is of a mode of its own starts while two checks run before it.
            modes = [after.mode for after in checks[place + 1 : place + 3]]
            self._runner.expect(next((one for one in modes if one is not Mode.PLAIN), Mode.PLAIN))
            if self._bench.job.fail_fast and any(report.wrong for report in self.reports):
                self.reports.append(_not_run(check))
            else:
                self._run(check)

    def take(self, left: _Left, *, may: Callable[[Check], bool] = lambda check: True) -> None:
        """Run the first check of those that are left, and so on: other sides take theirs.

        The first one that this side may not run is left to them, with all that come after it.
        Once none is left, it takes part in the check that the main side runs, and does what is left
        to do beside those that others still run.
        """
        while not self.stopped and self.built:
            if left.checks:
                if not may(left.checks[0]):
                    return
                check = left.checks.popleft()
                if len(left.checks) < _LAST:
                    left.prepare()
                self._run(check)
            elif self._takes_part():
                continue
            elif left.then:
                left.then.popleft()()
            else:
                return

    def _takes_part(self) -> bool:
        """Run scenarios of the check that the main side runs, if it has some for others."""
        main = self._main
        if main is None or (check := main.examination.shared) is None:
            return False
        self.tried.code = check.code
        with self.trial.timeline.span(self._lane, check.code):
            self.examination.join(main.examination)
        return True

    def _run(self, check: Check) -> None:
        trial, runner = self.trial, self._runner
        self._emit(CheckStarted(code=check.code, title=check.title))
        fresh = runner.fresh
        runner.fresh = fresh or _parts(self._before, check, quick=self._bench.quick)
        self.tried.code = check.code
        try:
            with trial.timeline.span(self._lane, check.code):
                report = self.examination.examine(check)
        except BuildStopped as stopped:
            report = _build_report(stopped, self._name)
            self._emit(CheckFinished(report=report))
            self.built, self.reports = False, [report]
            return
        outcome = report.outcome
        found = outcome.findings if isinstance(outcome, Failed) else ()
        for finding in found:
            if finding.cause in STATE_OF:
                trial.take_state_from(STATE_OF[finding.cause])
        if report.scenarios:
            self._before = check
        else:
            runner.fresh = fresh
        self._emit(CheckFinished(report=report))
        self.reports.append(report)

    @contextmanager
    def _room(self, scenario: Scenario) -> Iterator[None]:
        """Let one scenario at a time take more than a small part of the planned memory."""
        if self._heavy is None or self.trial.is_light(scenario.cases):
            yield
            return
        self._runner.make_ready(scenario)  # others need not wait for that
        with waiting():
            self._heavy.acquire()
        try:
            yield
        finally:
            self._heavy.release()


def _run_checks(
    bench: _Bench,
    runner: Runner,
    reference: _Reference,
    tried: Tried,
    beside: Sequence[Runner],
    machine: Replayer,
) -> _Checked:
    """Run the checks in order, in `beside` those that may run at the same time as others.

    A side that has no check left measures the power of the inputs, beside those that others still
    run: it needs no process.
    """
    job, trial = bench.job, bench.trial
    # A given seed asks for the same trial again: what others left must not change it.
    entry = bench.candidate.entry_file
    trial.preset("known", failures.known(trial.problem, entry) if job.seed is None else ())
    name, heavy = _naming(job), threading.Lock() if beside else None
    control = reference.control(trial)
    main = _Side(bench, trial, runner, control, tried, emit=bench.emit, name=name, heavy=heavy)
    checks = _in_turn(bench)
    leading = [check for check in checks if _leads(check, quick=bench.quick)]
    checks = [check for check in checks if check not in leading]
    # Others need not wait for what comes first in the first process alone, once it has built.
    apart = [c for c in leading if not c.leads] if heavy is not None and runner.built else []
    main.run([check for check in leading if check not in apart])

    def begin() -> None:
        main.run(apart)
        if bench.device.startswith("cuda") and main.built:
            bench.optional("", lambda: _begin(bench, runner, machine))

    def prepare() -> None:
        # At `quick` the time of a call is taken in a process that ran others.
        if bench.quick and bench.plan.extras and _has_times(bench, runner):
            with suppress(CuassayError):  # it will say why it cannot be
                reference.begin()

    measured: list[Power | None] = []

    def measure() -> None:
        if bench.plan.extras:
            measured.append(_power(bench, heavy))

    if heavy is None:
        begin()
    else:
        alone = [
            check for check in checks if check.quiet or check.looks_back or _begun_ahead(check)
        ]
        others = [check for check in checks if check not in alone]
        if main.built:
            _run_concurrently(
                bench,
                main,
                others,
                beside,
                reference,
                heavy,
                name,
                begin=begin,
                prepare=prepare,
                then=measure,
            )
        checks = alone
        # It imports a compiler for seconds, beside checks that take no time of a call.
        wanted = bench.plan.extras and not bench.quick and bench.device.startswith("cuda")
        if wanted and main.built and _has_times(bench, runner):
            bench.optional("", reference.compiled)
    main.run(checks)
    place = {check.code: number for number, check in enumerate(bench.plan.checks)}
    reports = sorted(main.reports, key=lambda report: place.get(report.code, 0))
    return _Checked(
        reports=tuple(reports),
        graded=tuple(main.examination.graded),
        built=main.built,
        power=measured[0] if measured else None,
    )


def _run_concurrently(
    bench: _Bench,
    main: _Side,
    checks: Sequence[Check],
    beside: Sequence[Runner],
    reference: _Reference,
    heavy: threading.Lock,
    name: Callable[[Finding], Finding],
    *,
    begin: Callable[[], None],
    prepare: Callable[[], object],
    then: Callable[[], object],
) -> None:
    """Run checks on several sides at a time; what all found is told in the order of one side.

    One thread judges at a time, while the others wait for their processes. The main side begins and
    runs what runs on no other; the others take what is left of the rest, what waits longest first.
    Then it takes some too, but what none could follow in its process.
    """
    events: list[list[Event]] = [[] for _ in beside]
    numbers = itertools.count()
    sides = [
        _beside(bench, main, runner, reference, heavy, told, lambda: f"beside {next(numbers)}")
        for runner, told in zip(beside, events, strict=True)
    ]
    rest = [check for check in checks if check.concurrent]
    left = _Left(
        checks=deque(sorted(rest, key=lambda check: not check.waits)),
        prepare=prepare,
        then=deque([then]),
    )
    with _working(sides, left) as turns, turns.taken():
        begin()
        main.run([check for check in checks if not check.concurrent])
        main.take(left, may=lambda check: not check.own_process)
        for side in sides:
            side.stopped = not main.built
    if not main.built:
        return
    names: dict[str, Finding] = {}

    def named(finding: Finding) -> Finding:
        if finding.id not in names:
            names[finding.id] = name(finding)
        return replace(finding, id=names[finding.id].id, reproduce=names[finding.id].reproduce)

    reports: list[CheckReport] = []
    for event in _in_order(events, checks):
        match event:
            case FindingReported(finding=finding):
                bench.emit(FindingReported(finding=named(finding)))
            case CheckFinished(report=report):
                reports.append(_renamed(report, named))
                bench.emit(CheckFinished(report=reports[-1]))
            case _:
                bench.emit(event)
    main.built = all(side.built for side in sides)
    unbuilt = [report for side in sides if not side.built for report in side.reports]
    main.reports = [*main.reports, *reports] if main.built else [_renamed(unbuilt[0], named)]
    for side in sides:
        main.examination.graded += side.examination.graded
        main.tried.take(side.tried)
        main.trial.take(side.trial)


@contextmanager
def _working(sides: Sequence[_Side], left: _Left) -> Iterator[Turns]:
    """Let sides take what is left, each in a thread; beside the turns of this block.

    What raises in this block stops them. What raised in theirs is raised after it.
    """
    turns, failed = Turns(), list[BaseException]()

    def work(side: _Side) -> None:
        try:
            with turns.taken():
                side.take(left)
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=work, args=(side,), name=f"checks beside others {n}", daemon=True)
        for n, side in enumerate(sides)
    ]
    for thread in threads:
        thread.start()
    try:
        yield turns
    except BaseException:
        for side in sides:
            side.stopped = True
        raise
    finally:
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def _beside(
    bench: _Bench,
    main: _Side,
    runner: Runner,
    reference: _Reference,
    heavy: threading.Lock,
    told: list[Event],
    new_id: Callable[[], str],
) -> _Side:
    """Return a side for a thread of its own, which tells its events to `told`."""
    own = main.trial.concurrent()
    runner.work_for(own)
    return _Side(
        bench,
        own,
        runner,
        reference.control(own),
        Tried(own.problem, runner),
        emit=told.append,
        name=lambda finding: replace(finding, id=new_id()),
        heavy=heavy,
        lane=Lane.BESIDE,
        main=main,
    )


def _in_order(sides: Iterable[Iterable[Event]], checks: Sequence[Check]) -> list[Event]:
    """Return the events of each check together, in the order of the checks."""
    found: dict[str, list[Event]] = {check.code: [] for check in checks}
    for events in sides:
        code = ""
        for event in events:
            if isinstance(event, CheckStarted):
                code = event.code
            found[code].append(event)
    return [event for told in found.values() for event in told]


def _renamed(report: CheckReport, named: Callable[[Finding], Finding]) -> CheckReport:
    """Give the findings of a report their names."""
    outcome = report.outcome
    if isinstance(outcome, Failed):
        outcome = replace(outcome, findings=tuple(map(named, outcome.findings)))
    return replace(report, outcome=outcome, advice=tuple(map(named, report.advice)))


def _in_turn(bench: _Bench) -> list[Check]:
    """Return the checks in the order of their runs.

    Last come those that wait for what was begun. Before them, at `quick`, come those that none can
    follow, and after these the ones that take whatever process is there.
    """
    waits = bench.device.startswith("cuda")

    def turn(check: Check) -> tuple[bool, bool, bool, bool]:
        spoils = bench.quick and check.own_process and not check.only_reads
        late = bench.quick and check.late
        return waits and _begun_ahead(check), late or spoils, spoils, late

    return sorted(bench.plan.checks, key=turn)


def _leads(check: Check, *, quick: bool) -> bool:
    """Whether a check runs before all others.

    At `quick` also what needs a process in which nothing ran, and leaves it to others as it is.
    """
    return check.leads or (quick and check.own_process and check.only_reads and not check.late)


def _begun_ahead(check: Check) -> bool:
    return isinstance(check, MachineCheck | Apart001)


def _parts(before: Check | None, check: Check, *, quick: bool) -> bool:
    """Whether a check needs another process than the one before it.

    Groups of checks have processes of their own. At `quick` they share one, unless a check
    changes or reads what is the whole process's: on a GPU each process costs a context. What is
    `late` takes the process at hand.
    """
    if quick and check.late:
        return False
    if before is None or check.own_process:
        return True
    if before.own_process and not before.only_reads:
        return True
    return not quick and before.group != check.group


def _naming(job: TrialJob) -> Callable[[Finding], Finding]:
    """Return what gives a finding its id within the run and the command that reproduces it."""
    numbers = itertools.count(1)
    run = job.run_label or Path(job.run_dir).name or "RUN"

    def named(finding: Finding) -> Finding:
        number = f"F{next(numbers)}"
        return replace(finding, id=number, reproduce=f"cuassay replay {run}/{number}")

    return named


def _build_report(stopped: BuildStopped, named: Callable[[Finding], Finding]) -> CheckReport:
    outcome: Outcome = Skipped(reason=stopped.reason)
    if stopped.finding is not None:
        outcome = Failed(findings=(named(stopped.finding),))
    title = "The candidate builds and imports"
    return CheckReport(code="BUILD001", title=title, outcome=outcome)


def _not_run(check: Check) -> CheckReport:
    why = Skipped(reason="--fail-fast: an earlier check rejected the kernel")
    return CheckReport(code=check.code, title=check.title, outcome=why)


def _with_smallest_inputs(
    bench: _Bench, reports: Sequence[CheckReport], runner: Runner, control: Control
) -> tuple[CheckReport, ...]:
    """Give the worst wrong findings, at most one a check, a minimal counterexample."""
    by_code = {check.code: check for check in bench.plan.checks}
    out = list(reports)
    left = _MINIMISED
    for place, report in enumerate(reports):
        worst = max(
            filter(_shrinks, report.wrong), key=lambda finding: finding.share or 0.0, default=None
        )
        if not left or worst is None or report.code not in by_code:
            continue
        left -= 1
        bench.emit(Progress(text=f"smallest failing input for {report.code}"))
        minimiser = Minimiser(bench.trial, by_code[report.code], run=runner, control=control)
        assert isinstance(report.outcome, Failed)
        rest = [found for found in report.outcome.findings if found is not worst]
        with bench.trial.timeline.span(Lane.JUDGE, f"smallest input for {report.code}"):
            findings = (minimiser.minimise(worst), *rest)
        out[place] = replace(report, outcome=replace(report.outcome, findings=findings))
    return tuple(out)


def _shrinks(finding: Finding) -> bool:
    """Whether a finding is about one case that is no state of a loop."""
    cases = finding.scenario.cases if finding.scenario is not None else ()
    return len(cases) == 1 and cases[0].state is None


def _power(bench: _Bench, heavy: threading.Lock | None) -> Power | None:
    """Return the power of the inputs, on a trial of its own: others may use theirs meanwhile.

    Its mutants take memory as scenarios do of which one runs at a time.
    """
    own = bench.trial.concurrent()
    with ExitStack() as stack:
        if heavy is not None:
            with waiting():
                stack.enter_context(heavy)
        found = bench.optional("power of the inputs", lambda: power.power_of_inputs(own))
    bench.trial.take(own)
    return found


def _extras(
    bench: _Bench, runner: Runner, reference: _Reference, measured: Power | None
) -> _Extras:
    """Return what a verdict states beside the decision; regimes for later trials are chosen.

    `measured` is the power of the inputs, where it was measured beside checks.
    """
    trial = bench.trial
    # Its worker builds while the power is measured.
    eager: Runner | None = None
    if _has_times(bench, runner):
        eager = bench.optional(
            "",
            lambda: reference.to_time(trial) if bench.quick else _reference_to_time(bench),
        )
    rule = bench.optional(
        "the benchmark's own rule", lambda: benchmark_rule.evaluate(trial, runner)
    )
    if measured is None:  # beside others there may have been no memory for it
        measured = _power(bench, None)
    spent: Speed | None = None
    if eager is not None:
        spent = bench.optional(
            "the time of a call",
            lambda: speed.measure_speed(trial, runner, eager, compiled=reference.compiled),
        )
    if (
        not bench.quick
        and not bench.job.isolated
        and selection.read_selection(trial.problem) is None
    ):
        chosen = bench.optional("the input regimes for later trials", lambda: choose(trial))
        if chosen is not None:
            selection.store(trial.problem, chosen)
    return _Extras(rule=rule, power=measured, speed=spent)


def _has_times(bench: _Bench, runner: Runner) -> bool:
    """Whether a time says anything: not on a CPU at `quick`, nor of kernels that are executed."""
    timeless = bench.quick and not bench.device.startswith("cuda")
    return not timeless and not _executed_by(bench, runner)


def _reference_to_time(bench: _Bench, *, compiled: bool = False) -> Runner:
    reference = reference_candidate(bench.trial.problem)
    if compiled:
        reference = speed.compiled_reference(reference)
    return bench.runner(reference, spares=0, lane=Lane.REFERENCE)


def _diagnosed(
    bench: _Bench, reports: Sequence[CheckReport], runner: Runner, machine: Replayer
) -> tuple[Diagnosis, ...]:
    """Return the causes of what was found, by experiments with the candidate."""
    if not any(report.wrong for report in reports):
        return ()
    outcomes = [report.outcome for report in reports]
    found = [f for one in outcomes if isinstance(one, Failed) for f in one.findings]
    clues = bench.optional(
        "the cause",
        lambda: gather(
            bench.trial,
            runner,
            bench.candidate,
            found,
            machine.seen,
            runs=lambda edited: Runner(
                bench.trial,
                edited,
                device=bench.device,
                nursery=runner.nursery,
                spares=0,
                host=bench.host,
            ),
        ),
    )
    return tuple(with_text(made, bench.candidate) for made in diagnose(found, clues))


def _lead(diagnoses: Sequence[Diagnosis]) -> str:
    """Return the first cause and its line, which a rejection begins with; '' for none."""
    if not diagnoses:
        return ""
    first = diagnoses[0]
    where = f" ({first.line.file}:{first.line.line})" if first.line is not None else ""
    return f"{first.words.rstrip('.')}{where}"


def _sources(
    candidate: Candidate, machine: Replayer, diagnoses: Sequence[Diagnosis]
) -> tuple[SourceView, ...]:
    """Return the files that reports show: those of findings, and those that a cause names."""
    views = source_views(candidate, machine.seen)
    blamed = {made.line.file for made in diagnoses if made.line is not None}
    named = blamed - {view.file for view in views}
    more = [source for source in candidate.sources if source.path in named]
    return (*views, *(SourceView(file=source.path, text=source.text) for source in more))


def _executed_by(bench: _Bench, runner: Runner) -> str:
    """Return the condition that names what executed the kernels, '' where the device did."""
    return executed_by(bench.candidate, bench.device, runner.kind, because=runner.because)
