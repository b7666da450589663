"""The verdict as one JSON document, schema `cuassay/verdict/1`; docs/json-schema.md explains it.

Every text is cleaned of control characters; numbers that JSON cannot hold are the strings
"NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from cuassay.model import serial
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.events import CheckFinished, EngineStarted, EngineStopped, Event, FindingReported
from cuassay.model.machine import SourceView
from cuassay.model.outcome import CheckReport, Finding, Growth
from cuassay.model.scope import Scope
from cuassay.model.verdict import BenchmarkRule, Power, Span, Speed, Verdict
from cuassay.report import words
from cuassay.report.clean import clean

SCHEMA = "cuassay/verdict/1"
_LARGEST = 1e300  # stands for infinity, which JSON has not


def document(verdict: Verdict, *, findings: tuple[Finding, ...] | None = None) -> dict[str, Any]:
    """Return the document of a verdict: plain JSON data with the keys of the schema.

    `findings` replaces the verdict's own, where only some are wanted.
    """
    found = words.identified(verdict) if findings is None else findings
    timing = {
        "total": plain_number(verdict.timing.total_s),
        "build": plain_number(verdict.timing.build_s),
        "truth": plain_number(verdict.timing.truth_s),
        "candidate": plain_number(verdict.timing.candidate_s),
        "compare": plain_number(verdict.timing.compare_s),
    }
    return {
        "schema": SCHEMA,
        "verdict": verdict.decision.value,
        "reason": clean(verdict.reason),
        "conditions": [clean(condition) for condition in verdict.conditions],
        "diagnoses": [diagnosis(made) for made in words.diagnosed(verdict)],
        "findings": [_finding(finding) for finding in found],
        "checks": [_check(check) for check in verdict.checks],
        "benchmark_rule": _rule(verdict.benchmark_rule),
        "power": _power(verdict.power),
        "speed_us": _speed(verdict.speed),
        "timing_s": timing,
        "workers": verdict.workers,
        "timeline": [_span(span) for span in verdict.timeline],
        "environment": _texts(verdict.environment),
        "digest": verdict.digest,
        "problem": clean(verdict.problem),
        "candidate": clean(verdict.candidate),
        "profile": verdict.profile.value,
        "device": clean(verdict.device),
        "truth": clean(verdict.truth),
        "truth_reason": clean(verdict.truth_reason),
        "precision_grade": clean(verdict.precision_grade),
        "seed": verdict.seed,
        "run": clean(verdict.run),
        "notes": [clean(note) for note in verdict.notes],
        "scope": _scope(verdict.scope),
        "coverage": [
            {
                "axis": clean(axis.axis),
                "values": list(axis.values),
                "by_check": {clean(code): count for code, count in axis.checks.items()},
            }
            for axis in verdict.coverage
        ],
        "executed": [_executed(view) for view in verdict.sources],
        "walls": _texts(verdict.walls),
        "proved": [
            {
                "property": one.what.value,
                "answer": one.answer.value,
                "scope": [clean(line) for line in one.scope],
                "reason": clean(one.reason),
            }
            for one in verdict.proved
        ],
        "launches": {
            "made": verdict.launches.made,
            "judged": verdict.launches.judged,
            "causes": {clean(why): count for why, count in verdict.launches.causes.items()},
        },
    }


def _scope(scope: Scope) -> dict[str, Any]:
    """Return how far the trial looked, as JSON data."""
    return {
        "axes": {
            clean(axis.axis): {
                "declared": axis.declared,
                "listed": axis.listed,
                "values": axis.values,
                "addresses": axis.addresses,
            }
            for axis in scope.axes
        },
        "elements": {"wanted": scope.wanted, "values": scope.values},
        "workloads": [
            {
                "workload": clean(one.workload),
                "axes": {clean(name): size for name, size in one.axes.items()},
                "elements": one.elements,
                "judged": one.judged.value,
                "reason": clean(one.reason),
            }
            for one in scope.workloads
        ],
        "not_run": [
            {"codes": list(one.codes), "reason": clean(one.reason)} for one in scope.families
        ],
        "launches": {
            "made": scope.launches_made,
            "judged": scope.launches_judged,
            "expected": scope.has_launches,
        },
        "power_missing": clean(scope.power_missing),
        "unreached": [
            {"file": clean(one.file), "lines": [one.line, one.last], "test": clean(one.test)}
            for one in scope.unreached
        ],
    }


def diagnosis(made: Diagnosis) -> dict[str, Any]:
    """Return a cause as JSON data: in words, its line, the smallest input, what to do."""
    line = made.line
    return {
        "cause": made.cause.value,
        "words": clean(made.words),
        "line": None
        if line is None
        else {
            "file": clean(line.file),
            "line": line.line,
            "text": clean(line.text),
            "what": clean(line.what),
        },
        "smallest_input": clean(made.example),
        "remedy": made.remedy,
        "basis": made.basis.value,
        "findings": list(made.findings),
    }


def _executed(view: SourceView) -> dict[str, Any]:
    """Return a file's lines that the PTX machine executed, with their relative errors."""
    return {
        "file": clean(view.file),
        "lines": list(view.executed),
        "relative_error": {line: min(error, _LARGEST) for line, error in view.heat.items()},
        "marks": [
            {"line": line, "class": clean(kind), "code": clean(code), "text": clean(text)}
            for line, kind, code, text in view.marks
        ],
    }


