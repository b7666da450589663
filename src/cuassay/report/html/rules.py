"""The HTML section that says what the checks behind the findings look for: their own pages."""

from __future__ import annotations

from collections.abc import Iterable

from cuassay.model.outcome import Finding
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.parts import plot, section
from cuassay.report.rules import Rules

_PAGES = 40


def rules_section(findings: Iterable[Finding], rules: Rules | None) -> str:
    """Return the pages of the findings' checks, folded; nothing where there are none."""
    if rules is None:
        return ""
    codes = dict.fromkeys(one_line(finding.code, limit=20) for finding in findings)
    pages = [rule for rule in map(rules, list(codes)[:_PAGES]) if rule.sections]
    if not pages:
        return ""
    body = ""
    for rule in pages:  # `cuassay explain` prints the same text
        told = "".join(plot(html_text(heading), _paragraphs(t)) for heading, t in rule.sections)
        title = html_text(f"{rule.code}: {rule.title}")
        place = html_text(rule_anchor(rule.code))
        body += f'<details id="{place}"><summary>{title}</summary>{told}</details>'
    return section("What these checks look for", body)


def rule_anchor(code: str) -> str:
    """Return the id of a check's page in the report."""
    return f"rule-{one_line(code, limit=20)}"


def _paragraphs(text: str) -> str:
    found = (" ".join(part.split()) for part in text.split("\n\n"))
    return "".join(f"<p>{html_text(part)}</p>" for part in found if part)
