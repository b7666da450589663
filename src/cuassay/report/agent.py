"""A verdict for a program that writes kernels: compact, typed, and no aid to cheat by.

Told are the failure, the smallest input that shows it, by how much, and what to try. Left out
is what would let a kernel be fitted to the test instead of the operator: seeds, limits, the
sizes and values of the other inputs, how near a passing check came to its limit, what the
inputs cannot tell apart, and what was not checked. Every trial draws new inputs, so that a
kernel which handles the told input alone is rejected again.
"""

from __future__ import annotations

from typing import Any

from cuassay.errors import UnknownNameError
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import Failed, Finding, FindingClass
from cuassay.model.scope import SIZES, WORKLOADS
from cuassay.model.verdict import Decision, Verdict
from cuassay.report import words
from cuassay.report.advice import advice
from cuassay.report.clean import clean, one_line

SCHEMA = "cuassay/agent/1"
_FINDINGS = 6
_EVIDENCE_BYTES = 2000
_INPUT_LINES = 24
_NEXT = {
    Decision.ACCEPTED: "nothing has to change",
    Decision.REJECTED: "repair the general case; every trial draws new inputs",
    Decision.INCONCLUSIVE: "this is no pass: see `undecided`, then run `cuassay doctor`",
}
# Conditions of a trial that looked no farther, without the sizes at which it ended.
_LOOKED = {SIZES: "the problem declares or lists", WORKLOADS: "the problem lists"}


def agent_document(verdict: Verdict) -> dict[str, Any]:
    """Return the compact document of a verdict: plain JSON data."""
    every = words.identified(verdict)
    telling, _ = words.grouped(every)
    wrong = sum(finding.finding_class is FindingClass.WRONG for finding in every)
    inconclusive = verdict.decision is Decision.INCONCLUSIVE
    counts: dict[str, int] = {}
    for check in verdict.checks:
        if words.applies(check):
            word = words.outcome_word(check)
            condition = isinstance(check.outcome, Failed) and words.only_condition(check)
            key = "condition" if condition else word
            counts[key] = counts.get(key, 0) + 1
    return {
        "schema": SCHEMA,
        "verdict": verdict.decision.value,
        "candidate": one_line(verdict.candidate, limit=200),
        "problem": one_line(verdict.problem, limit=200),
        "digest": verdict.digest,
        "next": _NEXT[verdict.decision],
        "diagnoses": [_diagnosis(made) for made in words.diagnosed(verdict)],
        "wrong_findings": wrong,
        "findings": [_finding(finding) for finding in telling[:_FINDINGS]],
        "conditions": [_condition(text) for text in verdict.conditions],
        "undecided": [one_line(verdict.reason)] if inconclusive else [],
        "checks": counts,
        "run": one_line(verdict.run, limit=80),
    }


def agent_error(
    message: str, *, exit_code: int, findings: tuple[Finding, ...] = ()
) -> dict[str, Any]:
    """Return the document of a trial without a verdict; `findings` were seen before its end."""
    names = {1: "REJECTED", 3: "INCONCLUSIVE"}
    telling, _ = words.grouped(findings)
    return {
        "schema": SCHEMA,
        "verdict": names.get(exit_code),
        "error": one_line(message, limit=2000),
        "findings": [_finding(finding) for finding in telling[:_FINDINGS]],
    }


def finding_document(verdict: Verdict, name: str) -> dict[str, Any]:
    """Return one finding (such as F1) with its cause and what others show of it: plain JSON data.

    Raises UnknownNameError.
    """
    every = {finding.id: finding for finding in words.identified(verdict)}
    if name not in every:
        raise UnknownNameError("finding", name, every)
    causes = [made for made in words.diagnosed(verdict) if name in made.findings]
    others = [other for made in causes for other in made.findings if other != name]
    return {
        "schema": SCHEMA,
        "verdict": verdict.decision.value,
        "candidate": one_line(verdict.candidate, limit=200),
        "problem": one_line(verdict.problem, limit=200),
        "finding": _finding(every[name]),
        "diagnoses": [_diagnosis(made) for made in causes],
        "same_cause": [
            f"{other} {one_line(every[other].message or every[other].title)}"
            for other in dict.fromkeys(others)
            if other in every
        ],
        "next": _NEXT[verdict.decision],
    }


def _diagnosis(made: Diagnosis) -> dict[str, Any]:
    told: dict[str, Any] = {
        "cause": made.cause.value,
        "what": one_line(made.words),
        "line": words.source_text(made.line) if made.line is not None else "",
        "input": "\n".join(words.block(made.example, lines=_INPUT_LINES)),
        "try": made.remedy,
        "findings": list(made.findings),
    }
    return {key: value for key, value in told.items() if value}


def _condition(text: str) -> str:
    """Return a condition; how far a trial looked is a limit to aim at, and left out."""
    key = text.split(":", 1)[0]
    return f"{key}: not judged as far as {_LOOKED[key]}" if key in _LOOKED else one_line(text)


def _finding(finding: Finding) -> dict[str, Any]:
    # How far beyond its limit a finding is, to one digit: no target to creep under.
    share = finding.share
    if share is None or not share > 1:
        over = None
    else:
        over = f"about {float(f'{share:.0e}'):g}" if share < 1e6 else "more than 1e6"
    growth = finding.growth
    if growth is None:
        grows = ""
    else:
        axis = one_line(growth.axis, limit=60)
        grows = f"the error grows as {axis}^{growth.exponent:.1f}; float32 sums keep it flat"
    if finding.counterexample:
        example = "\n".join(words.block(finding.counterexample, lines=_INPUT_LINES))
    else:
        fills = ", ".join(
            f"{one_line(name, limit=60)}: {one_line(fill, limit=60)}"
            for name, fill in finding.where.fills.items()
        )
        example = "; ".join(part for part in (words.sizes(finding.where.axes), fills) if part)
    told: dict[str, Any] = {
        "id": one_line(finding.id, limit=20),
        "code": one_line(finding.code, limit=20),
        "class": finding.finding_class.value,
        "severity": finding.severity.value,
        "what": one_line(finding.message) or one_line(finding.title),
        "where": words.place(finding),
        "values": words.values(finding),
        "input": example,
        "times_over_limit": over,
        "growth": grows,
        "evidence": clean(finding.evidence, cap_bytes=_EVIDENCE_BYTES),
        "try": advice(finding.code),
        "explain": f"cuassay explain {one_line(finding.code, limit=20)}",
        "replay": one_line(finding.reproduce),
    }
    return {key: value for key, value in told.items() if value not in ("", None)}