def _span(span: Span) -> dict[str, Any]:
    parts_s = {clean(name): round(seconds, 4) for name, seconds in span.parts_s.items()}
    return {
        "lane": span.lane.value,
        "what": clean(span.what),
        "begin_s": round(span.begin_s, 4),
        "end_s": round(span.end_s, 4),
        **({"parts_s": parts_s} if parts_s else {}),
    }


def error_document(
    message: str, *, kind: str, exit_code: int, seen: Iterable[Event] = (), traceback: str = ""
) -> dict[str, Any]:
    """Return the document of a trial that ended without a verdict.

    `verdict` is null for a mistake of the user (exit code 2 and 130) and INCONCLUSIVE where
    the trial could not be carried out (3); findings and checks hold what was seen before.
    """
    events = tuple(seen)
    started = next((event for event in events if isinstance(event, EngineStarted)), None)
    findings = [e.finding for e in events if isinstance(e, FindingReported)]
    error = {"kind": kind, "message": clean(message)}
    return {
        "schema": SCHEMA,
        "verdict": "INCONCLUSIVE" if exit_code == 3 else None,
        "reason": clean(message),
        "conditions": [],
        "findings": [_finding(finding) for finding in findings],
        "checks": [_check(event.report) for event in events if isinstance(event, CheckFinished)],
        "error": {**error, "traceback": clean(traceback)} if traceback else error,
        "exit_code": exit_code,
        "digest": started.digest if started else "",
        "seed": started.seed if started else None,
        "run": clean(started.run) if started else "",
    }


def stopped_document(event: EngineStopped, seen: Iterable[Event]) -> dict[str, Any]:
    """Return the document of a trial that the engine stopped."""
    return error_document(
        event.message,
        kind="usage" if event.exit_code == 2 else "cannot_judge",
        exit_code=event.exit_code,
        seen=seen,
        traceback=event.traceback,
    )


def _finding(finding: Finding) -> dict[str, Any]:
    where = finding.where
    return {
        "id": finding.id,
        "code": finding.code,
        "title": clean(finding.title),
        "message": clean(finding.message),
        "classes": list(finding.classes),
        "finding_class": finding.finding_class.value,
        "severity": finding.severity.value,
        "measured": plain_number(finding.measured),
        "allowed": plain_number(finding.allowed),
        "share": plain_number(finding.share),
        "statistic": clean(finding.statistic),
        "where": {
            "output": clean(where.output),
            "group": clean(where.group),
            "index": list(where.index),
            "got": clean(where.got),
            "expected": clean(where.expected),
            "axes": {clean(name): size for name, size in where.axes.items()},
            "fills": _texts(where.fills),
        },
        "seed": finding.seed,
        "reproduce": clean(finding.reproduce),
        "condition": clean(finding.condition),
        "growth": _growth(finding.growth),
        "counterexample": clean(finding.counterexample),
        "details": [[clean(name), clean(value)] for name, value in finding.details],
        "evidence": clean(finding.evidence),
    }


def _growth(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {
        "axis": clean(growth.axis),
        "output": clean(growth.output),
        "exponent": plain_number(growth.exponent),
        "trusted_exponent": plain_number(growth.trusted_exponent),
        "target": growth.target,
        "projected": plain_number(growth.projected),
        "points": [
            {
                "length": point.length,
                "error": plain_number(point.error),
                "trusted": plain_number(point.trusted),
            }
            for point in growth.points
        ],
    }


def _check(check: CheckReport) -> dict[str, Any]:
    return {
        "code": check.code,
        "title": clean(check.title),
        "outcome": words.outcome_word(check),
        "reason": words.outcome_reason(check),
        "applicable": words.applies(check),
        "share": plain_number(words.outcome_share(check)),
        "duration_s": plain_number(check.duration_s),
    }


def _rule(rule: BenchmarkRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    return {
        "accepted": rule.accepted,
        "matched_ratio": plain_number(rule.matched_ratio),
        "required_ratio": plain_number(rule.required_ratio),
        "atol": plain_number(rule.atol),
        "rtol": plain_number(rule.rtol),
        "workload": clean(rule.workload),
        "worst_output": clean(rule.worst_output),
        "note": clean(rule.note),
    }


def _power(power: Power | None) -> dict[str, Any] | None:
    if power is None:
        return None
    return {
        "mutants": power.mutants,
        "killed": power.killed,
        "survivors": [clean(name) for name in power.survivors],
        "benchmark_killed": power.benchmark_killed,
    }


def _speed(speed: Speed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {
        "axes": {clean(name): size for name, size in speed.axes.items()},
        "candidate": speed.candidate_us,
        "eager": speed.eager_us,
        "compiled": speed.compiled_us,
        "floor": speed.floor_us,
    }


def _texts(texts: Mapping[str, str]) -> dict[str, str]:
    return {clean(name): clean(value) for name, value in texts.items()}


def plain_number(value: float | None) -> float | str | None:
    """Return a number that JSON can hold: the others as "NaN", "Infinity" and "-Infinity"."""
    if value is None or math.isfinite(value):
        return value
    written: dict[str, str] = serial.to_json(value)
    return written["float"]
