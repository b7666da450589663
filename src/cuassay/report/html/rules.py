"""The HTML section that says what the checks behind the findings look for: their own pages."""

from __future__ import annotations

from collections.abc import Iterable

from cuassay.model.outcome import Finding
from cuassay.report.clean import html_text, one_line
from cuassay.report.rules import Rule, Rules

_PAGES = 40


def rules_section(findings: Iterable[Finding], rules: Rules | None) -> str:
    """Return the pages of the findings' checks, folded; nothing where there are none."""
    if rules is None:
        return ""
    codes = dict.fromkeys(one_line(finding.code, limit=20) for finding in findings)
    pages = [rule for rule in map(rules, list(codes)[:_PAGES]) if rule.sections]
    if not pages:
        return ""
    body = "".join(map(_page, pages))
    return f'<section><h2>What these checks look for</h2><div class="card">{body}</div></section>'


def rule_anchor(code: str) -> str:
    """Return the id of a check's page in the report."""
    return f"rule-{one_line(code, limit=20)}"


def _page(rule: Rule) -> str:
    """Return one page: `cuassay explain` prints the same text."""
    parts = "".join(
        f'<div class="plot"><h3>{html_text(heading)}</h3>{_paragraphs(text)}</div>'
        for heading, text in rule.sections
    )
    title = html_text(f"{rule.code}: {rule.title}")
    place = html_text(rule_anchor(rule.code))
    return f'<details id="{place}"><summary>{title}</summary>{parts}</details>'


def _paragraphs(text: str) -> str:
    found = (" ".join(part.split()) for part in text.split("\n\n"))
    return "".join(f"<p>{html_text(part)}</p>" for part in found if part)
