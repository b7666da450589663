"""An audit as JSON: plain data, cleaned texts, and a line for every finding."""

from __future__ import annotations

import dataclasses
import json
import math

from cuassay.model.audit import Ending
from cuassay.report.audit_json import (
    candidate_entry,
    document,
    finding_lines,
)
from cuassay.report.clean import plain_data
from tests.support import audits


def test_the_document_is_json_and_counts_what_the_audit_holds() -> None:
    audit = audits.audit(12)
    made = json.loads(json.dumps(document(audit), allow_nan=False))
    assert made["schema"] == "cuassay/audit/1"
    assert [one["id"] for one in made["candidates"]] == [one.item.id for one in audit.results]
    assert len(made["oddities"]) == len(audit.oddities)
    places = [place for entry in made["leaderboard"] for place in entry["places"]]
    assert {place["id"] for place in places} <= {one["id"] for one in made["candidates"]}


def test_a_candidate_without_a_verdict_has_null_and_its_ending() -> None:
    result = dataclasses.replace(
        audits.result(0), verdict=None, ending=Ending.UNREADABLE, mutants=None
    )
    entry = candidate_entry(result)
    assert (entry["verdict"], entry["ending"], entry["power"]) == (None, "unreadable", None)
    powered = candidate_entry(dataclasses.replace(result, mutants=9, killed=8, theirs_killed=3))
    assert powered["power"] == {"mutants": 9, "killed": 8, "benchmark_killed": 3}


def test_every_finding_is_a_line_with_its_candidate() -> None:
    audit = audits.audit(12, findings=2)
    lines = list(finding_lines(audit))
    assert len(lines) == sum(len(one.findings) for one in audit.results) > 0
    assert {line["candidate"] for line in lines} <= {
        one.item.candidate_name for one in audit.results
    }
    assert all(line["code"] and line["finding_class"] for line in lines)


def test_texts_lose_control_characters_and_numbers_that_json_lacks_become_words() -> None:
    hostile = audits.item(1, candidate_name="k\x1b[31m\u202ename")
    assert "\x1b" not in json.dumps(plain_data(hostile))
    assert plain_data((1.5, math.nan, math.inf, -math.inf)) == [1.5, "NaN", "Infinity", "-Infinity"]
    assert plain_data({3: Ending.LOST, "n": None}) == {"3": "lost", "n": None}
