"""The page of a check, as reports carry it."""

from __future__ import annotations

from cuassay.report.rules import Rule

_RULE = Rule(
    code="NUM001",
    title="Error against truth",
    sections=(("What it does", "Compares\n  each element."), ("Example", "a\nb")),
)


def test_a_section_is_one_paragraph() -> None:
    assert _RULE.section("What it does") == "Compares each element."
    assert _RULE.section("Options") == ""


def test_the_whole_page_as_text_and_as_markdown() -> None:
    assert _RULE.text() == (
        "NUM001: Error against truth\n\nWhat it does\nCompares\n  each element.\n\nExample\na\nb"
    )
    assert _RULE.markdown().startswith("## NUM001: Error against truth\n\n### What it does\n\n")
    assert Rule(code="X", title="y").text() == "X: y"
