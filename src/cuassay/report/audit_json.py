"""An audit as one JSON document, schema `cuassay/audit/1`; docs/audit.md explains it.

Every text is cleaned of control characters, since most of it comes from candidates.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator, Mapping
from typing import Any

from cuassay.model.audit import Audit, AuditFinding, AuditResult
from cuassay.report import audit_tables as tables
from cuassay.report.clean import clean
from cuassay.report.json_report import diagnosis

SCHEMA = "cuassay/audit/1"


def document(audit: Audit) -> dict[str, Any]:
    """Return the document of an audit: plain JSON data."""
    header = audit.header
    totals = tables.totals(audit)
    leaderboard = [
        {
            "problem": clean(problem),
            "places": [
                {
                    "rank": place.rank,
                    "their_rank": place.their_rank,
                    "id": place.result.item.id,
                    "candidate": clean(place.result.item.candidate_name),
                    "author": clean(place.result.item.author),
                    "verdict": None if place.result.verdict is None else place.result.verdict.value,
                    "theirs": place.result.theirs,
                    "speedup": place.speedup,
                }
                for place in places
            ],
        }
        for problem, places in tables.leaderboard(audit).items()
    ]
    return {
        "schema": SCHEMA,
        "id": header.id,
        "tree": clean(header.tree),
        "profile": header.profile.value,
        "device": clean(header.device),
        "executor": clean(header.executor),
        "require": list(header.require),
        "precision": header.precision.value if header.precision else "",
        "filters": [clean(word) for word in header.filters],
        "budget_s": header.budget_s,
        "version": header.version,
        "started_at": header.started_at,
        "finished_at": audit.finished_at,
        "wall_s": audit.wall_s,
        "environment": plain_data(header.environment),
        "totals": plain_data(totals) | {"faulty_share": totals.faulty_share},
        "candidates": [candidate_entry(result) for result in audit.results],
        "families": [_group(group) for group in tables.by_family(audit)],
        "authors": [_group(group) for group in tables.by_author(audit)],
        "problems": [_group(group) for group in tables.by_problem(audit)],
        "cells": [plain_data(cell) for cell in tables.cells(audit)],
        "causes": [plain_data(cause) for cause in tables.causes(audit)],
        "leaderboard": leaderboard,
        "powers": [plain_data(power) for power in audit.powers],
        "oddities": [plain_data(oddity) for oddity in audit.oddities],
    }


def candidate_entry(result: AuditResult) -> dict[str, Any]:
    """Return one entry of `candidates[]`."""
    item = result.item
    if result.mutants is None:
        power = None
    else:
        power = {
            "mutants": result.mutants,
            "killed": result.killed,
            "benchmark_killed": result.theirs_killed,
        }
    return {
        "id": item.id,
        "problem": clean(item.problem_name),
        "candidate": clean(item.candidate_name),
        "verdict": None if result.verdict is None else result.verdict.value,
        "ending": result.ending.value,
        "reason": clean(result.reason),
        "conditions": [clean(condition) for condition in result.conditions],
        "findings": [finding(found) for found in result.findings],
        "diagnoses": [diagnosis(made) for made in result.diagnoses],
        "theirs": result.theirs,
        "author": clean(item.author),
        "family": clean(item.family),
        "format": clean(item.format),
        "problem_path": clean(item.problem),
        "candidate_path": clean(item.candidate),
        "digest": result.digest,
        "device": clean(result.device),
        "precision_grade": clean(result.precision_grade),
        "seed": result.seed,
        "power": power,
        "speed_us": {"candidate": result.candidate_us, "eager": result.eager_us},
        "speedup": tables.speedup(result),
        "duration_s": result.duration_s,
        "lane": clean(result.lane),
        "attempts": result.attempts,
        "run": clean(result.run),
    }


def finding(found: AuditFinding) -> dict[str, Any]:
    """Return one entry of `findings[]`."""
    data = plain_data(found)
    assert isinstance(data, dict)
    return data


def finding_lines(audit: Audit) -> Iterator[dict[str, Any]]:
    """Yield every finding with the candidate it belongs to: the lines of findings.jsonl."""
    for result in audit.results:
        item = result.item
        about = {
            "problem": clean(item.problem_name),
            "candidate": clean(item.candidate_name),
            "author": clean(item.author),
            "family": clean(item.family),
            "verdict": None if result.verdict is None else result.verdict.value,
            "theirs": result.theirs,
            "digest": result.digest,
            "run": clean(result.run),
        }
        for found in result.findings:
            yield about | finding(found)


def plain_data(value: Any) -> Any:
    """Return a dataclass or container as JSON data with every text cleaned."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _group(group: tables.CandidateGroup) -> dict[str, Any]:
    data = plain_data(group)
    assert isinstance(data, dict)
    return data | {"rejected_share": group.rejected_share}
