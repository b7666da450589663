"""Run recorded findings again: the same scenario, the same judgement, perhaps elsewhere."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from cuassay import build
from cuassay.checks.registry import all_checks
from cuassay.diagnosis import diagnose
from cuassay.errors import CuassayError, UsageError
from cuassay.formats.execute import load_reference
from cuassay.judge.decide.examine import judge_scenario
from cuassay.judge.environment import choose_device, environment
from cuassay.judge.kept import snapshot
from cuassay.judge.kept.export import export
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.digest import candidate_digest
from cuassay.model.events import CheckFinished, CheckStarted, Event, FindingReported, Progress
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
    problem, candidate = snapshot.read_snapshot(folder)
    device = choose_device(job.device)
    toolchain = build.toolchain(device)
    shared = nursery if nursery and nursery.device == device else None
    digest = candidate_digest(candidate, toolchain)
    host = HostNursery(shared)
    build.prepare(candidate, device=device)
    with (
        closing(host),
        Replayer(candidate, digest, profile=job.profile, host=host, device=device) as machine,
    ):
        trial = open_trial(
            problem,
            load_reference(problem),
            profile=job.profile,
            device=device,
            root_seed=job.seed or 0,
            machine=machine,
        )
        with suppress(CuassayError):  # what inputs are was found out so before the case was drawn
            generate_once(trial)
        with Executor(trial, candidate, device=device, nursery=shared, host=host) as runner:
            reports = tuple(
                _again(trial, candidate, runner, finding, emit, export_to=job.export)
                for finding in findings
            )
    shown = [
        found
        for report in reports
        if isinstance(report.outcome, Failed)
        for found in report.outcome.findings
    ]
    count = sum(isinstance(report.outcome, Failed) for report in reports)
    names = {finding.id for finding in shown}
    causes = tuple(one for one in _causes(folder) if names & set(one.findings))
    diagnoses = causes or diagnose(shown)
    reason = "the finding was reproduced" if count else "the finding does not show again"
    if len(findings) > 1:
        reason = f"{count} of {len(findings)} findings were reproduced"
    return Verdict(
        decision=Decision.REJECTED if count else Decision.ACCEPTED,
        reason=reason,
        diagnoses=diagnoses,
        problem=problem.name,
        candidate=candidate.name,
        profile=job.profile,
        device=device,
        digest=digest,
        truth="float32" if "float32" in trial.truths.kinds else "float64",
        truth_reason=next(iter(trial.truths.kinds.values()), ""),
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


def _causes(folder: Path) -> tuple[Diagnosis, ...]:
    """Return the causes that the run's own experiments found; none where it has no verdict."""
    try:
        verdict: Verdict = serial.loads(Verdict, (folder / "verdict.json").read_text())
    except (OSError, UsageError):
        return ()
    return verdict.diagnoses


def _again(
    trial: JudgeTrial,
    candidate: Candidate,
    runner: Executor,
    finding: Finding,
    emit: Callable[[Event], None],
    *,
    export_to: str,
) -> CheckReport:
    check = next((c for c in all_checks() if c.code == finding.code), all_checks()[0])
    emit(CheckStarted(code=finding.code, title=finding.title))
    scenario = finding.scenario
    assert scenario is not None
    run = runner(scenario)
    judgement = judge_scenario(trial, check, scenario, run, grade=True)
    found = [f for f in judgement.findings if f.code == finding.code]
    wanted = finding.cause, finding.where.output, finding.finding_class
    same = [f for f in found if (f.cause, f.where.output, f.finding_class) == wanted]
    again = [  # under the name that it was recorded with
        dataclasses.replace(
            one,
            id=finding.id,
            reproduce=finding.reproduce,
            counterexample=finding.counterexample,
            holds_for=finding.holds_for,
            lines=one.lines or finding.lines,
        )
        for one in same or found
    ]
    if export_to:
        files = export(trial, candidate, finding, run, Path(export_to))
        told = ", ".join(file.name for file in files)
        emit(Progress(text=f"written to {Path(export_to).parent}: {told}"))
    for one in again[:1]:
        emit(FindingReported(finding=one))
    outcome = Failed(findings=(again[0],)) if again else Passed(summary="it does not show again")
    report = CheckReport(code=finding.code, title=finding.title, outcome=outcome, scenarios=1)
    emit(CheckFinished(report=report))
    return report
