"""What a trial does before its checks: the reference runs, plans follow the kernel, it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.checks.gpu.timing import timed
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import placed
from cuassay.judge.decide.refused_sizes import follow_sizes
from cuassay.judge.plan.by_launches import plan_by_launches
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.run.stuck import ended_where_stuck
from cuassay.model.scenario import Allocate, Call, Scenario, Step
from cuassay.model.verdict import Lane
from cuassay.sandbox.host.waits import run_now

if TYPE_CHECKING:
    from cuassay.judge.bench import Bench
    from cuassay.judge.run.executor import Executor

# For a context, H200: 0.4 to 0.6 s alone, 1.5 to 11 s beside thirty trials on four GPUs. Lanes
# beside the first one take two or three contexts more.
_BUSY_S = 1.2


def prepare(bench: Bench, executor: Executor) -> tuple[Executor, ...]:
    """Plan the trial and return what runs checks beside others, if any are to run so.

    Raises CannotJudgeError where the problem itself cannot be judged.
    """
    trial = bench.trial
    with (
        trial.timeline.span(Lane.JUDGE, "the reference on its smallest case"),
        ended_where_stuck(
            bench.emit,
            "the reference (or its generator) on a small case",
            progress=lambda: (len(trial.planned.learning.tried), trial.truths.seconds),
        ),
    ):
        smoke(trial)
        generate_once(trial)
    trial.planned.read_sources(source.text for source in bench.candidate.sources)
    plan_by_launches(bench)
    beside = executors_beside(bench, executor)
    if bench.on_gpu:  # what goes wrong here goes wrong in a check, which says so
        bench.optional("", lambda: _tune(bench, executor, beside[0] if beside else executor))
    bench.optional("", lambda: follow_sizes(trial, executor))
    return beside


def _tune(bench: Bench, executor: Executor, tuner: Executor) -> None:
    """Let the candidate's autotuners choose at listed sizes: every process uses that choice.

    At the largest, and at the smallest for what a large size does without: a kernel that launches
    one configuration there, say. In a process of `tuner`: that of `executor` stays one in which
    nothing ran.
    """
    if run_now(executor.pool.wait_built()) and executor.pool.builds.tunes:
        bench.machine.tunes = True
        case = timed(bench.trial).cases[0]
        cases = [case, placed(case, settings(bench.trial)[-1])]
        steps: list[Step] = []
        for number in range(len(cases)):
            steps += [Allocate(slot="a", case=number), Call(slot="a", result="r")]
        label = "autotuning at listed sizes"
        tuner(Scenario(label=label, cases=tuple(cases), steps=tuple(steps)))


def executors_beside(bench: Bench, executor: Executor) -> tuple[Executor, ...]:
    """Return what runs the checks beside others, if any are to run so.

    Two first builds of the same sources would get into each other's way. On a GPU nothing starts
    yet: the driver makes one context after another, and a first check may need a special one. None
    where it took long for the first one: others wait for it too, on any GPU of the host.
    """
    if bench.on_gpu:
        if bench.quick:  # beyond it, shapes are planned by launches
            bench.optional("", lambda: _make_truths(bench, executor))
        bench.optional("", lambda: run_now(executor.pool.wait_built()))
        if bench.plan.beside is None and executor.pool.builds.context_s > _BUSY_S:
            return ()
    return tuple(
        bench.executor(
            bench.candidate,
            lazy=not executor.pool.builds.done or bench.on_gpu,
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
