"""Reports in words, as JSON and as SARIF."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from ptxsan.api import Report
from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.reporting import document, left_out, lines_of, sarif_of, text, trace
from ptxsan_support.ptx import buffer_of, execute, kernel

_PTX = kernel("st.global.u32 [%rd1], %r1;")
_ACCESS = Access(
    what="write", ptx_line=9, source_file="k.cu", source_line=3, block=(1, 0, 0), thread=(31, 2, 0)
)
_RACE = MachineFinding(
    kind=Kind.RACE, severity=Severity.WRONG, text="two threads\nwrite", count=4,
    accesses=(_ACCESS, dataclasses.replace(_ACCESS, source_line=None, source_file=None)),
)  # fmt: skip


def _report(**changes: object) -> Report:
    zeros = buffer_of(np.zeros(32, np.uint32))
    ran = execute(_PTX, zeros, buffer_of(np.zeros(4, np.uint32), "b"), block=1)
    made = Report(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1), reports=(ran,), findings=(), ptx=_PTX
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_a_finding_in_words_says_who_did_what_where_and_how_often() -> None:
    lines = "\n".join(lines_of(_RACE, "k"))
    assert "========= Race reported" in lines
    assert "write at k.cu:3 (PTX line 9) in k" in lines
    assert "write at PTX line 9 in k" in lines
    assert "by thread (31,2,0) in block (1,0,0)" in lines
    assert "4 times" in lines
    note = lines_of(dataclasses.replace(_RACE, severity=Severity.NOTE), "k")
    assert note[0] == "========= Note: Race reported"


def test_what_the_host_did_has_no_thread() -> None:
    access = dataclasses.replace(_ACCESS, ptx_line=0, what="launched")
    lines = lines_of(dataclasses.replace(_RACE, accesses=(access,)), "k")
    assert "=========     launched at k.cu:3" in lines
    assert not any("thread (" in line for line in lines)


def test_the_last_line_counts_errors_and_says_what_holds_for_all_data() -> None:
    report = _report()
    assert report.ok
    assert report.text.endswith("0 errors (no branch and no address depends on data: this holds "
                                "for all data)")  # fmt: skip
    wrong = _report(findings=(_RACE,))
    assert text(wrong).splitlines()[-1] == "========= ERROR SUMMARY: 1 error"
    stopped = text(_report(inconclusive="a loop"))
    assert "Not executed to the end: a loop" in stopped
    assert stopped.endswith("0 errors; no verdict")
    assert left_out(["a", "b", "a"]) == "; not covered: a, b"
    assert left_out([]) == ""


def test_the_document_is_json_and_marks_what_optimisation_hides() -> None:
    made = json.loads(json.dumps(document(_report(hidden=(_RACE,)))))
    assert not made["ok"]
    (finding,) = made["findings"]
    assert (finding["kind"], finding["optimised_build"], finding["count"]) == ("race", False, 4)
    assert finding["accesses"][0]["thread"] == [31, 2, 0]


def test_a_sarif_log_points_to_the_source_or_to_the_ptx() -> None:
    def place(path: str) -> int:
        result = json.loads(sarif_of([_RACE], path))["runs"][0]["results"][0]
        assert (result["ruleId"], result["level"]) == ("race", "error")
        line: int = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        return line

    assert (place("k.cu"), place("k.ptx")) == (3, 9)


def test_a_trace_has_every_line_with_its_share() -> None:
    lines = list(trace(_report()))
    assert lines[0].split() == ["line", "ran", "slots", "source"]
    stored = next(line for line in lines if "st.global" in line)
    assert " yes " in stored
    assert "%" in stored
