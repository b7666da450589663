"""A verdict as an in-toto Statement of type test-result, with what a policy needs to decide.

Specification: in-toto attestation framework, Statement v1 and predicate test-result v0.1.
Fields that the predicate does not know stand under `cuassay`; verifiers have to ignore them.

The subject is the kernel: one digest over everything that changes its behaviour (sources,
paths, entry point, calling convention, flags, launches), and the SHA-256 of every source.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.digest import candidate_digest, problem_digest
from cuassay.model.outcome import Failed, Passed
from cuassay.model.problem import Problem, Reference
from cuassay.model.scope import scope_lines
from cuassay.model.verdict import Decision, Verdict
from cuassay.model.walls import fallen

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
MAX_DAYS = 3660


def statement(
    verdict: Verdict,
    candidate: Candidate,
    problem: Problem,
    *,
    events: bytes,
    now: datetime.datetime,
    days: int,
) -> dict[str, Any]:
    """Return the statement on an ACCEPTED verdict, valid for `days` from `now` (UTC).

    `events` is what the run recorded; its SHA-256 binds the cases that were tried. Raises
    UsageError for any other verdict: nothing else is worth a certificate.
    """
    if verdict.decision is not Decision.ACCEPTED:
        raise UsageError(
            f"run {verdict.run} is {verdict.decision.value}, and only ACCEPTED is certified; "
            f"see `cuassay report {verdict.run}`"
        )
    if fallen(verdict.walls):
        names = ", ".join(wall.name for wall in fallen(verdict.walls))
        raise UsageError(
            f"run {verdict.run} was judged without walls around the kernel ({names}), and cannot "
            "be certified; judge it again on a machine where `cuassay doctor` finds them"
        )
    if not 1 <= days <= MAX_DAYS:
        raise UsageError(f"--days {days} is out of range; expected 1 to {MAX_DAYS}")
    passed = [check.code for check in verdict.checks if isinstance(check.outcome, Passed)]
    warned = [check.code for check in verdict.checks if isinstance(check.outcome, Failed)]
    power = verdict.power
    ran = [check for check in verdict.checks if isinstance(check.outcome, Passed | Failed)]
    quiet = [check for check in verdict.checks if check not in ran]
    return {
        "_type": STATEMENT,
        "subject": subjects(candidate),
        "predicateType": PREDICATE,
        "predicate": {
            "result": "WARNED" if verdict.conditions or warned else "PASSED",
            "configuration": [
                {"name": f"problem/{problem.name}", "digest": {"sha256": problem_digest(problem)}}
            ],
            "passedTests": passed,
            "warnedTests": warned,
            "failedTests": [],  # what fails is not certified
            "cuassay": {
                "verdict": verdict.decision.value,
                "conditions": list(verdict.conditions),
                "proved": [
                    {
                        "property": one.what.value,
                        "answer": one.answer.value,
                        "scope": list(one.scope),
                    }
                    for one in verdict.proved
                ],
                "profile": verdict.profile.value,
                "precisionGrade": verdict.precision_grade,
                "truth": verdict.truth,
                "digest": verdict.digest,
                "environment": dict(verdict.environment),
                "walls": dict(verdict.walls),
                "device": verdict.device,
                "seed": str(verdict.seed),
                "run": verdict.run,
                "cases": {
                    "recordSha256": hashlib.sha256(events).hexdigest(),
                    "scenarios": {check.code: check.scenarios for check in ran},
                    "sizes": {axis.axis: list(axis.values) for axis in verdict.coverage},
                },
                "scope": list(scope_lines(verdict.scope)),
                "notDecided": [check.code for check in quiet],
                "power": None
                if power is None
                else {"mutants": power.mutants, "killed": power.killed},
                "problem": signature_of(problem),
                "issuedAt": _utc(now),
                "expiresAt": _utc(now + datetime.timedelta(days=days)),
            },
        },
    }


def subjects(candidate: Candidate) -> list[dict[str, Any]]:
    """Return the kernel as in-toto subjects: the whole first, then every source."""
    bundle = {"name": candidate.name, "digest": {"sha256": candidate_digest(candidate, {})}}
    sources = [
        {
            "name": source.path,
            "digest": {"sha256": hashlib.sha256(source.text.encode()).hexdigest()},
        }
        for source in sorted(candidate.sources, key=lambda source: source.path)
    ]
    return [bundle, *sources]


def canonical(document: Any) -> bytes:
    """Return JSON with sorted keys and no blanks, in UTF-8."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def signature_of(problem: Problem) -> dict[str, Any]:
    """Return what reading a kernel needs of its problem: no reference, no inputs.

    With it a verifier reads KERNEL exactly as the judge did, wherever the problem is by then.
    """
    bare = dataclasses.replace(
        problem,
        reference=Reference(path=Path("reference.py"), function=problem.reference.function),
        workloads=tuple(dataclasses.replace(work, sources={}) for work in problem.workloads),
        relations=(),
        path=None,
        description="",
    )
    found: dict[str, Any] = serial.to_json(bare)
    return found


def _utc(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
