"""From the checks' reports to one verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from cuassay.model.outcome import (
    CheckReport,
    Errored,
    Failed,
    Finding,
    FindingClass,
    Inconclusive,
    Passed,
    Skipped,
)
from cuassay.model.proofs import Proof, ProofAnswer, Property
from cuassay.model.verdict import Decision, Profile

# Without these nothing was shown: a verdict cannot rest on the other checks alone.
_ESSENTIAL = ("NUM001", "BUILD001")


def bind(reports: Iterable[CheckReport], require: Sequence[str]) -> tuple[CheckReport, ...]:
    """Return the reports with findings whose condition `require` names turned into wrong ones.

    A finding's condition begins with its key: `shapes: only the sizes of its workloads`.
    Advice binds too where it carries a condition (`deterministic: ...`).
    """
    return tuple(_bind(report, set(require)) for report in reports)


def _bind(report: CheckReport, require: set[str]) -> CheckReport:
    outcome = report.outcome
    filed = outcome.findings if isinstance(outcome, Failed) else ()
    bound = [f for f in (*filed, *report.advice) if condition_key(f) in require]
    if not bound:
        return report
    wrong = tuple(dataclasses.replace(f, finding_class=FindingClass.WRONG) for f in bound)
    kept = tuple(f for f in filed if f not in bound)
    advice = tuple(f for f in report.advice if f not in bound)
    return dataclasses.replace(report, outcome=Failed(findings=(*wrong, *kept)), advice=advice)


def condition_key(finding: Finding) -> str:
    """Return the key of an unsafe finding's condition, such as `shapes`."""
    return finding.condition.split(":", 1)[0].strip()


def decide(
    reports: Sequence[CheckReport], *, profile: Profile, stated: Sequence[str] = ()
) -> tuple[Decision, str]:
    """Return the decision and its reason in one sentence.

    `stated` are conditions beside those that the checks found.
    """
    wrong = [finding for report in reports for finding in report.wrong]
    if wrong:
        order = ("critical", "high", "medium", "low")
        worst = min(wrong, key=lambda f: (order.index(f.severity.value), -(f.share or 0.0)))
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Decision.REJECTED, f"{worst.code}: {worst.message}{more}"
    undecided = [reason for report in reports if (reason := _undecided(report, profile))]
    if undecided:
        return Decision.INCONCLUSIVE, undecided[0]
    unsafe = (*conditions(reports), *stated)
    passed = sum(isinstance(report.outcome, Passed) for report in reports)
    checks = f"{passed} checks passed" if passed != 1 else "1 check passed"
    if unsafe:
        return Decision.ACCEPTED, f"no wrong result found; {checks}; under the stated conditions"
    return Decision.ACCEPTED, f"no wrong result found; {checks}"


def decide_proofs(
    decision: Decision, reason: str, proved: Iterable[Proof], wanted: Iterable[Property]
) -> tuple[Decision, str]:
    """Return the decision with the proofs that it has to rest on as well.

    A refuted one rejects; without a proof nothing is accepted.
    """
    answers = {one.what: one for one in proved}
    for what in wanted:
        one = answers.get(what, Proof(what=what, answer=ProofAnswer.UNKNOWN))
        if one.answer is ProofAnswer.REFUTED:
            return Decision.REJECTED, f"proof:{what} is refuted: {one.reason}"
        if one.answer is ProofAnswer.UNKNOWN and decision is Decision.ACCEPTED:
            decision, reason = Decision.INCONCLUSIVE, f"proof:{what} is not proved: {one.reason}"
    return decision, reason


def conditions(reports: Iterable[CheckReport]) -> tuple[str, ...]:
    """Return what an acceptance depends on, each condition once."""
    found = [
        finding.condition or finding.message
        for report in reports
        if isinstance(report.outcome, Failed)
        for finding in report.outcome.findings
        if finding.finding_class is FindingClass.UNSAFE
    ]
    return tuple(dict.fromkeys(found))


def _undecided(report: CheckReport, profile: Profile) -> str:
    """Return why this report keeps the verdict from being ACCEPTED, or an empty string."""
    binding = report.code in _ESSENTIAL or profile is Profile.DEEP
    if report.withheld:
        return f"{report.code} could not tell: {report.withheld}"
    match report.outcome:
        case Errored(reason=reason):
            return f"{report.code} failed by a fault of cuassay: {reason}"
        case Inconclusive(reason=reason) if binding:
            return f"{report.code} could not tell: {reason}"
        case Skipped(reason=reason, applicable=applicable) if report.code in _ESSENTIAL or (
            binding and applicable
        ):
            return f"{report.code} did not run: {reason}"
        case Failed(findings=findings) if report.code in _ESSENTIAL and not report.clean:
            return f"{report.code} judged no numbers: {findings[0].message}"
        case _:
            return ""
