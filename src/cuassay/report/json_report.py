"""The verdict as one JSON document, schema `cuassay/verdict/1`; docs/json-schema.md explains it.

Every text is cleaned of control characters; numbers that JSON cannot hold are the strings
"NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.events import CheckFinished, EngineStarted, EngineStopped, Event, FindingReported
from cuassay.model.outcome import CheckReport, Finding
from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.clean import clean, plain_data, plain_fields

SCHEMA = "cuassay/verdict/1"
_LARGEST = 1e300  # stands for infinity, which JSON has not


def document(verdict: Verdict, *, findings: tuple[Finding, ...] | None = None) -> dict[str, Any]:
    """Return the document of a verdict: plain JSON data with the keys of the schema.

    `findings` replaces the verdict's own, where only some are wanted.
    """
    found = words.identified(verdict) if findings is None else findings
    scope, speed, timing = verdict.scope, verdict.speed, verdict.timing
    rule = "accepted matched_ratio required_ratio atol rtol workload worst_output note"
    return {
        "schema": SCHEMA,
        "verdict": verdict.decision.value,
        **plain_fields(verdict, "reason conditions"),
        "diagnoses": [diagnosis(made) for made in words.diagnosed(verdict)],
        "findings": [_finding(finding) for finding in found],
        "checks": [_check(check) for check in verdict.checks],
        "benchmark_rule": verdict.benchmark_rule and plain_fields(verdict.benchmark_rule, rule),
        "power": plain_data(verdict.power),
        "speed_us": speed
        and {
            "axes": plain_data(speed.axes),
            "candidate": speed.candidate_us,
            "eager": speed.eager_us,
            "compiled": speed.compiled_us,
            "floor": speed.floor_us,
        },
        "timing_s": {
            name: plain_data(getattr(timing, f"{name}_s"))
            for name in ("total", "build", "truth", "candidate", "compare")
        },
        "workers": verdict.workers,
        "timeline": [
            {
                "lane": span.lane.value,
                "what": clean(span.what),
                "begin_s": round(span.begin_s, 4),
                "end_s": round(span.end_s, 4),
            }
            | (
                {"parts_s": {clean(name): round(s, 4) for name, s in span.parts_s.items()}}
                if span.parts_s
                else {}
            )
            for span in verdict.timeline
        ],
        **plain_fields(verdict, "environment digest problem candidate profile device truth"),
        **plain_fields(verdict, "truth_reason precision_grade seed run notes"),
        "scope": {
            "axes": {
                clean(axis.axis): plain_fields(axis, "declared listed values addresses")
                for axis in scope.axes
            },
            "elements": {"wanted": scope.wanted, "values": scope.values},
            "workloads": [
                plain_fields(one, "workload axes elements judged reason") for one in scope.workloads
            ],
            "not_run": [plain_fields(one, "codes reason") for one in scope.families],
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
        },
        "coverage": [
            plain_fields(axis, "axis values") | {"by_check": plain_data(axis.checks)}
            for axis in verdict.coverage
        ],
        # The lines that the PTX machine executed, with their relative errors.
        "executed": [
            {
                "file": clean(view.file),
                "lines": list(view.executed),
                "relative_error": {line: min(error, _LARGEST) for line, error in view.heat.items()},
                "marks": [
                    plain_data(dict(zip(("line", "class", "code", "text"), mark, strict=True)))
                    for mark in view.marks
                ],
            }
            for view in verdict.sources
        ],
        "walls": plain_data(verdict.walls),
        "proved": [
            {"property": one.what.value} | plain_fields(one, "answer scope reason")
            for one in verdict.proved
        ],
        "launches": plain_fields(verdict.launches, "made judged causes"),
    }


def diagnosis(made: Diagnosis) -> dict[str, Any]:
    """Return a cause as JSON data: in words, its line, the smallest input, what to do."""
    return {
        **plain_fields(made, "cause words line"),
        "smallest_input": clean(made.example),
        **plain_fields(made, "remedy basis findings"),
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
    growth = "axis output exponent trusted_exponent target projected points"
    return {
        **plain_fields(finding, "id code title message classes finding_class severity measured"),
        **plain_fields(finding, "allowed share statistic where seed reproduce condition"),
        "growth": finding.growth and plain_fields(finding.growth, growth),
        **plain_fields(finding, "counterexample details evidence"),
    }


def _check(check: CheckReport) -> dict[str, Any]:
    return {
        "code": check.code,
        "title": clean(check.title),
        "outcome": words.outcome_word(check),
        "reason": words.outcome_reason(check),
        "applicable": words.applies(check),
        "share": plain_data(words.outcome_share(check)),
        "duration_s": plain_data(check.duration_s),
    }
