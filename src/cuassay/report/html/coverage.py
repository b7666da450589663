"""The HTML section on scope: how far the trial looked, and which sizes of each axis it ran."""

from __future__ import annotations

from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.drawings import size_map
from cuassay.report.html.parts import bullets, folded, more, section

_AXES = 40
_VALUES = 200  # sizes of one axis in the page; the JSON document has all


def coverage_section(verdict: Verdict) -> str:
    """Return the section, or nothing for a problem without axes that vary."""
    if not verdict.coverage:
        return ""
    axes = []
    for axis in verdict.coverage[:_AXES]:
        # One axis: its sizes in short, and all of them with the checks folded away.
        line = html_text(words.coverage_line(axis))
        if axis.values:
            listed = ", ".join(str(value) for value in axis.values[:_VALUES])
            cut = len(axis.values) - _VALUES
            every = f"{listed}{f' and {cut} more' if cut > 0 else ''}"
            checks = ", ".join(
                f"{one_line(code, limit=20)} {count}"
                for code, count in list(axis.checks.items())[:_AXES]
            )
            key = f'<p class="key">sizes by check: {html_text(checks)}</p>'
            line = folded(line, f"<p>{html_text(every)}</p>{key}")
        axes.append(line)
    scope = bullets(map(html_text, words.scope_told(verdict)))
    picture = size_map(verdict.tried_sizes)
    drawn = f'<figure class="plot">{picture}</figure>' if picture else ""
    rest = more(len(verdict.coverage) - _AXES, "more axes, all in the JSON report")
    return section("How far the trial looked", f"{scope}{drawn}{bullets(axes)}{rest}")
