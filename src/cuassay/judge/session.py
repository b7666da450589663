"""One trial from job to verdict.

Its checks are awaited, in lanes. What comes before and after asks one question after another, of
one process: that is plain code, in which each run is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cuassay.checks.gpu.timing import timed
from cuassay.checks.registry import all_checks
from cuassay.inputs.seeds import new_root
from cuassay.judge.assemble import assemble
from cuassay.judge.bench import Bench, TrialPlan
from cuassay.judge.checking import run_checks
from cuassay.judge.decide.control import reference_candidate
from cuassay.judge.decide.refused_sizes import follow_sizes
from cuassay.judge.decide.tried import Tried
from cuassay.judge.decide.verdict import bind, decide, decide_proofs
from cuassay.judge.explain import causes_of, with_smallest_inputs
from cuassay.judge.extras import Extras, extras_of, reference_to_time
from cuassay.judge.kept import failures
from cuassay.judge.plan.by_launches import plan_by_launches
from cuassay.judge.plan.preconditions import check_constraints, generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.run.bookings import Booking, Queue, gpu_of
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.run.reference import Reference
from cuassay.judge.run.stuck import ended_where_stuck
from cuassay.judge.timeline import Timeline
from cuassay.judge.trial import open_trial
from cuassay.judge.truths import TruthCache
from cuassay.model.candidate import Candidate
from cuassay.model.conditions import wanted_proofs
from cuassay.model.events import DecisionReached, EngineStarted, Event, Progress
from cuassay.model.jobs import TrialJob
from cuassay.model.problem import Problem
from cuassay.model.proofs import Proof, Property
from cuassay.model.scenario import Allocate, Call, Scenario
from cuassay.model.verdict import Decision, Lane, Verdict
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.waits import run_now

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference
    from cuassay.oracle.compare.outputs import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """How a trial ended. `graded` are comparisons of plain calls, which tell the precision."""

    verdict: Verdict
    graded: tuple[Comparison, ...]


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
    truths: TruthCache | None = None,
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
    plan = plan or TrialPlan(checks=all_checks())
    with ExitStack() as stack:
        host = HostNursery(nursery)
        stack.callback(host.close)
        machine = stack.enter_context(
            Replayer(
                candidate, digest, profile=job.profile, host=host, device=device, timeline=timeline
            )
        )
        trial = open_trial(
            problem,
            reference,
            profile=job.profile,
            device=device,
            root_seed=seed,
            truths=truths,
            isolated=job.isolated,
            gpu_memory_gib=job.gpu_memory_gib,
            timeline=timeline,
            machine=machine,
        )
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
        with timeline.span(Lane.JUDGE, "room on the GPU"):
            trial.memory.book(stack.enter_context(Booking(gpu_of(device), partial(_waits, emit))))
        bench = Bench(
            job=job,
            plan=plan,
            candidate=candidate,
            digest=digest,
            device=device,
            emit=emit,
            trial=trial,
            machine=machine,
            nursery=nursery,
            host=host,
            stack=stack,
        )
        # Its worker starts to build at once, beside the reference's first run. At `quick` few
        # scenarios need a new process: one is kept ready where a start takes a CUDA context.
        executor = bench.executor(candidate, spares=int(bench.on_gpu) if bench.quick else None)
        trial.memory.end_idle_by(executor.let_go)
        with (
            timeline.span(Lane.JUDGE, "the reference on its smallest case"),
            ended_where_stuck(
                emit,
                "the reference (or its generator) on a small case",
                progress=lambda: (len(trial.planned.tried), trial.truths.seconds),
            ),
        ):
            smoke(trial)
            generate_once(trial)
        trial.planned.read_sources(source.text for source in candidate.sources)
        plan_by_launches(bench)
        beside = _executors_beside(bench, executor)
        if bench.on_gpu:  # what goes wrong here goes wrong in a check, which says so
            bench.optional("", lambda: _tune(bench, executor, beside[0] if beside else executor))
        bench.optional("", lambda: follow_sizes(trial, executor))
        on_trial = Reference(
            trial,
            bench.executor(reference_candidate(problem), lazy=True, spares=0, lane=Lane.REFERENCE),
            executor,
            compiled=lambda: reference_to_time(bench, compiled=True),
        )
        tried = Tried(problem)
        checked = asyncio.run(run_checks(bench, executor, on_trial, tried, beside))
        decision, reason = decide(bind(checked.reports, job.require), profile=job.profile)
        wanted = () if decision is Decision.REJECTED else wanted_proofs(job.require)
        proved = _proved(bench, wanted) if wanted else ()
        decision, reason = decide_proofs(decision, reason, proved, wanted)
        emit(DecisionReached(decision=decision, reason=reason))
        found, extras = checked.reports, Extras()
        if checked.built and not (job.fail_fast and decision is Decision.REJECTED):
            if plan.smallest:
                found = with_smallest_inputs(bench, found, executor, on_trial.control)
            if not job.isolated:
                failures.keep(problem, candidate.entry_file, failures.failing_cases(found))
            if plan.extras:
                extras = extras_of(bench, executor, on_trial, checked.power)
        reports = bind(found, job.require)
        verdict = assemble(
            bench,
            executor,
            beside,
            checked,
            reports,
            decision=decision,
            reason=reason,
            extras=extras,
            diagnoses=causes_of(bench, reports, executor) if plan.causes else (),
            proved=proved,
            tried=tried,
            toolchain=toolchain,
            build_s=executor.pool.build_s,
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


def _proved(bench: Bench, wanted: tuple[Property, ...]) -> tuple[Proof, ...]:
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


def _tune(bench: Bench, executor: Executor, tuner: Executor) -> None:
    """Let the candidate's autotuners choose at a listed size: every process uses that choice.

    In a process of `tuner`: that of `executor` stays one in which nothing ran.
    """
    if run_now(executor.pool.wait_built()) and executor.pool.tunes:
        case = timed(bench.trial).cases[0]
        steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"))
        tuner(Scenario(label="autotuning at a listed size", cases=(case,), steps=steps))


def _executors_beside(bench: Bench, executor: Executor) -> tuple[Executor, ...]:
    """Return what runs the checks beside others, if any are to run so.

    Two first builds of the same sources would get into each other's way. On a GPU nothing starts
    yet: the driver makes one context after another, and a first check may need a special one.
    """
    if bench.on_gpu:
        if bench.quick:  # beyond it, shapes are planned by launches
            bench.optional("", lambda: _make_truths(bench, executor))
        bench.optional("", lambda: run_now(executor.pool.wait_built()))
    return tuple(
        bench.executor(
            bench.candidate,
            lazy=not executor.pool.built or bench.on_gpu,
            spares=0 if bench.quick else 1,  # beyond it scenarios have processes of their own
        )
        for _ in range(bench.lanes_beside)
    )


def _make_truths(bench: Bench, executor: Executor) -> None:
    """Make truths that SHP001 asks for while the first worker starts: the judge has the time.

    Not of modules with a state, or that are built for sizes: what is learnt of them comes later.
    """
    trial = bench.trial
    if trial.problem.built or trial.problem.state:
        return
    for case in trial.cases("shapes"):
        if not executor.pool.is_starting:
            return
        trial.truth(case)
