"""The power of a problem's inputs, as a terminal and JSON show it."""

from __future__ import annotations

from typing import Any

from cuassay.report.power_report import document, lines


def _row(**names: object) -> dict[str, object]:
    return {"mutants": 12, "equivalent": 2, "killed_ours": 9, "killed_theirs": 4} | names


def _found(**changes: object) -> dict[str, Any]:
    survivor = {
        "classes": ["N1"], "words": "eps \x1b[31mmissing", "killed_by": "large inputs",
        "why": "not planned", "shown_by": "", "site": "x",
    }  # fmt: skip
    found: dict[str, Any] = {
        "problem": "rmsnorm", "profile": "quick", "mutants": 12, "equivalent": 2,
        "killed_ours": 9, "killed_theirs": 4, "inputs": "ours",
        "by_kind": [_row(kind="constant", classes=["N1", "N2"])],
        "by_class": [_row(**{"class": "N1", "killed_theirs": None})],
        "survivors": [survivor], "survivors_theirs": [survivor] * 30,
        "cases": {"covering": 3, "full": 9, "labels": ["one hot row"]},
        "regimes": {"chosen": ["plain", "large"]},
    }  # fmt: skip
    return found | changes


def test_shares_are_of_those_that_can_be_told_apart() -> None:
    text = "\n".join(lines(_found()))
    assert "told apart by cuassay: 9 of 10 broken versions of the reference (90 %)" in text
    assert "4 of 10 broken versions of the reference (40 %)" in text
    assert "2 more are equivalent" in text
    assert "Fewest cases at equal power: 3 of 9" in text
    row = next(line for line in text.splitlines() if line.startswith("  constant (N1/N2)"))
    assert row.split()[-4:] == ["9", "1", "4", "2"]
    row = next(line for line in text.splitlines() if line.startswith("  N1 "))
    assert row.split()[-2] == "-"  # not measured


def test_survivors_are_told_with_what_would_show_them() -> None:
    text = "\n".join(lines(_found()))
    assert "Survivors of cuassay's inputs (1):" in text
    assert "told apart by: large inputs (not planned)" in text
    assert "\x1b" not in text
    assert "No broken version survives cuassay's inputs." in "\n".join(lines(_found(survivors=[])))


def test_the_benchmark_s_inputs_may_be_unmeasured() -> None:
    text = "\n".join(lines(_found(killed_theirs=None)))
    assert "not measured (its workloads are too large)" in text


def test_the_document_has_the_survivors_that_were_asked_for() -> None:
    theirs = document(_found(), inputs="theirs")
    assert len(theirs["survivors"]) == 30
    assert "survivors_theirs" not in theirs
    assert "\x1b" not in theirs["survivors"][0]["words"]
    text = list(lines(theirs))
    assert "Survivors of the benchmark's inputs and rule (30):" in text
    assert "  and 6 more (--json lists them)" in text
