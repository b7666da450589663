"""Verdicts as Traces: the JSON lines that flashinfer-trace and SOL-ExecBench keep of a run.

Their tools then read cuassay's verdicts. A Trace says PASSED only with a measured time and
INCORRECT_NUMERICAL only with measured errors; what was not measured gives no line.
"""

from __future__ import annotations

import math
from typing import Any, assert_never

from cuassay.model.outcome import FindingClass
from cuassay.model.problem import (
    CustomSource,
    InputSource,
    Problem,
    RandomSource,
    SafetensorsSource,
    ScalarSource,
)
from cuassay.model.verdict import Decision, Verdict
from cuassay.report.clean import clean

_HANGS, _FORGED = "RUN004", "RUN005"
_KNOWS_HACKS = "sol-execbench"
_LIBRARIES = ("torch", "triton", "cuda")


def trace(verdict: Verdict, problem: Problem, *, timestamp: str) -> dict[str, Any] | None:
    """Return the Trace of a verdict, or None where their format has no word for it.

    That is for INCONCLUSIVE, and for an ACCEPTED or numerically wrong kernel whose time or
    errors were not measured.
    """
    # The workload that their rule was evaluated on, else the first.
    named = verdict.benchmark_rule.workload if verdict.benchmark_rule else ""
    own = [workload for workload in problem.workloads if not workload.recorded]
    workload = next((w for w in own if w.id == named), own[0] if own else None)
    status = _status(verdict)
    if status == "REWARD_HACK" and problem.origin != _KNOWS_HACKS:
        status = "RUNTIME_ERROR"  # flashinfer-trace has no such word
    rule = verdict.benchmark_rule
    if workload is None or status is None:
        return None
    numeric = status in ("PASSED", "INCORRECT_NUMERICAL")
    if not numeric:
        correctness = None
    else:
        errors = (rule.max_absolute_error, rule.max_relative_error) if rule else (None, None)
        absolute, relative = errors
        if rule is None or absolute is None or relative is None or not math.isfinite(absolute):
            correctness = None
        else:
            correctness = {
                "max_absolute_error": absolute,
                "max_relative_error": relative,
                "extra": {
                    "matched_ratio": rule.matched_ratio,
                    "required_matched_ratio": rule.required_ratio,
                    "cuassay_verdict": verdict.decision.value,
                    "cuassay_codes": list(dict.fromkeys(f.code for f in verdict.findings)),
                    "cuassay_conditions": [clean(condition) for condition in verdict.conditions],
                    "cuassay_digest": verdict.digest,
                },
            }
    if status != "PASSED" or verdict.speed is None or verdict.speed.eager_us is None:
        performance = None
    else:
        performance = {
            "latency_ms": verdict.speed.candidate_us / 1e3,
            "reference_latency_ms": verdict.speed.eager_us / 1e3,
            "speedup_factor": verdict.speed.eager_us / verdict.speed.candidate_us,
        }
    if numeric and correctness is None:
        return None
    if status == "PASSED" and performance is None:
        return None
    environment = {
        "hardware": clean(verdict.environment.get("device", "unknown")),
        "libs": {
            name: clean(verdict.environment[name])
            for name in _LIBRARIES
            if name in verdict.environment
        },
    }
    echo = {
        "uuid": clean(workload.id),
        "axes": dict(workload.axes),
        "inputs": {name: _source(source) for name, source in workload.sources.items()},
    }
    return {
        "definition": clean(problem.name),
        "workload": echo,
        "solution": clean(verdict.candidate),
        "evaluation": {
            "status": status,
            "log": clean(f"cuassay {verdict.decision.value}: {verdict.reason}"),
            "timestamp": timestamp,
            "environment": environment,
            "correctness": correctness,
            "performance": performance,
        },
    }


def _status(verdict: Verdict) -> str | None:
    match verdict.decision:
        case Decision.ACCEPTED:
            return "PASSED"
        case Decision.INCONCLUSIVE:
            return None
        case Decision.REJECTED:
            wrong = [f for f in verdict.findings if f.finding_class is FindingClass.WRONG]
            codes = {finding.code for finding in (wrong or list(verdict.findings))}
            if "BUILD001" in codes:
                return "COMPILE_ERROR"
            if _FORGED in codes:
                return "REWARD_HACK"
            if codes and all(code.startswith("RUN") for code in codes):
                return "TIMEOUT" if _HANGS in codes else "RUNTIME_ERROR"
            return "INCORRECT_NUMERICAL"
    assert_never(verdict.decision)


def _source(source: InputSource) -> dict[str, Any]:
    match source:
        case RandomSource():
            return {"type": "random"}
        case ScalarSource(value=value):
            return {"type": "scalar", "value": value}
        case SafetensorsSource(path=path, key=key):
            return {"type": "safetensors", "path": clean(path), "tensor_key": clean(key)}
        case CustomSource():
            return {"type": "custom"}
    assert_never(source)
