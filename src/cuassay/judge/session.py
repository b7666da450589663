"""One trial from job to verdict.

Its checks are awaited, in lanes. What comes before and after asks one question after another, of
one process: that is plain code, in which each run is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from cuassay.checks.registry import all_checks
from cuassay.judge.assemble import assemble
from cuassay.judge.bench import TrialPlan, open_bench
from cuassay.judge.checking import run_checks
from cuassay.judge.decide.control import reference_candidate
from cuassay.judge.decide.scope import with_power
from cuassay.judge.decide.tried import SizeLog
from cuassay.judge.decide.verdict import bind
from cuassay.judge.deciding import decide_trial
from cuassay.judge.explain import causes_of, with_smallest_inputs
from cuassay.judge.extras import Extras, extras_of, reference_to_time
from cuassay.judge.kept import failures
from cuassay.judge.prepare import prepare
from cuassay.judge.run.reference import ReferenceRunner
from cuassay.judge.timeline import Timeline
from cuassay.judge.truths import TruthCache
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.events import DecisionReached, Event
from cuassay.model.jobs import Stop, TrialJob
from cuassay.model.problem import Problem
from cuassay.model.verdict import Decision, Lane, Verdict
from cuassay.sandbox.host.nursery import Nursery

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
    device: Device,
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
    if device.on_gpu:  # a judge that is kept has judged others
        torch.cuda.reset_peak_memory_stats(device)
    with ExitStack() as stack:
        bench = open_bench(
            job,
            plan or TrialPlan(checks=all_checks()),
            problem,
            candidate,
            stack,
            reference=reference,
            device=device,
            digest=digest,
            emit=emit,
            timeline=timeline,
            nursery=nursery,
            truths=truths,
        )
        trial = bench.trial
        # Its worker starts to build at once, beside the reference's first run. At `quick` few
        # scenarios of a right kernel need a new process, and none is kept ready.
        executor = bench.executor(candidate, spares=0 if bench.quick else None)
        trial.memory.end_idle_by(executor.let_go)
        beside = prepare(bench, executor)
        on_trial = ReferenceRunner(
            trial,
            bench.executor(reference_candidate(problem), lazy=True, spares=0, lane=Lane.REFERENCE),
            executor,
            compiled=lambda: reference_to_time(bench, compiled=True),
        )
        tried = SizeLog(problem)
        checked = asyncio.run(run_checks(bench, executor, on_trial, tried, beside))
        made = decide_trial(bench, executor, on_trial.control, checked)
        emit(DecisionReached(decision=made.decision, reason=made.reason))
        found, extras = made.reports, Extras(rule=made.rule)
        spent = bench.budget.is_spent
        rejected = made.decision is Decision.REJECTED
        if checked.built and not spent and not (rejected and job.stop is Stop.FIRST):
            if bench.plan.smallest:
                found = with_smallest_inputs(bench, found, executor, on_trial.control)
            if not job.isolated:
                failures.keep(problem, candidate.entry_file, failures.failing_cases(found))
            if bench.plan.extras and not checked.gross:
                extras = extras_of(bench, executor, on_trial, checked, rule=made.rule)
                made = made.bound(with_power(made.scope, extras.power), require=job.require)
        reports = bind(found, job.require)
        verdict = assemble(
            bench,
            executor,
            beside,
            checked,
            reports,
            made=made,
            extras=extras,
            diagnoses=causes_of(bench, reports, checked.reports, executor, gross=checked.gross)
            if bench.plan.causes and not spent
            else (),
            tried=tried,
            toolchain=toolchain,
            build_s=executor.pool.builds.seconds,
        )
        yield TrialEnded(verdict=verdict, graded=checked.graded)
