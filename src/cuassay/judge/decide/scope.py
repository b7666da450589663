"""How far a trial looked, put together from what its checks judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements, legal, try_sizes, workload_sizes
from cuassay.inputs.growing import largest
from cuassay.judge.decide.tried import called, outlined
from cuassay.model.case import Case
from cuassay.model.machine import LaunchCount
from cuassay.model.outcome import CheckReport, Skipped
from cuassay.model.problem import Problem
from cuassay.model.scenario import Scenario
from cuassay.model.scope import AxisScope, FamilyScope, JudgedBy, Scope, Unreached, WorkloadScope
from cuassay.model.verdict import BenchmarkRule, Power

if TYPE_CHECKING:
    from cuassay.checks.base import Check
    from cuassay.judge.trial import JudgeTrial


def scope_of(
    trial: JudgeTrial,
    right: Iterable[tuple[Check, Scenario]],
    reports: Iterable[CheckReport],
    *,
    rule: BenchmarkRule | None,
    launches: LaunchCount,
    has_launches: bool,
    unreached: tuple[Unreached, ...],
    shared: tuple[Unreached, ...],
) -> Scope:
    """Return how far a trial looked.

    `right` are the scenarios that were judged and showed nothing. `has_launches`: the PTX machine
    was to execute kernels.
    """
    problem = trial.problem
    judged = [(check.grades or check.asks_right, scenario) for check, scenario in right]
    values = _sizes(
        problem, (case for by_truth, one in judged if by_truth for case in called(one, read=True))
    )
    addresses = _sizes(problem, (case for _, one in judged for case in outlined(one)))
    # `families` are the checks that only a GPU runs and that did not, together.
    skipped = [
        report
        for report in reports
        if isinstance(report.outcome, Skipped) and report.outcome.needs_gpu
    ]
    if not skipped:
        families: tuple[FamilyScope, ...] = ()
    else:
        families = (
            FamilyScope(
                codes=tuple(report.code for report in skipped),
                titles=tuple(report.title for report in skipped),
                reason="needs an NVIDIA GPU",
            ),
        )
    found = [elements(problem, workload_sizes(problem, one)) for one in problem.workloads]
    tops = {axis.name: largest(problem, axis) for axis in problem.var_axes() if not axis.derived}
    if problem.workloads and any(axis.declared for axis in problem.var_axes()):
        sizes = try_sizes(problem, workload_sizes(problem, problem.workloads[0]), tops)
        if sizes is not None and legal(problem, sizes):
            found.append(elements(problem, sizes))
    return Scope(
        axes=tuple(
            AxisScope(
                axis=axis.name,
                declared=axis.maximum if axis.declared else None,
                listed=max((w.axes.get(axis.name, 0) for w in problem.workloads), default=0),
                values=max((sizes[axis.name] for sizes in values), default=0),
                addresses=max((sizes[axis.name] for sizes in addresses), default=0),
            )
            for axis in problem.var_axes()
            if not axis.derived
        ),
        values=max((elements(problem, sizes) for sizes in values), default=0),
        wanted=max(found, default=0),
        workloads=_workloads(trial, values, addresses, rule),
        families=families,
        launches_made=launches.made,
        launches_judged=launches.judged,
        has_launches=has_launches,
        unreached=unreached,
        shared=shared,
    )


def with_power(scope: Scope, power: Power | None) -> Scope:
    """Return a scope that says whether the power of the inputs was measured."""
    if power is None:
        why = "the reference takes too long, or could not be changed"
    else:
        why = "" if power.mutants else "no broken version of the reference could be made"
    return replace(scope, power_missing=why)


def _sizes(problem: Problem, cases: Iterable[Case]) -> list[dict[str, int]]:
    """Return the sizes of all axes of cases, each once."""
    if not problem.workloads:
        return []
    base, free = workload_sizes(problem, problem.workloads[0]), problem.var_axes()
    bound = {
        tuple((axis.name, case.axes[axis.name]) for axis in free if axis.name in case.axes)
        for case in cases
    }
    found = (try_sizes(problem, base, dict(sizes)) for sizes in bound)
    return [sizes for sizes in found if sizes is not None]


def _workloads(
    trial: JudgeTrial,
    values: Sequence[Mapping[str, int]],
    addresses: Sequence[Mapping[str, int]],
    rule: BenchmarkRule | None,
) -> tuple[WorkloadScope, ...]:
    found = []
    for workload in trial.problem.workloads:
        sizes = workload_sizes(trial.problem, workload)
        reason = ""
        if sizes in values:
            judged = JudgedBy.VALUES
        elif rule is not None and rule.workload == workload.id and rule.accepted is not None:
            judged = JudgedBy.RULE
        else:
            judged = JudgedBy.ADDRESSES if sizes in addresses else JudgedBy.NO
            # What a run at these sizes takes is not asked: to follow a long loop takes as long.
            case, room = Case(label="a workload", axes=sizes), trial.memory.room
            try:
                has_memory = room.has_memory(trial.problem, case, truth=False)
            except CuassayError:
                has_memory = True
            if not has_memory:
                reason = "no room in the planned memory"
            else:
                reason = f"too costly for --profile {trial.profile.value}"
        found.append(
            WorkloadScope(
                workload=workload.id,
                axes={axis.name: sizes[axis.name] for axis in trial.problem.var_axes()},
                judged=judged,
                elements=elements(trial.problem, sizes),
                reason=reason,
            )
        )
    return tuple(found)
