"""Audits made up for tests of reports, the store and the command line: no kernel is judged."""

from __future__ import annotations

import random

from cuassay.model.audit import (
    Audit,
    AuditFinding,
    AuditHeader,
    AuditItem,
    AuditResult,
    Ending,
    Oddity,
    ProblemPower,
)
from cuassay.model.outcome import FindingClass, Severity
from cuassay.model.verdict import Decision, Profile

_FAMILIES = ("norm", "attention", "embedding", "gemm", "softmax", "moe")
_AUTHORS = ("model-a", "model-b", "a person")
_CHECKS = (("NUM001", "Error against truth", "N1"), ("STATE001", "State kept", "S2"))


def header(**changes: object) -> AuditHeader:
    """Return the header of a finished audit on a CPU."""
    given: dict[str, object] = {
        "id": "20260101-000000-000abcd",
        "tree": "/data/submissions",
        "profile": Profile.QUICK,
        "device": "cpu",
        "seed": 7,
        "started_at": "2026-01-01T00:00:00+00:00",
        "version": "0.1.0",
        "environment": {"python": "3.12", "torch": "2.13"},
    }
    return AuditHeader(**(given | changes))  # type: ignore[arg-type]


def item(number: int, **changes: object) -> AuditItem:
    """Return item `number` of a plan; families and authors take turns."""
    family = _FAMILIES[number % len(_FAMILIES)]
    given: dict[str, object] = {
        "id": f"{number:012x}",
        "problem": f"/data/submissions/{family}_{number % 30}",
        "candidate": f"/data/submissions/{family}_{number % 30}/candidates/k{number}.py",
        "problem_name": f"{family}_{number % 30}",
        "candidate_name": f"k{number}",
        "key": f"{number:064x}",
        "author": _AUTHORS[number % len(_AUTHORS)],
        "family": family,
        "format": "sol-execbench",
    }
    return AuditItem(**(given | changes))  # type: ignore[arg-type]


def finding(number: int, **changes: object) -> AuditFinding:
    """Return a wrong finding; two checks take turns."""
    code, title, failure_class = _CHECKS[number % len(_CHECKS)]
    given: dict[str, object] = {
        "id": f"F{number + 1}",
        "code": code,
        "title": title,
        "message": f"output y is {number}.5 times the allowed error off",
        "classes": (failure_class,),
        "finding_class": FindingClass.WRONG,
        "severity": Severity.CRITICAL,
        "share": number + 1.5,
        "output": "y",
        "reproduce": f"cuassay replay /runs/x/F{number + 1}",
    }
    return AuditFinding(**(given | changes))  # type: ignore[arg-type]


def result(number: int, *, findings: int = 1, **changes: object) -> AuditResult:
    """Return result `number`: of every six, two are rejected, one inconclusive, one conditional."""
    kind = number % 6
    verdict = (
        Decision.REJECTED
        if kind in (1, 4)
        else Decision.INCONCLUSIVE
        if kind == 5
        else Decision.ACCEPTED
    )
    found = tuple(finding(i) for i in range(findings)) if verdict is Decision.REJECTED else ()
    draw = random.Random(number)
    given: dict[str, object] = {
        "item": item(number),
        "ending": Ending.JUDGED,
        "verdict": verdict,
        "reason": f"{verdict.value.lower()} in this made-up audit",
        "conditions": ("streams: one stream at a time",) if kind == 2 else (),
        "findings": found,
        "theirs": kind != 4,
        "digest": f"{number:064x}",
        "device": "cpu",
        "seed": number,
        "mutants": 20,
        "killed": 19,
        "theirs_killed": 11,
        "candidate_us": draw.uniform(5.0, 50.0),
        "eager_us": 60.0,
        "duration_s": draw.uniform(2.0, 9.0),
        "lane": "cpu",
        "run": f"candidates/{number:012x}",
    }
    return AuditResult(**(given | changes))  # type: ignore[arg-type]


def audit(candidates: int = 12, *, findings: int = 1) -> Audit:
    """Return a finished audit; each rejected candidate has `findings` of them."""
    results = tuple(result(number, findings=findings) for number in range(candidates))
    unread = result(
        candidates,
        item=item(candidates, candidate_name="broken"),
        ending=Ending.UNREADABLE,
        verdict=None,
        findings=0,
        reason="solution.json: line 3: not valid JSON",
        theirs=None,
        candidate_us=None,
        conditions=(),
    )
    power = ProblemPower(
        problem="/data/submissions/norm_0",
        problem_name="norm_0",
        family="norm",
        mutants=20,
        killed_ours=20,
        killed_theirs=11,
        survivors=("the epsilon is 1e-5", "input 'weight' is ignored"),
        trivial=("the answer to another seed",),
    )
    return Audit(
        header=header(),
        results=(*results, unread),
        oddities=(Oddity(path="/data/submissions/x.json", message="neither problem nor kernel"),),
        powers=(power,),
        finished_at="2026-01-01T00:10:00+00:00",
        wall_s=600.0,
    )
