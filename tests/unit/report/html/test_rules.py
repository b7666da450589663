"""Pages of checks in a report: those of its findings, each once."""

from __future__ import annotations

import dataclasses

from cuassay.report.html.rules import rule_anchor, rules_section
from cuassay.report.rules import Rule
from tests.support import samples


def _rules(code: str) -> Rule:
    sections = (("What", "One\n  line.\n\nAnother <b>."),) if code.startswith("NUM") else ()
    return Rule(code=code, title=f"Title of {code}", sections=sections)


def test_each_check_behind_a_finding_has_its_page_once() -> None:
    first = samples.hot_rows()
    other = dataclasses.replace(first, code="NUM001")
    page = rules_section([first, other, first], _rules)
    assert page.count("<details") == 2
    assert page.index("NUM002") < page.index("NUM001")
    assert "<p>One line.</p><p>Another &lt;b&gt;.</p>" in page


def test_a_check_without_a_page_is_left_out_and_without_rules_there_is_no_section() -> None:
    assert rules_section([samples.held_output()], _rules) == ""
    assert rules_section([samples.hot_rows()], None) == ""


def test_an_anchor_is_one_short_line() -> None:
    assert rule_anchor("NUM001") == "rule-NUM001"
    assert len(rule_anchor("x" * 500)) < 40
