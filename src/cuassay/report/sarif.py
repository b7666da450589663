"""Verdicts as one SARIF 2.1.0 log, within the limits of GitHub code scanning.

One run; a rule for every check that ran, with its documentation page; a result for every
place where a check fails, worst first. A verdict that is not a decision becomes a tool
notification of level error: a viewer that shows no results must not read that as a pass.

Limits (GitHub, "SARIF support for code scanning"): 20 runs, 25 000 results of which the first
5 000 are kept, 20 tags a rule, 10 MB gzipped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import Finding, FindingClass
from cuassay.report import words
from cuassay.report.clean import clean, one_line, plain_fields
from cuassay.report.judged import Judged, line_shown
from cuassay.report.rules import Rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
INFORMATION = "https://github.com/cuassay/cuassay"
RESULTS = 5000
_TEXT = 2000
_LEVELS = {
    FindingClass.WRONG: "error",
    FindingClass.UNSAFE: "warning",
    FindingClass.ADVICE: "note",
}
_ORDER = tuple(_LEVELS)  # worst first
# A memory fault is a security matter (CVSS-like score, 7.0 to 8.9 is "high"); others are not.
_SECURITY = {"MEM": "8.1", "RACE": "7.0"}
_LINK = re.compile(r"\]\s*\(")


def sarif(trials: Sequence[Judged], *, rules: Rules, version: str) -> dict[str, Any]:
    """Return the log of some trials as JSON data."""
    codes = sorted(
        {
            one_line(code, limit=40)
            for judged in trials
            if (verdict := judged.verdict) is not None
            for code in (*(c.code for c in verdict.checks), *(f.code for f in verdict.findings))
        }
    )
    found = [
        (judged, finding, cause)
        for judged in trials
        if judged.verdict is not None
        for finding, cause in words.explained(judged.verdict)
    ]
    found.sort(key=lambda pair: _ORDER.index(pair[1].finding_class))
    results = _results(found, codes)
    notifications = [note for judged in trials for note in _notifications(judged)]
    if len(results) > RESULTS:
        text = f"{len(results) - RESULTS} more results are in the run folders, not in this log"
        notifications.append({"level": "warning", "message": {"text": text}})
    rule_list = []
    for code in codes:
        rule = rules(code)
        family = re.match(r"[A-Z]+", rule.code)
        score = _SECURITY.get(family[0] if family else "")
        tags = ["correctness", "gpu", *(("security",) if score else ())]
        properties = {"tags": tags, "precision": "very-high", "problem.severity": "error"}
        if score:
            properties["security-severity"] = score
        what = rule.section("What it does") or rule.title
        rule_list.append(
            {
                "id": rule.code,
                "name": re.sub(r"\W+", "", rule.title.title()) or rule.code,
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": what[:_TEXT]},
                **({"helpUri": rule.address} if rule.address else {}),
                "help": {"text": rule.text(), "markdown": rule.markdown()},
                "properties": properties,
            }
        )
    driver = {
        "name": "cuassay",
        "version": version,
        "semanticVersion": version,
        "informationUri": INFORMATION,
        "rules": rule_list,
    }
    invocation = {
        "executionSuccessful": all(judged.verdict is not None for judged in trials),
        "toolExecutionNotifications": notifications,
    }
    # How far each trial looked, by its candidate
    scopes = {
        one_line(verdict.candidate, limit=200): list(words.scope_told(verdict))
        for verdict in (judged.verdict for judged in trials)
        if verdict is not None
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "cuassay/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "properties": {"scope": {name: lines for name, lines in scopes.items() if lines}},
        "results": results[:RESULTS],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _results(
    found: Sequence[tuple[Judged, Finding, Diagnosis | None]], codes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a result for every fingerprint, in the order given; the worst finding speaks for it.

    A cause with many findings is one alert. A check that fails at one place on twenty inputs is one
    with an occurrenceCount of 20.
    """
    made: dict[str, dict[str, Any]] = {}
    positions = {code: number for number, code in enumerate(codes)}
    for judged, finding, cause in found:
        line = line_shown(finding, judged)
        # What tells one alert from another: file, code, symbol, output, and a named line.
        symbol = judged.candidate.entry_function if judged.candidate else ""
        kind = finding.finding_class.value
        parts = (line.path, line.text, finding.code, symbol, finding.where.output, kind)
        key = hashlib.sha256("\0".join(map(clean, parts)).encode()).hexdigest()[:32]
        if key in made:
            made[key]["occurrenceCount"] += 1
            continue
        code = one_line(finding.code, limit=40)
        inside = not line.path.startswith("/")
        artifact: dict[str, Any] = {"uri": quote(clean(line.path), safe="/")}
        if inside:
            artifact["uriBaseId"] = "%SRCROOT%"
        else:
            artifact["uri"] = f"file://{artifact['uri']}"
        physical = {"artifactLocation": artifact, "region": {"startLine": line.line}}
        location: dict[str, Any] = {"physicalLocation": physical}
        if judged.candidate is not None:
            name = one_line(judged.candidate.entry_function, limit=120)
            location["logicalLocations"] = [{"name": name, "kind": "function"}]
        verdict = judged.verdict
        made[key] = {
            "ruleId": code,
            "ruleIndex": positions[code],
            "level": _LEVELS[finding.finding_class],
            "message": {"text": _message(finding, cause)},
            "locations": [location],
            "occurrenceCount": len(cause.findings) if cause is not None else 1,
            "partialFingerprints": {"cuassay/v1": key},
            "properties": {
                "id": one_line(finding.id, limit=20),
                "cause": cause.cause.value if cause is not None else "",
                "findings": [one_line(name, limit=20) for name in cause.findings] if cause else [],
                "severity": finding.severity.value,
                "findingClass": finding.finding_class.value,
                **plain_fields(finding, "measured allowed share"),
                "reproduce": one_line(finding.reproduce),
                "digest": one_line(verdict.digest, limit=80) if verdict is not None else "",
                "run": one_line(verdict.run, limit=80) if verdict is not None else "",
            },
        }
    return list(made.values())


def _message(finding: Finding, cause: Diagnosis | None) -> str:
    """Return what was seen, by how much, on which input, and the command that shows it.

    `[text](target)` would be a link in a SARIF message; candidate text gets none.
    """
    parts = [one_line(finding.message) or one_line(finding.title)]
    if cause is not None:
        words_ = one_line(cause.words).rstrip(".")
        parts = [
            f"{words_}.",
            f"To do: {cause.remedy}.",
            *([] if words_ == parts[0].rstrip(".") else parts),
        ]
    if finding.share is not None:
        parts.append(f"Measured: {words.times(finding.share)}.")
    if where := words.place(finding):
        parts.append(f"Where: {where}.")
    if finding.where.axes:
        parts.append(f"Input: {words.sizes(finding.where.axes)}.")
    if finding.reproduce:
        parts.append(f"Reproduce: {one_line(finding.reproduce)}")
    return _LINK.sub("] (", " ".join(parts))[:_TEXT]


def _notifications(judged: Judged) -> Iterable[dict[str, Any]]:
    verdict = judged.verdict
    if verdict is None:
        yield _note("error", f"{judged.name}: no verdict: {judged.reason}")
        return
    if verdict.decision.value == "INCONCLUSIVE":
        yield _note("error", f"{judged.name}: INCONCLUSIVE: {judged.reason}")
    for text in words.not_checked(verdict):
        yield _note("note", f"{judged.name}: not checked: {text}")


def _note(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": _LINK.sub("] (", text)[:_TEXT]}}
