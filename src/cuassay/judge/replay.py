"""Run recorded findings again: the same scenario, the same judgement, perhaps elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cuassay import build
from cuassay.checks.registry import all_checks
from cuassay.errors import UsageError
from cuassay.formats.execute import load_reference
from cuassay.judge import snapshot
from cuassay.judge.environment import choose_device, environment
from cuassay.judge.examine import judge_scenario
from cuassay.judge.runner import Runner
from cuassay.judge.trial import JudgeTrial
from cuassay.model import serial
from cuassay.model.digest import candidate_digest
from cuassay.model.events import CheckFinished, CheckStarted, Event, FindingReported
from cuassay.model.jobs import ReplayJob
from cuassay.model.outcome import CheckReport, Failed, Finding, Passed
from cuassay.model.verdict import Decision, Timing, Verdict
from cuassay.sandbox.host.nursery import Nursery


def replay(
    job: ReplayJob, emit: Callable[[Event], None], started: float, nursery: Nursery | None
) -> Verdict:
    """Return the verdict on the findings recorded at `job.finding` alone.

    REJECTED where at least one shows again, ACCEPTED where none does. Raises UsageError
    where nothing is recorded there.
    """
    place = Path(job.finding)
    folder = place.parent.parent if place.is_file() else place
    findings = recorded(place)
    problem, candidate = snapshot.load(folder)
    device = choose_device(job.device)
    toolchain = build.toolchain(device)
    trial = JudgeTrial(
        problem,
        load_reference(problem),
        profile=job.profile,
        device=device,
        root_seed=job.seed or 0,
    )
    shared = nursery if nursery and nursery.device == device else None
    with Runner(trial, candidate, device=device, nursery=shared) as runner:
        reports = tuple(_again(trial, runner, finding, emit) for finding in findings)
    shown = sum(isinstance(report.outcome, Failed) for report in reports)
    return Verdict(
        decision=Decision.REJECTED if shown else Decision.ACCEPTED,
        reason=f"{shown} of {len(findings)} recorded findings show again",
        problem=problem.name,
        candidate=candidate.name,
        profile=job.profile,
        device=device,
        digest=candidate_digest(candidate, toolchain),
        truth="float32" if "float32" in trial.kinds else "float64",
        truth_reason=next(iter(trial.kinds.values()), ""),
        precision_grade="",
        checks=reports,
        timing=Timing(total_s=time.time() - started, candidate_s=runner.candidate_s),
        environment=environment(device, toolchain),
        seed=findings[0].seed or 0,
        run=folder.name,
    )


def recorded(place: Path) -> list[Finding]:
    """Return the finding in a file, or those of a run folder, that carry a scenario."""
    files = [place] if place.is_file() else sorted((place / "findings").glob("F*.json"))
    findings = [serial.loads(Finding, file.read_text()) for file in files]
    found = [finding for finding in findings if finding.scenario is not None]
    if not found:
        raise UsageError(f"{place} records no finding with a scenario: nothing to replay")
    return found


def _again(
    trial: JudgeTrial, runner: Runner, finding: Finding, emit: Callable[[Event], None]
) -> CheckReport:
    check = next((c for c in all_checks() if c.code == finding.code), all_checks()[0])
    emit(CheckStarted(code=finding.code, title=finding.title))
    scenario = finding.scenario
    assert scenario is not None
    run = runner(scenario)
    found = [f for f in judge_scenario(trial, check, scenario, run) if f.code == finding.code]
    for again in found:
        emit(FindingReported(finding=again))
    outcome = Failed(findings=tuple(found)) if found else Passed(summary="it does not show again")
    report = CheckReport(code=finding.code, title=finding.title, outcome=outcome, scenarios=1)
    emit(CheckFinished(report=report))
    return report
