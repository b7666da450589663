"""The HTML section on the source: each line with what the PTX machine saw there, and error heat.

The background of a line deepens with the relative error of its results against the float64
shadow, in nine steps from 2**-24 (what float32 rounds) to 1; a mark names findings on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuassay.model.diagnosis import SourceLine
from cuassay.model.machine import SourceView
from cuassay.model.verdict import Verdict
from cuassay.report.clean import clean, html_text, one_line

_FILES, _LINES, _AROUND = 2, 250, 12
_BESIDE = 3  # lines shown above and below the one that is blamed
_STEPS, _LEAST = 8, -24.0  # powers of two from which heat shows
SOURCE_CSS = """
.src{font-family:var(--mono);font-size:.86rem;border-collapse:collapse;width:100%}
.src td{padding:.05rem .5rem;white-space:pre;vertical-align:top}
.src .no{color:var(--soft);text-align:right;user-select:none}
.src .err{color:var(--soft);text-align:right}
.src .ran{border-left:3px solid var(--good)}.src .idle{border-left:3px solid transparent}
.src tr.hit td{background:var(--bad-wash);color:var(--bad);font-weight:650}
.src .note td{white-space:normal;font-family:var(--sans);padding:.2rem .5rem .35rem 6rem}
.src .z1,.src .z2,.src .z3,.src .z4,.src .z5,.src .z6,.src .z7,.src .z8{fill:none}
.src td.h1{background:color-mix(in srgb,var(--bad) 4%,transparent)}
.src td.h2{background:color-mix(in srgb,var(--bad) 8%,transparent)}
.src td.h3{background:color-mix(in srgb,var(--bad) 13%,transparent)}
.src td.h4{background:color-mix(in srgb,var(--bad) 18%,transparent)}
.src td.h5{background:color-mix(in srgb,var(--bad) 25%,transparent)}
.src td.h6{background:color-mix(in srgb,var(--bad) 32%,transparent)}
.src td.h7{background:color-mix(in srgb,var(--bad) 40%,transparent)}
.src td.h8{background:color-mix(in srgb,var(--bad) 50%,transparent)}
"""


def excerpt(line: SourceLine, sources: Sequence[SourceView]) -> str:
    """Return a line of the candidate with its neighbours, itself marked, and what it does."""
    view = next((one for one in sources if one.file == line.file), None)
    rows = view.text.splitlines() if view is not None else []
    if not 0 < line.line <= len(rows):
        rows, first = [line.text], line.line
    else:
        first = max(1, line.line - _BESIDE)
        rows = rows[first - 1 : line.line + _BESIDE]
    table = "".join(
        f'<tr class="{"hit" if first + n == line.line else ""}"><td class="no">{first + n}</td>'
        f"<td>{html_text(clean(row, cap_bytes=400))}</td></tr>"
        for n, row in enumerate(rows)
    )
    what = f'<p class="key">{html_text(one_line(line.what, limit=200))}</p>' if line.what else ""
    name = html_text(f"{one_line(line.file, limit=120)}:{line.line}")
    return (
        f'<p class="mono key">{name}</p><div class="scroll"><table class="src"><tbody>'
        f"{table}</tbody></table></div>{what}"
    )


def source_section(verdict: Verdict) -> str:
    """Return the section, or nothing where the machine executed nothing."""
    shown = [view for view in verdict.sources if view.executed or view.marks][:_FILES]
    if not shown:
        return ""
    files = "".join(map(_file, shown))
    return (
        "<section><h2>The source, line by line</h2>"
        '<p class="key">executed by the PTX machine: a bar where a line ran, its relative error '
        "against float64 shadows, and what was found on it</p>"
        f"{files}</section>"
    )


def _file(view: SourceView) -> str:
    rows = []
    lines = view.text.splitlines()
    # The first and last line shown: what was compiled, with some lines around it.
    count = len(lines)
    telling = [*view.executed, *(mark[0] for mark in view.marks)]
    first = max(1, min(telling) - _AROUND)
    last = min(count, max(telling) + _AROUND)
    last = min(last, first + _LINES - 1)
    for number in range(first, last + 1):
        text = lines[number - 1]
        error = view.heat.get(str(number), 0.0)
        ran = "ran" if number in view.executed else "idle"
        shown = f"{error:.0e}" if error > 2.0**_LEAST else ""
        rows.append(
            f'<tr><td class="no {ran}">{number}</td><td class="err">{shown}</td>'
            f'<td class="h{heat_step(error)}">{html_text(clean(text, cap_bytes=400))}</td></tr>'
        )
        for line, kind, code, message in view.marks:
            if line == number:
                tone = {"wrong": "bad", "unsafe": "mid"}.get(kind, "calm")
                rows.append(
                    f'<tr class="note {tone}"><td></td><td></td><td><span class="tag">'
                    f"{html_text(one_line(code, limit=20))}</span> "
                    f"{html_text(one_line(message))}</td></tr>"
                )
    name = html_text(one_line(view.file, limit=120))
    return (
        f'<div class="card scroll"><h3>{name}</h3><table class="src"><tbody>'
        f"{''.join(rows)}</tbody></table></div>"
    )


def heat_step(error: float) -> int:
    """Return the step of a relative error, 0 (none to speak of) to 8 (all of the value)."""
    if not error > 2.0**_LEAST:
        return 0
    share = 1.0 if not math.isfinite(error) else (math.log2(error) - _LEAST) / -_LEAST
    return min(_STEPS, max(1, math.ceil(_STEPS * share)))
