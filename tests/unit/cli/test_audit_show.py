"""What `cuassay audit` prints and writes, and its exit codes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cuassay.cli import audit_show
from cuassay.cli.options import Output
from cuassay.cli.sinks import Target
from cuassay.model.audit import AuditResult, Ending
from cuassay.model.verdict import Decision
from tests.support import audits

_JSON = Output(targets=(Target(form="json"),))


def _results(*decisions: Decision | None) -> tuple[AuditResult, ...]:
    given = audits.result(0)
    return tuple(
        dataclasses.replace(given, verdict=one, ending=Ending.JUDGED if one else Ending.STOPPED)
        for one in decisions
    )


@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        ((Decision.ACCEPTED, Decision.ACCEPTED), 0),
        ((Decision.ACCEPTED, Decision.REJECTED, None), 1),
        ((Decision.ACCEPTED, Decision.INCONCLUSIVE), 3),
        ((Decision.ACCEPTED, None), 3),
        ((), 0),
    ],
)
def test_one_rejection_decides_the_exit_code(
    decisions: tuple[Decision | None, ...], code: int
) -> None:
    audit = dataclasses.replace(audits.audit(1), results=_results(*decisions))
    assert audit_show.exit_code(audit) == code


def test_an_audit_is_tables_one_line_or_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = audits.audit(12)
    assert audit_show.show_audit(audit, tmp_path, Output()) == 1
    text = capsys.readouterr().out
    assert text.rstrip().endswith(
        f"Kept in {tmp_path}; every finding is a line of findings.jsonl there."
    )
    audit_show.show_audit(audit, tmp_path, Output(quiet=True))
    assert len(capsys.readouterr().out.splitlines()) == 1
    audit_show.show_audit(audit, tmp_path, _JSON)
    document = json.loads(capsys.readouterr().out)
    assert document["run"] == str(tmp_path)


def test_a_page_is_written_and_one_that_cannot_be_costs_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit, page = audits.audit(3), tmp_path / "audit.html"
    audit_show.show_audit(audit, tmp_path, Output(targets=(Target(form="html", path=page),)))
    assert page.read_text().startswith("<!doctype html>")
    assert f"html report: {page}" in capsys.readouterr().err
    absent = tmp_path / "absent" / "audit.html"
    code = audit_show.show_audit(
        audit, tmp_path, Output(targets=(Target(form="html", path=absent),))
    )
    assert code == audit_show.exit_code(audit)
    assert f"--html {absent} was not written" in capsys.readouterr().err


def test_powers_end_with_three_where_nothing_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = audits.audit(1)
    assert audit_show.show_powers(audit, tmp_path, Output(quiet=True)) == 0
    assert capsys.readouterr().out.startswith("Their own inputs and rules let through 2 of 20")
    (power,) = audit.powers
    none = dataclasses.replace(power, killed_theirs=None, reason="no rule of its own")
    unmeasured = dataclasses.replace(audit, powers=(none,))
    assert audit_show.show_powers(unmeasured, tmp_path, Output()) == 3
    assert "Not measured (1)" in capsys.readouterr().out


def test_traces_that_cannot_be_written_cost_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = audits.audit(6)
    audit_show.write_traces(audit, tmp_path, tmp_path / "traces.jsonl")
    lines = (tmp_path / "traces.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)
    told = capsys.readouterr().err
    assert told.startswith(f"{len(lines)} traces: ")
    audit_show.write_traces(audit, tmp_path, tmp_path / "absent" / "t.jsonl")
    assert "was not written" in capsys.readouterr().err
