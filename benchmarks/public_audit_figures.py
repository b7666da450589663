"""Drawings of the public audit as SVG files, in the colors of the report pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuassay.checks.gpu.chances import wilson
from cuassay.report.clean import html_text

# The palette of report/html/style.py, which an SVG file beside a page cannot share.
_STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1d1e20}.soft{fill:#5c6066}"
    ".track{fill:#e4e1db}.bad{fill:#b3261e}.good{fill:#17724a}.cond{fill:#8a5a00}"
    ".none{fill:#a0a3a8}.limit{stroke:#1d1e20;stroke-width:1.5}"
    "@media (prefers-color-scheme:dark){text{fill:#e9e6e0}.soft{fill:#a0a3a8}"
    ".track{fill:#303338}.bad{fill:#ff8a7e}.good{fill:#5fc894}.cond{fill:#e2b45a}"
    ".none{fill:#5c6066}.limit{stroke:#e9e6e0}}</style>"
)
_LEFT, _WIDTH, _RIGHT, _ROW, _TOP = 230.0, 380.0, 200.0, 26.0, 44.0
_TONES = {
    "accepted": "good",
    "accepted under conditions": "cond",
    "rejected": "bad",
    "not decided": "none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A share: `hits` of `total`."""

    name: str
    hits: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Counts that make a whole, by the names of `_TONES`."""

    name: str
    parts: Mapping[str, int]


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return bars from 0 to 100 %, each with its 95 % Wilson interval as a whisker."""
    drawn = []
    for number, bar in enumerate(rows):
        y = _TOP + number * _ROW
        low, high = wilson(bar.hits, bar.total)
        x0, x1, middle = _LEFT + _WIDTH * low, _LEFT + _WIDTH * high, y + 8
        drawn.append(
            _name(bar.name, y)
            + f'<rect class="track" x="{_LEFT}" y="{y}" width="{_WIDTH}" height="16" rx="3"/>'
            f'<rect class="bad" x="{_LEFT}" y="{y}" width="{_WIDTH * bar.hits / bar.total:.1f}" '
            f'height="16" rx="3"/>'
            f'<path class="limit" d="M{x0:.1f} {middle}H{x1:.1f}M{x0:.1f} {y + 4}v8'
            f'M{x1:.1f} {y + 4}v8"/>'
            + _figure(f"{bar.hits} of {bar.total}, {bar.hits / bar.total:.0%}", y)
        )
    return _svg(title, drawn, note="bars: shares; whiskers: 95 % intervals (Wilson)")


def stacks(title: str, rows: Sequence[Stack]) -> str:
    """Return one bar a stack, of equal length, with its parts beside each other."""
    drawn = []
    for number, stack in enumerate(rows):
        y, x, total = _TOP + number * _ROW, _LEFT, sum(stack.parts.values())
        parts = []
        for name, count in stack.parts.items():
            wide = _WIDTH * count / total if total else 0.0
            label = html_text(f"{name}: {count}")
            parts.append(
                f'<rect class="{_TONES[name]}" x="{x:.1f}" y="{y}" width="{wide:.1f}" '
                f'height="16"><title>{label}</title></rect>'
            )
            x += wide
        listed = " / ".join(str(count) for count in stack.parts.values())
        drawn.append(_name(stack.name, y) + "".join(parts) + _figure(listed, y))
    return _svg(title, drawn, note=" / ".join(_TONES))


def _name(text: str, y: float) -> str:
    return f'<text x="{_LEFT - 10}" y="{y + 13}" text-anchor="end">{html_text(text[:34])}</text>'


def _figure(text: str, y: float) -> str:
    return f'<text class="soft" x="{_LEFT + _WIDTH + 10}" y="{y + 13}">{html_text(text)}</text>'


def _svg(title: str, rows: Sequence[str], *, note: str) -> str:
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + len(rows) * _ROW + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'role="img" aria-label="{html_text(title)}">{_STYLE}'
        f'<text x="10" y="24" font-weight="600">{html_text(title)}</text>{"".join(rows)}'
        f'<text class="soft" x="{_LEFT}" y="{high - 8}">{html_text(note)}</text></svg>\n'
    )
