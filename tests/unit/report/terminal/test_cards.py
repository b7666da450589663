"""Findings and causes as cards of a few terminal lines."""

from __future__ import annotations

import dataclasses

from rich.text import Text

from cuassay.model.outcome import Finding
from cuassay.report.terminal.cards import LINES, brief, card, diagnosis_card
from cuassay.report.terminal.layout import ASCII
from tests.support import samples


def _text(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def _card(**changes: object) -> str:
    finding: Finding = dataclasses.replace(samples.hot_rows(), **changes)  # type: ignore[arg-type]
    lines = card(finding, width=100, signs=ASCII)
    assert len(lines) <= LINES
    return _text(lines)


def test_a_card_holds_what_where_how_much_and_how_to_see_it() -> None:
    text = _card()
    for part in (
        "NUM002",
        "wrong, critical",
        "0.0892, allowed 0.00486",
        "cuassay replay",
        "tokens",
    ):
        assert part in text, part


def test_a_log_is_shown_from_its_first_error_and_else_its_end() -> None:
    log = "\n".join([*(f"note {n}" for n in range(20)), "k.cu(3): error: x", "after"])
    text = _card(measured=None, evidence=log, growth=None)
    assert "error: x" in text
    assert "note 19" not in text
    quiet = _card(measured=None, evidence="\n".join(f"note {n}" for n in range(20)), growth=None)
    assert "note 19" in quiet
    assert "note 3\n" not in quiet


def test_sizes_and_fills_stand_for_an_input_that_nobody_wrote_down() -> None:
    text = _card(counterexample="", growth=None)
    assert "input_ids single_hot" in text


def test_a_finding_in_one_line_is_one_line() -> None:
    line = brief(dataclasses.replace(samples.hot_rows(), message="a\nb"), signs=ASCII).plain
    assert "\n" not in line
    assert line.endswith(": a b")
    untold = dataclasses.replace(samples.hot_rows(), message="")
    assert brief(untold, signs=ASCII).plain.endswith(": Low-precision accumulation")


def test_a_cause_has_its_line_its_remedy_and_its_findings() -> None:
    made = samples.diagnosis()
    found = [samples.hot_rows()]
    text = _text(diagnosis_card(made, found, width=100, signs=ASCII, number=1))
    assert made.remedy in " ".join(text.split())
    assert "F1 NUM002 (" in text
    second = _text(diagnosis_card(made, found, width=100, signs=ASCII, number=2))
    assert "cause 2" in second


def test_many_findings_of_one_cause_are_counted() -> None:
    names = tuple(f"F{n}" for n in range(1, 8))
    found = [dataclasses.replace(samples.hot_rows(), id=name) for name in names]
    made = dataclasses.replace(samples.diagnosis(), findings=names)
    text = _text(diagnosis_card(made, found, width=200, signs=ASCII, number=1))
    assert "F4 NUM002, and 3 more" in text
