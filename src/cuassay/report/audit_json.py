"""An audit as one JSON document, schema `cuassay/audit/1`; docs/audit.md explains it.

Every text is cleaned of control characters, since most of it comes from candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cuassay.model.audit import Audit, AuditResult
from cuassay.report import audit_tables as tables
from cuassay.report.clean import clean, plain_data, plain_fields
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
                    **plain_fields(place, "rank their_rank"),
                    "id": place.result.item.id,
                    "candidate": clean(place.result.item.candidate_name),
                    "author": clean(place.result.item.author),
                    **plain_fields(place.result, "verdict theirs"),
                    "speedup": place.speedup,
                }
                for place in places
            ],
        }
        for problem, places in tables.leaderboard(audit).items()
    ]
    return {
        "schema": SCHEMA,
        **plain_fields(header, "id tree profile device executor require"),
        "precision": header.precision.value if header.precision else "",
        **plain_fields(header, "filters budget_s version started_at"),
        **plain_fields(audit, "finished_at wall_s"),
        "environment": plain_data(header.environment),
        "totals": plain_data(totals) | {"faulty_share": totals.faulty_share},
        "candidates": [candidate_entry(result) for result in audit.results],
        "families": _groups(tables.by_family(audit)),
        "authors": _groups(tables.by_author(audit)),
        "problems": _groups(tables.by_problem(audit)),
        "cells": plain_data(tables.cells(audit)),
        "causes": plain_data(tables.causes(audit)),
        "leaderboard": leaderboard,
        **plain_fields(audit, "powers oddities"),
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
        **plain_fields(result, "verdict ending reason conditions findings"),
        "diagnoses": [diagnosis(made) for made in result.diagnoses],
        "theirs": result.theirs,
        **plain_fields(item, "author family format"),
        "problem_path": clean(item.problem),
        "candidate_path": clean(item.candidate),
        **plain_fields(result, "digest device precision_grade seed"),
        "power": power,
        "speed_us": {"candidate": result.candidate_us, "eager": result.eager_us},
        "speedup": tables.speedup(result),
        **plain_fields(result, "duration_s lane attempts run"),
    }


def finding_lines(audit: Audit) -> Iterator[dict[str, Any]]:
    """Yield every finding with the candidate it belongs to: the lines of findings.jsonl."""
    for result in audit.results:
        item = result.item
        about = {
            "problem": clean(item.problem_name),
            "candidate": clean(item.candidate_name),
            **plain_fields(item, "author family"),
            **plain_fields(result, "verdict theirs digest run"),
        }
        for found in result.findings:
            yield about | plain_data(found)


def _groups(groups: Iterable[tables.CandidateGroup]) -> list[dict[str, Any]]:
    return [plain_data(group) | {"rejected_share": group.rejected_share} for group in groups]
