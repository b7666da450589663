"""The verdict of a trial, put together from what its parts returned."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cuassay.formats.own_problem import own_condition
from cuassay.judge.decide.verdict import conditions
from cuassay.judge.environment import environment
from cuassay.judge.explain import lead, shown_sources
from cuassay.model import walls
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import CheckReport, Failed
from cuassay.model.verdict import Timing, Verdict
from cuassay.oracle.grade import grade

if TYPE_CHECKING:
    from cuassay.judge.bench import Bench
    from cuassay.judge.checking import Checked
    from cuassay.judge.decide.tried import SizeLog
    from cuassay.judge.deciding import Decided
    from cuassay.judge.extras import Extras
    from cuassay.judge.run.executor import Executor
    from cuassay.judge.trial import JudgeTrial


def plan_conditions(
    trial: JudgeTrial,
    *,
    cut_short: Sequence[str] = (),
    never_judged: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return what had no room in the planned memory or no time, or was never judged.

    `cut_short` are codes of checks, `never_judged` outputs with why nothing decides them.
    """
    room = trial.memory.room
    found = list(room.conditions)
    if cut_short:
        short = ", ".join(cut_short)
        allowed = f"{trial.check_s:g} s at {trial.profile.value}"
        found.append(
            f"time: {short} did not run all scenarios: with this reference they take longer "
            f"than a check may ({allowed}, counted); a larger --profile or --budget allows more"
        )
    found += [
        f"ill-conditioned: output '{name}' was judged for gross errors alone: everywhere {why}"
        for name, why in never_judged.items()
    ]
    return tuple(found)


def assemble(
    bench: Bench,
    executor: Executor,
    beside: Sequence[Executor],
    checked: Checked,
    reports: tuple[CheckReport, ...],
    *,
    made: Decided,
    extras: Extras,
    diagnoses: tuple[Diagnosis, ...],
    tried: SizeLog,
    toolchain: Mapping[str, str],
    build_s: float,
) -> Verdict:
    """Return the verdict; `reports` are those of the checks with their smallest inputs."""
    job, trial, stood = bench.job, bench.trial, executor.walls
    # A process that never started has tried no wall, and forged nothing.
    unconfined = walls.walls_condition(stood) if walls.were_tried(stood) else ""
    domain, kinds = trial.planned.domain, trial.truths.kinds
    own = (
        bench.executed_by(executor),
        unconfined,
        own_condition(bench.job),
        domain.built_condition,
        domain.listed_condition,
        bench.budget.condition,
    )
    kind = "float32" if "float32" in kinds else "float64"
    return Verdict(
        decision=made.decision,
        reason=lead(diagnoses) or made.reason,
        problem=trial.problem.name,
        candidate=bench.candidate.name,
        profile=job.profile,
        device=bench.device,
        digest=bench.digest,
        truth=kind,
        truth_reason=kinds.get(kind, ""),
        precision_grade=grade(checked.graded),
        checks=reports,
        conditions=(
            *conditions(reports),
            *filter(None, own),
            *made.conditions,
            *plan_conditions(trial, cut_short=checked.cut_short, never_judged=checked.never_judged),
        ),
        benchmark_rule=extras.rule,
        power=extras.power,
        timing=Timing(
            total_s=time.time() - trial.timeline.started,
            build_s=build_s,
            truth_s=trial.truths.seconds,
            candidate_s=sum(one.candidate_s for one in (executor, *beside)),
            compare_s=trial.comparing.seconds,
        ),
        environment=environment(bench.device, toolchain),
        seed=trial.root_seed,
        run=Path(job.run_dir).name,
        coverage=tried.coverage(),
        tried_sizes=tried.sizes(
            finding
            for report in reports
            if isinstance(report.outcome, Failed)
            for finding in report.outcome.findings
        ),
        speed=extras.speed,
        sources=shown_sources(bench, diagnoses),
        timeline=tuple(trial.timeline.spans),
        workers=sum(one.started for one in bench.opened),
        walls=stood,
        diagnoses=diagnoses,
        proved=made.proved,
        launches=bench.machine.count(),
        scope=made.scope,
    )
