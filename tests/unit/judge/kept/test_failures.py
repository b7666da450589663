"""Kept failures: what comes back, in which order, how few, and from which damaged files."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import pytest

from cuassay.checks.numeric.common import single_call
from cuassay.judge.kept import failures
from cuassay.model.case import Case, Fill
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass, Passed, Severity
from cuassay.model.problem import Problem
from cuassay.model.scenario import Scenario
from tests.support.fake_trial import row_sum

PROBLEM: Problem = row_sum().problem


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    return tmp_path / "failures"


def case(number: int, **changes: object) -> Case:
    plain = Case(
        label=f"case {number}",
        axes={"rows": number + 1, "cols": 3},
        fills={"x": Fill(kind="normal")},
        seed=number,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*"))


def test_what_is_kept_comes_back_newest_first() -> None:
    failures.keep(PROBLEM, "kernel.py", [case(1)])
    failures.keep(PROBLEM, "kernel.py", [case(2), case(1)])
    assert failures.known(PROBLEM, "kernel.py") == (case(2), case(1))


def test_at_most_eight_are_kept_and_four_of_others_tried() -> None:
    for number in range(12):
        failures.keep(PROBLEM, "mine.py", [case(number)])
        failures.keep(PROBLEM, f"other{number}.py", [case(100 + number)])
    known = failures.known(PROBLEM, "mine.py")
    assert [found.seed for found in known[:8]] == list(range(11, 3, -1))
    assert len(known) == 12
    assert all(found.seed >= 100 for found in known[8:])


def test_other_candidates_get_a_few_and_other_problems_none() -> None:
    failures.keep(PROBLEM, "mine.py", [case(1)])
    assert failures.known(PROBLEM, "yours.py") == (case(1),)
    changed = dataclasses.replace(PROBLEM, name="another")
    assert failures.known(changed, "mine.py") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "null",
        "{}",
        "[1, 2]",
        '[{"type": "Case"}]',
        '[{"type": "Case", "label": "x", "axes": {"rows": "many"}}]',
        "[" * 100_000,
        "\x00\xff",
    ],
)
def test_a_damaged_file_counts_as_empty(folder: Path, text: str) -> None:
    failures.keep(PROBLEM, "mine.py", [case(1)])
    files(folder)[0].write_text(text, encoding="utf-8")
    assert failures.known(PROBLEM, "mine.py") == ()
    failures.keep(PROBLEM, "mine.py", [case(2)])
    assert failures.known(PROBLEM, "mine.py") == (case(2),)


def test_bytes_that_are_no_text_and_a_folder_in_its_place(folder: Path) -> None:
    failures.keep(PROBLEM, "mine.py", [case(1)])
    file = files(folder)[0]
    file.write_bytes(b"\xff\xfe\x00")
    assert failures.known(PROBLEM, "mine.py") == ()
    file.unlink()
    file.mkdir()
    assert failures.known(PROBLEM, "mine.py") == ()
    failures.keep(PROBLEM, "mine.py", [case(2)])  # cannot be replaced: no fault of the trial


@pytest.mark.parametrize(
    "odd",
    [
        case(1, in_domain=False),
        case(1, benchmark=True),
        case(1, axes={"rows": 2}),
        case(1, axes={"rows": 0, "cols": 3}),
        case(1, axes={"rows": 2, "cols": 3, "depth": 4}),
        case(1, axes={"rows": 2, "cols": 1 << 40}),
        case(1, fills={"x": Fill(kind="no such fill")}),
        case(1, fills={"z": Fill(kind="normal")}),
        case(1, scalars={"gain": 2.0}),
    ],
)
def test_cases_that_do_not_fit_the_problem_are_not_kept(odd: Case) -> None:
    failures.keep(PROBLEM, "mine.py", [odd])
    assert failures.known(PROBLEM, "mine.py") == ()


def test_a_file_name_cannot_leave_the_folder(folder: Path) -> None:
    for name in ("../../../evil.py", "/etc/passwd", "a" * 500, "", "..", "k\0.py", "k\udc80.py"):
        failures.keep(PROBLEM, name, [case(1)])
        assert failures.known(PROBLEM, name)[0] == case(1)
    assert all(file.parent.parent == folder for file in files(folder))
    assert len(files(folder)) == 7


def test_the_number_of_files_is_bounded(folder: Path) -> None:
    for number in range(40):
        failures.keep(PROBLEM, f"k{number}.py", [case(number)])
    assert len(files(folder)) == 32


def test_writers_at_once_leave_one_whole_list(folder: Path) -> None:
    def write(number: int) -> None:
        for turn in range(5):
            failures.keep(PROBLEM, "mine.py", [case(10 * number + turn)])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(failures.known(PROBLEM, "mine.py")) <= 8
    assert [file.suffix for file in files(folder)] == [".json"]


def test_a_folder_that_cannot_be_written_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUASSAY_HOME", os.fspath(blocked))
    failures.keep(PROBLEM, "mine.py", [case(1)])
    assert failures.known(PROBLEM, "mine.py") == ()


def finding(scenario: Scenario | None, kind: FindingClass = FindingClass.WRONG) -> Finding:
    return Finding(
        code="NUM001",
        title="t",
        message="m",
        classes=(),
        finding_class=kind,
        severity=Severity.HIGH,
        scenario=scenario,
    )


def test_only_wrong_findings_of_one_plain_call_are_kept() -> None:
    call = single_call(case(1), label="one")
    two = dataclasses.replace(call, cases=(case(1), case(2)))
    repeated = dataclasses.replace(call, steps=call.steps * 2)
    found = (
        finding(call),
        finding(call, FindingClass.ADVICE),
        finding(call, FindingClass.UNSAFE),
        finding(two),
        finding(repeated),
        finding(None),
    )
    reports = (
        CheckReport(code="NUM001", title="t", outcome=Failed(findings=found)),
        CheckReport(code="SHP001", title="t", outcome=Passed()),
    )
    assert list(failures.failing_cases(reports)) == [case(1)]
