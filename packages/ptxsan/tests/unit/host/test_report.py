"""Rows of a program's report: errors that nobody asks for stand at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptxsan.findings import Kind, MachineFinding, Severity
from ptxsan.host.journal import Place
from ptxsan.host.report import Report, standing

_HERE, _THERE = Place(file="main.cu", line=4), Place(file="main.cu", line=9)


def _rows(path: Path) -> list[Mapping[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return standing(json.loads(line) for line in lines)


def _kinds(path: Path) -> list[tuple[str, str]]:
    return [(row["host"]["kind"], row["host"]["severity"]) for row in _rows(path) if "host" in row]


def _finding(text: str) -> MachineFinding:
    return MachineFinding(kind=Kind.STREAM_RACE, severity=Severity.WRONG, text=text)


def test_an_error_that_nobody_asks_for_is_wrong_and_one_that_is_asked_for_is_none(
    tmp_path: Path,
) -> None:
    report = Report(tmp_path / "r")
    report.not_seen("invalid argument", _HERE)
    assert _kinds(report.path) == [(Kind.UNSEEN_ERROR.value, "wrong")]
    report.asked()
    assert _kinds(report.path) == []


def test_who_asks_after_the_results_were_copied_asks_too_late(tmp_path: Path) -> None:
    report = Report(tmp_path / "r")
    report.not_seen("invalid argument", _HERE)
    report.use_results("cudaMemcpy", _THERE)
    report.asked()
    (row,) = _rows(report.path)
    assert "before cudaMemcpy at main.cu:9 copies the results" in row["host"]["text"]


def test_a_refused_launch_is_a_note_where_somebody_asks_and_an_error_where_nobody_does(
    tmp_path: Path,
) -> None:
    for number, ask in enumerate((True, False)):
        report = Report(tmp_path / str(number))
        report.refused("2048 threads are too many", _HERE)
        report.not_seen("invalid configuration", _HERE)
        if ask:
            report.asked()
        ((kind, severity),) = _kinds(report.path)
        assert kind == Kind.REFUSED_LAUNCH.value
        assert severity == ("note" if ask else "wrong")


def test_a_finding_of_the_host_is_said_once_a_place(tmp_path: Path) -> None:
    report = Report(tmp_path / "r")
    report.say(_finding("first"))
    report.say(_finding("again"))
    report.uncovered("cudaGraph")
    rows = _rows(report.path)
    assert [row.get("uncovered", "") or row["host"]["text"] for row in rows] == [
        "first", "cudaGraph",
    ]  # fmt: skip
