"""What the parts of one trial share: its job, its services and the processes that it opened."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from cuassay.errors import CuassayError
from cuassay.hooks import runs_ended_by
from cuassay.inputs.seeds import new_root
from cuassay.judge.decide.executed_by import executed_by
from cuassay.judge.plan.preconditions import check_constraints
from cuassay.judge.run.bookings import Booking, Queue, gpu_of
from cuassay.judge.run.budget import TimeBudget
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.events import EngineStarted, Event, Progress
from cuassay.model.jobs import Stop, TrialJob
from cuassay.model.problem import Problem
from cuassay.model.verdict import Lane, Power, Profile
from cuassay.sandbox.host.nursery import Nursery

if TYPE_CHECKING:
    from cuassay.checks.base import Check
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.timeline import Timeline
    from cuassay.judge.truths import TruthCache

T = TypeVar("T")
# For the judge, the candidate's processes and the PTX machine: with one lane beside the first, two.
_CORES = (4, 8)


class StartExecutor(Protocol):
    """Makes what runs the scenarios of a candidate; `Executor` gives it processes of its own."""

    def __call__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        device: Device,
        nursery: Nursery | None,
        lazy: bool = False,
        host: HostNursery | None = None,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
        machine: Replayer | None = None,
    ) -> Executor:
        """Return the executor, which is a context manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """What a trial does: the checks it runs, and what it says beside their decision.

    `smallest` looks for minimal counterexamples, `causes` for the causes of what is wrong,
    `extras` evaluates the benchmark's own rule, power and times. None of these three decides.
    `powers` holds the power of inputs that trials before this one measured on the same cases.
    `beside` is how many lanes run checks that allow it at the same time as the first, in processes
    of their own; None: at `quick` and `standard` on a GPU one, or two where the host has processors
    for them.
    """

    checks: tuple[Check, ...]
    smallest: bool = True
    causes: bool = True
    extras: bool = True
    beside: int | None = None
    powers: MutableMapping[str, Power | None] | None = None
    start: StartExecutor = Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One trial with its job and what was opened for it, which lives until the trial's end."""

    job: TrialJob
    plan: TrialPlan
    candidate: Candidate
    digest: str
    device: Device
    emit: Callable[[Event], None]
    trial: JudgeTrial
    machine: Replayer
    nursery: Nursery | None
    host: HostNursery
    stack: ExitStack
    budget: TimeBudget
    opened: list[Executor] = field(default_factory=list)

    @property
    def quick(self) -> bool:
        """Whether the profile is `quick`."""
        return self.job.profile is Profile.QUICK

    @property
    def on_gpu(self) -> bool:
        """Whether the candidate runs on a GPU."""
        return self.device.on_gpu

    @property
    def lanes_beside(self) -> int:
        """How many lanes of checks run beside the first.

        None at `deep` and without a GPU, none where others judge at the same time, whose processes
        take turns on it with ours, and none where the first wrong result ends all.
        """
        wished, job = self.plan.beside, self.job
        at_first = job.stop is Stop.FIRST
        if wished is not None or at_first or job.isolated:
            return 0 if at_first else wished or 0
        if job.profile is Profile.DEEP or not self.on_gpu:
            return 0
        if not self.trial.memory.is_alone or self.trial.memory.is_large:
            return 0
        cores = len(os.sched_getaffinity(0))
        return sum(cores >= least for least in _CORES)

    def executor(
        self,
        candidate: Candidate,
        *,
        lazy: bool = False,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
    ) -> Executor:
        """Open what runs scenarios of a candidate until the trial's end."""
        made = self.plan.start(
            self.trial,
            candidate,
            device=self.device,
            nursery=self.nursery,
            lazy=lazy,
            host=self.host,
            spares=spares,
            lane=lane,
            machine=self.machine if lane is Lane.CANDIDATE else None,
        )
        made.budget = self.budget
        self.opened.append(made)
        return self.stack.enter_context(made)

    def executed_by(self, executor: Executor) -> str:
        """Return the condition that names what executed the kernels, '' where the device did."""
        builds = executor.pool.builds
        return executed_by(self.candidate, self.device, builds.kind, because=builds.because)

    def has_times(self, executor: Executor) -> bool:
        """Whether a time says anything.

        Not on a CPU at `quick`, nor of kernels that are executed instead of run.
        """
        timeless = self.quick and not self.on_gpu
        return not timeless and not self.executed_by(executor)

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


def open_bench(
    job: TrialJob,
    plan: TrialPlan,
    problem: Problem,
    candidate: Candidate,
    stack: ExitStack,
    *,
    reference: LoadedReference,
    device: Device,
    digest: str,
    emit: Callable[[Event], None],
    timeline: Timeline,
    nursery: Nursery | None,
    truths: TruthCache | None,
) -> Bench:
    """Begin a trial: its services, its machine and its share of the GPU, which `stack` closes.

    Waits until the GPU has room. Raises ProblemError where no workload keeps the constraints.
    """
    # Drawn only now: the candidate's digest is fixed before any input exists.
    seed = job.seed if job.seed is not None else new_root()
    spent_s = max(time.time() - timeline.started - timeline.waited_s, 0.0)
    budget = TimeBudget.of(job.profile, job.budget_s, spent_s=spent_s)
    host = HostNursery(nursery)
    stack.callback(host.close)
    machine = stack.enter_context(
        Replayer(
            candidate,
            digest,
            profile=job.profile,
            host=host,
            device=device,
            timeline=timeline,
            budget=budget,
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
        budget_s=budget.limit_s,
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
        waits = partial(_waits, emit, budget)
        trial.memory.book(stack.enter_context(Booking(gpu_of(device), waits)))
    stack.enter_context(runs_ended_by(budget.check))
    return Bench(
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
        budget=budget,
    )


def _waits(emit: Callable[[Event], None], budget: TimeBudget, queue: Queue | None) -> None:
    """Say that the trial waits for memory, with None that it has it; its time stands still."""
    budget.wait(waits=queue is not None)
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
