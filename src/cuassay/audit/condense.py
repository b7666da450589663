"""From the end of a trial to its line in the audit."""

from __future__ import annotations

from cuassay.engine.executors import TaskEnded
from cuassay.errors import UsageError
from cuassay.model.audit import Audit, AuditFinding, AuditHeader, AuditItem, AuditResult, Ending
from cuassay.model.events import EngineFinished, EngineStopped
from cuassay.model.verdict import Decision, Verdict
from cuassay.store.runs import RunFolder

_MESSAGE_CHARACTERS = 2000


def condense(item: AuditItem, ended: TaskEnded) -> AuditResult:
    """Return the result of an item whose trial ended."""
    about = {
        "item": item,
        "duration_s": ended.duration_s,
        "lane": ended.lane,
        "attempts": ended.task.attempt,
        "run": f"candidates/{ended.task.folder.name}",
    }
    match ended.event:
        case EngineFinished(verdict=verdict):
            return AuditResult(**about, **_judged(verdict))  # type: ignore[arg-type]
        case EngineStopped(exit_code=2, message=message):
            ending = Ending.UNREADABLE
            return AuditResult(**about, ending=ending, reason=_cut(message))  # type: ignore[arg-type]
        case EngineStopped(message=message):
            return AuditResult(
                **about,  # type: ignore[arg-type]
                ending=Ending.LOST if ended.lost else Ending.STOPPED,
                verdict=Decision.INCONCLUSIVE,
                reason=_cut(message),
            )


def audit_of_run(run: RunFolder) -> Audit:
    """Return a run of one candidate as an audit of one. Raises UsageError without a verdict."""
    job, verdict = run.job(), run.verdict()
    if verdict is None:
        raise UsageError(f"run {run.path} ended without a verdict; run the check again")
    item = AuditItem(
        id=run.id,
        problem=job.problem,
        candidate=job.candidate,
        problem_name=verdict.problem,
        candidate_name=verdict.candidate,
        key="",
    )
    header = AuditHeader(
        id=run.id,
        tree=str(run.path),
        profile=verdict.profile,
        device=verdict.device,
        seed=verdict.seed,
        started_at="",
        version=verdict.environment.get("cuassay", ""),
    )
    return Audit(header=header, results=(of_verdict(item, verdict, run=str(run.path), attempt=1),))


def of_verdict(item: AuditItem, verdict: Verdict, *, run: str, attempt: int) -> AuditResult:
    """Return the result of a verdict that was found in a run folder without its line."""
    about = {"item": item, "run": run, "attempts": attempt, "duration_s": verdict.timing.total_s}
    return AuditResult(**about, **_judged(verdict))  # type: ignore[arg-type]


def _judged(verdict: Verdict) -> dict[str, object]:
    rule, power, speed = verdict.benchmark_rule, verdict.power, verdict.speed
    return {
        "ending": Ending.JUDGED,
        "verdict": verdict.decision,
        "reason": _cut(verdict.reason),
        "conditions": verdict.conditions,
        "findings": tuple(
            AuditFinding(
                id=found.id,
                code=found.code,
                title=found.title,
                message=_cut(found.message),
                classes=found.classes,
                finding_class=found.finding_class,
                severity=found.severity,
                share=found.share,
                output=found.where.output,
                condition=found.condition,
                reproduce=found.reproduce,
            )
            for found in verdict.findings
        ),
        "diagnoses": verdict.diagnoses,
        "theirs": rule.accepted if rule else None,
        "digest": verdict.digest,
        "device": verdict.environment.get("device", verdict.device),
        "precision_grade": verdict.precision_grade,
        "seed": verdict.seed,
        "mutants": power.mutants if power else None,
        "killed": power.killed if power else None,
        "theirs_killed": power.benchmark_killed if power else None,
        "candidate_us": speed.candidate_us if speed else None,
        "eager_us": speed.eager_us if speed else None,
    }


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS else text[: _MESSAGE_CHARACTERS - 1] + "…"
