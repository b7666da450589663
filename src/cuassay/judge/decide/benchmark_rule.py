"""The benchmark's own verdict: its inputs, its seed, its tolerance, the reference as written."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING

from cuassay.checks.base import done
from cuassay.checks.numeric.common import single_call
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements
from cuassay.judge.decide.structure import matched
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.problem import STATE_SOURCE, StateSource, Tolerance, Workload
from cuassay.model.scenario import Poison
from cuassay.model.verdict import BenchmarkRule
from cuassay.oracle.benchmark_rule import largest_errors, matched_ratio

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial

# The seed that the SOL-ExecBench evaluator fixes for every process.
BENCHMARK_SEED = 200
_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 31}
_BEYOND = 4
_WORK = 1 << 27  # elements and multiply-adds of a call on a CPU: the PTX machine makes 1e7 a second


def benchmark_case(trial: JudgeTrial, workload: Workload) -> Case:
    """Return the benchmark's own case for a workload, under its fixed seed.

    A module keeps the state that its constructor makes: that is what KernelBench compares. Where
    all of it is a placeholder the benchmark loads the reference's.
    """
    is_drawn = not set(trial.problem.state) <= set(trial.problem.placeholders)
    own = {STATE_SOURCE: StateSource.INITIAL.value} if is_drawn else {}
    return Case(
        label=f"benchmark {workload.id}",
        axes=resolve(trial.problem.axes, workload.axes),
        scalars=own,
        seed=BENCHMARK_SEED,
        benchmark=True,
        workload=workload.id,
    )


def evaluate(trial: JudgeTrial, run: RunScenario) -> BenchmarkRule | None:
    """Return what the problem's own rule says of the candidate: the worst workload tried.

    None where every workload exceeds the device's budget more than `_BEYOND` times: running out of
    memory would end the judge, and with it the verdict on everything else. On a CPU a workload that
    computes too much for it is not run, and the note says so.
    """
    worst: BenchmarkRule | None = None
    most = _BEYOND * _limit(trial)
    for workload in affordable(trial)[: trial.effort.benchmark_workloads]:
        if elements(trial.problem, resolve(trial.problem.axes, workload.axes)) > most:
            continue
        case = benchmark_case(trial, workload)
        if not trial.has_room(case, truth=False):
            continue
        work = 0 if trial.device.on_gpu else trial.memory.room.work(trial.problem, case.axes)
        if work > _WORK:
            note = f"a call computes {work:.1e} elements and products, too many for a CPU"
            worst = worst or _rule(workload, None, None, "", note)
            continue
        rule = _one(trial, run, workload)
        if rule.accepted is False:
            # Other calls of this trial may have left something behind; the benchmark makes none.
            rule = _one(trial, run, workload, fresh=True)
        if worst is None or _badness(rule) > _badness(worst):
            worst = rule
    return worst


def affordable(trial: JudgeTrial) -> list[Workload]:
    """Return the workloads that fit the device and the planned memory, largest first.

    The smallest where none does.
    """
    limit = _limit(trial)
    sized = [
        (elements(trial.problem, resolve(trial.problem.axes, workload.axes)), workload)
        for workload in trial.problem.workloads
        if not workload.recorded  # those are ours, not the benchmark's
    ]
    fitting = [
        pair
        for pair in sized
        if pair[0] <= limit and trial.has_room(benchmark_case(trial, pair[1]), truth=False)
    ] or [min(sized, key=lambda p: p[0])]
    return [workload for _, workload in sorted(fitting, key=lambda pair: -pair[0])]


def _limit(trial: JudgeTrial) -> int:
    return _ELEMENTS[trial.device.kind]


def _badness(rule: BenchmarkRule) -> float:
    if rule.accepted is None:
        return -1.0
    return (0.0 if rule.accepted else 2.0) + 1.0 - (rule.matched_ratio or 0.0)


def _tolerance(workload: Workload) -> Tolerance:
    """Return the stated rule, or what asks for truth where nobody stated one."""
    return workload.tolerance or Tolerance()


def _rule(
    workload: Workload, accepted: bool | None, ratio: float | None, output: str, note: str
) -> BenchmarkRule:
    tolerance = _tolerance(workload)
    return BenchmarkRule(
        accepted=accepted,
        matched_ratio=ratio,
        required_ratio=tolerance.required_matched_ratio,
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        workload=workload.id,
        worst_output=output,
        note=note,
        stated=workload.tolerance is not None,
    )


def _one(
    trial: JudgeTrial, run: RunScenario, workload: Workload, *, fresh: bool = False
) -> BenchmarkRule:
    case = benchmark_case(trial, workload)
    rule = partial(_rule, workload)
    try:
        inputs = trial.inputs(case)
        expected = trial.truths.as_written(list(inputs.values()))
    except CuassayError as error:
        return rule(None, None, "", f"the benchmark's inputs could not be made: {error}")
    # The benchmark hands zero-filled outputs to destination-style kernels.
    scenario = single_call(case, label=case.label, poison=Poison.ZEROS)
    outcome = run(dataclasses.replace(scenario, fresh=fresh))
    record = done(outcome, 2)
    if record is None:
        return rule(False, None, "", "the kernel did not finish on the benchmark's inputs")
    shapes = [tuple(want.shape) for want in expected]
    got = matched(trial.problem, shapes, outcome, record.items)
    ratios: list[tuple[float, bool, str]] = []
    errors: list[tuple[float, float]] = []
    for spec, tensor, want in zip(trial.problem.outputs, got, expected, strict=True):
        if isinstance(tensor, str):
            return rule(False, 0.0, spec.name, tensor)
        accepted, ratio = matched_ratio(tensor, want, _tolerance(workload))
        ratios.append((ratio, accepted, spec.name))
        errors.append(largest_errors(tensor, want) or (math.inf, math.inf))
    ratio, _, output = min(ratios)
    return dataclasses.replace(
        rule(all(accepted for _, accepted, _ in ratios), ratio, output, ""),
        max_absolute_error=max(absolute for absolute, _ in errors),
        max_relative_error=max(relative for _, relative in errors),
    )
