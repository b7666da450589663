"""What a verdict states beside its decision: the benchmark's own rule, power, times of a call."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from cuassay.judge.checking import power_of
from cuassay.judge.decide.control import reference_candidate
from cuassay.judge.measure import selection, speed
from cuassay.judge.measure.choose import choose
from cuassay.model.verdict import BenchmarkRule, Lane, Power, Speed
from cuassay.sandbox.local import LocalRunner

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.bench import Bench
    from cuassay.judge.checking import Checked
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.run.executor import Executor
    from cuassay.judge.run.reference import ReferenceRunner
    from cuassay.model.scenario import Scenario

_HERE_S = 5.0  # that nothing ends before it is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What stands beside the decision; None for what was not measured."""

    rule: BenchmarkRule | None = None
    power: Power | None = None
    speed: Speed | None = None


def extras_of(
    bench: Bench,
    executor: Executor,
    reference: ReferenceRunner,
    checked: Checked,
    *,
    rule: BenchmarkRule | None,
) -> Extras:
    """Measure them, and choose the input regimes for later trials.

    The power of the inputs and the candidate's timed calls are those that were `checked`, where
    they were; the decision asked for the benchmark's own `rule`.
    """
    trial, measured = bench.trial, checked.power
    eager: RunScenario | None = None
    if bench.has_times(executor):
        eager = bench.optional("", lambda: _reference_as_written(bench, reference))
    if measured is None:  # beside others there may have been no memory for it
        measured = power_of(bench)
    spent: Speed | None = None
    if eager is not None:
        spent = bench.optional(
            "the time of a call",
            lambda: speed.measure_speed(
                trial, executor, eager, compiled=reference.compiled, known=checked.timed
            ),
        )
    if (
        not bench.quick
        and not bench.job.isolated
        and selection.read_selection(trial.problem) is None
    ):
        chosen = bench.optional("the input regimes for later trials", lambda: choose(trial))
        if chosen is not None:
            selection.store(trial.problem, chosen)
    return Extras(rule=rule, power=measured, speed=spent)


def _reference_as_written(bench: Bench, reference: ReferenceRunner) -> RunScenario:
    """Return what runs the reference for its time: at `quick` this process, where it can.

    A process more is a context more. It takes one where memory has room for one at a time, where
    this process calls the reference in another way, and for one too slow to run without an end.
    """
    if not bench.quick:
        return reference_to_time(bench)  # its worker builds while the power is measured
    trial, problem = bench.trial, bench.trial.problem
    called_otherwise = problem.state or problem.built or problem.ranks is not None
    if trial.memory.is_large or called_otherwise:
        return reference.begin()
    with suppress(torch.OutOfMemoryError):  # a process of its own has no truths beside it
        if speed.takes_s(trial) <= _HERE_S:
            return partial(_timed_here, bench, reference)
    return reference.begin()


def _timed_here(bench: Bench, reference: ReferenceRunner, scenario: Scenario) -> Run:
    """Run the reference in this process, where it has gone on so far."""
    trial = bench.trial
    if scenario.fresh:  # here it did not go on: there may have been no memory beside truths
        return reference.begin()(scenario)
    runner = LocalRunner(trial.reference.call, trial.problem, device=bench.device)
    with trial.timeline.span(Lane.REFERENCE, scenario.label):
        return runner.run(scenario, trial.truths.inputs)


def reference_to_time(bench: Bench, *, compiled: bool = False) -> Executor:
    """Open a process of the reference for taking its time, `compiled` by torch or as it is."""
    reference = reference_candidate(bench.trial.problem)
    if compiled:
        reference = speed.compiled_reference(reference)
    return bench.executor(reference, spares=0, lane=Lane.REFERENCE)
