"""The HTML section on scope: how far the trial looked, and which sizes of each axis it ran."""

from __future__ import annotations

from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.drawings import size_map

_AXES = 40
_VALUES = 200  # sizes of one axis in the page; the JSON document has all


def coverage_section(verdict: Verdict) -> str:
    """Return the section, or nothing for a problem without axes that vary."""
    if not verdict.coverage:
        return ""
    parts = []
    for axis in verdict.coverage[:_AXES]:
        # One axis: its sizes in short, and all of them with the checks folded away.
        line = html_text(words.coverage_line(axis))
        if not axis.values:
            parts.append(f"<li>{line}</li>")
        else:
            listed = ", ".join(str(value) for value in axis.values[:_VALUES])
            cut = len(axis.values) - _VALUES
            every = f"{listed}{f' and {cut} more' if cut > 0 else ''}"
            checks = ", ".join(
                f"{one_line(code, limit=20)} {count}"
                for code, count in list(axis.checks.items())[:_AXES]
            )
            parts.append(
                f"<li><details><summary>{line}</summary><p>{html_text(every)}</p>"
                f'<p class="key">sizes by check: {html_text(checks)}</p></details></li>'
            )
    body = "".join(parts)
    more = len(verdict.coverage) - _AXES
    rest = f'<p class="key">and {more} more axes, all in the JSON report</p>' if more > 0 else ""
    told = "".join(f"<li>{html_text(line)}</li>" for line in words.scope_told(verdict))
    scope = f'<ul class="list">{told}</ul>' if told else ""
    plot = size_map(verdict.tried_sizes)
    drawn = f'<figure class="plot">{plot}</figure>' if plot else ""
    return (
        "<section><h2>How far the trial looked</h2>"
        f'<div class="card">{scope}{drawn}<ul class="list">{body}</ul>{rest}</div></section>'
    )
