"""What a report says of a whole program: its host, errors that it checked, the last line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from ptxsan import programs
from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.host.program import ProgramLaunch, ProgramReport
from ptxsan.host.report import standing


def _finding(kind: Kind, line: int, severity: Severity = Severity.WRONG) -> MachineFinding:
    nobody = (0, 0, 0)
    access = Access(
        what="launched", ptx_line=0, source_file="a.cu", source_line=line, block=nobody,
        thread=nobody,
    )  # fmt: skip
    return MachineFinding(kind=kind, severity=severity, text=f"line {line}", accesses=(access,))


def _report(
    *host: MachineFinding, uncovered: tuple[str, ...] = (), status: int = 0
) -> ProgramReport:
    return ProgramReport(
        status=status,
        output="",
        launches=(),
        host=host,
        uncovered=uncovered,
        build_s=0.0,
        run_s=0.0,
    )


def test_a_fault_of_the_host_is_an_error_with_its_line() -> None:
    report = _report(_finding(Kind.REFUSED_LAUNCH, 7))
    lines = programs.text(report).splitlines()
    assert sum("a.cu:7" in line for line in lines) == 1
    assert lines[-1] == "========= ERROR SUMMARY: 1 error"
    assert programs.exit_code(report, found=1) == 1
    assert programs.document(report)["host"][0]["kind"] == "refused-launch"
    assert "refused-launch" in programs.sarif(report, Path("a.cu"))


def test_a_note_is_no_error() -> None:
    report = _report(_finding(Kind.REFUSED_LAUNCH, 7, Severity.NOTE), status=5)
    assert "Note: Refused launch" in programs.text(report)
    assert programs.exit_code(report, found=1) == 5


def test_what_nobody_models_stands_in_the_last_line() -> None:
    report = _report(uncovered=("cudaStreamAttachMemAsync",))
    last = programs.text(report).splitlines()[-1]
    assert last.endswith("no verdict; not covered: cudaStreamAttachMemAsync")
    assert programs.exit_code(report, found=1) == programs.NO_VERDICT


def test_what_launches_use_and_was_not_looked_at_stands_in_the_last_line_once() -> None:
    launch = ProgramLaunch(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1), left_out=("time (a clock counts)",)
    )
    report = dataclasses.replace(_report(), launches=(launch, launch))
    last = programs.text(report).splitlines()[-1]
    assert last == "========= ERROR SUMMARY: 0 errors; not covered: time (a clock counts)"
    assert programs.exit_code(report, found=1) == programs.OK


def _row(one: MachineFinding, **more: Any) -> dict[str, Any]:
    return {"host": json.loads(json.dumps(dataclasses.asdict(one))), **more}


def _kinds(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(one["host"]["severity"], one["host"]["accesses"][0]["source_line"])
            for one in standing(rows)]  # fmt: skip


def test_only_the_last_errors_were_asked_for() -> None:
    rows = [_row(_finding(Kind.UNSEEN_ERROR, line), unseen=True) for line in (1, 2, 3)]
    assert _kinds([*rows, {"asked": 2}]) == [("wrong", 1)]


def test_a_refused_launch_is_a_note_until_nobody_asks() -> None:
    note = _row(_finding(Kind.REFUSED_LAUNCH, 4, Severity.NOTE), refusal=True)
    error = _row(_finding(Kind.REFUSED_LAUNCH, 4), unseen=True)
    assert _kinds([note, error]) == [("wrong", 4)]
    assert _kinds([note, error, {"asked": 1}]) == [("note", 4)]


def test_an_error_of_a_loop_is_said_once() -> None:
    rows = [_row(_finding(Kind.UNSEEN_ERROR, 1), unseen=True) for _ in range(5)]
    assert _kinds(rows) == [("wrong", 1)]


def test_a_copy_that_came_first_is_named() -> None:
    row = _row(_finding(Kind.REFUSED_LAUNCH, 4), unseen=True)
    (found,) = standing([row, {"used": 1, "by": "cudaMemcpy at a.cu:9"}])
    assert found["host"]["text"] == "line 4 before cudaMemcpy at a.cu:9 copies the results"
