"""The training matrix as one HTML file: the table, then loss and bias of every run as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import Template

from cuassay.report.clean import html_text, json_island, one_line
from cuassay_loops.report import train_words
from cuassay_loops.results import CellResult, TrainReport

_WIDTH, _HEIGHT = 360.0, 170.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 8.0, 10.0, 24.0
STYLE = """
:root{--ink:#1b1b1b;--soft:#666;--line:#ddd;--bad:#b3261e;--good:#1f6f43;--noise:#8a8a8a;--page:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#eee;--soft:#aaa;--line:#444;--bad:#ff8a80;
--good:#7bd8a3;--noise:#999;--page:#151515}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:2rem auto;
max-width:70rem;padding:0 1rem}
table{border-collapse:collapse;font-size:13px}td,th{padding:.2rem .6rem;text-align:left;
border-bottom:1px solid var(--line);white-space:nowrap}.scroll{overflow-x:auto}
.bad{color:var(--bad);font-weight:600}.good{color:var(--good);font-weight:600}
.runs{display:grid;grid-template-columns:repeat(auto-fill,minmax(360px,1fr));gap:1rem}
svg{width:100%;height:auto}svg text{font:10px system-ui,sans-serif;fill:var(--soft)}
.axis{stroke:var(--line)}.trusted{stroke:var(--good)}
.noise{stroke:var(--noise);stroke-dasharray:3 2}
.candidate{stroke:var(--bad)}.band{fill:var(--noise);opacity:.25}
polyline{fill:none;stroke-width:1.4}
h2{font-size:1.05rem}small{color:var(--soft)}
"""
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>$style</style></head><body>
<h1><span class="$tone">$verdict</span> $candidate</h1><p>$reason</p>
<p><small>$setting</small></p><div class="scroll">$table</div>
<p>Loss: trusted (green), trusted with other rounding (dashed), with the kernel (red).
Gradient: signed bias at the same state; the grey band is the deviation that trusted kernels show,
times two.</p>
<div class="runs">$runs</div>
<script type="application/json">$island</script></body></html>
""")


def page(report: TrainReport) -> str:
    """Return the whole page."""
    return _PAGE.substitute(
        title=html_text(f"{report.decision.value}: {one_line(report.candidate, limit=80)}"),
        style=STYLE,
        tone="good" if report.decision.value == "ACCEPTED" else "bad",
        verdict=report.decision.value,
        candidate=html_text(f"{one_line(report.candidate, limit=120)} at {report.site}"),
        reason=html_text(one_line(report.reason, limit=900)),
        setting=html_text(
            f"{report.preset.name}, {report.device}, false-alarm rate {report.false_alarm_rate:g} "
            f"a run, seed {report.seed}"
        ),
        table=matrix(report),
        runs="".join(map(run_drawings, report.cells)),
        island=json_island(train_words.document(report)),
    )


def matrix(report: TrainReport) -> str:
    """Return the matrix as an HTML table, and what batches of duplicates said."""
    head = "".join(f"<th>{html_text(name)}</th>" for name in train_words.HEADER)
    bad = ' class="bad"'
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{bad if text.startswith(('LEFT', 'FAILED')) else ''}>{html_text(text)}</td>"
            for text in train_words.row(result)
        )
        + "</tr>"
        for result in report.cells
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    told = (f"<li>{html_text(train_words.duplicates(probe))}</li>" for probe in report.duplicates)
    return f"{table}<ul>{''.join(told)}</ul>" if report.duplicates else table


def run_drawings(result: CellResult) -> str:
    """Return the drawings of one run."""
    title = f"{result.cell.data} + {result.cell.optimizer}, {result.cell.precision}, "
    title += f"seed {result.cell.seed}"
    return (
        f"<section><h2>{html_text(one_line(title, limit=90))}</h2>"
        f"{loss_plot(result)}{bias_plot(result)}</section>"
    )


def loss_plot(result: CellResult) -> str:
    """Return the three losses over steps as SVG; empty where there is nothing to draw."""
    curves = result.curves
    named = {
        "noise": curves.noise,
        "trusted": curves.trusted,
        "candidate": curves.candidate,
    }
    values = [v for each in named.values() for v in each if math.isfinite(v)]
    if len(curves.steps) < 2 or not values:
        return ""
    frame = Frame(curves.steps, min(values), max(values))
    drawn = "".join(frame.line(curves.steps, each, kind) for kind, each in named.items())
    return frame.svg("loss", drawn)


def bias_plot(result: CellResult) -> str:
    """Return the signed bias of the telling group with the band around zero as SVG."""
    curves = result.curves
    kept = [
        (step, bias, allowed)
        for step, bias, allowed in zip(
            curves.paired_steps, curves.bias, curves.allowed, strict=True
        )
        if math.isfinite(bias) and math.isfinite(allowed)
    ]
    if len(kept) < 2:
        return ""
    steps, bias, allowed = (list(part) for part in zip(*kept, strict=True))
    reach = max([*map(abs, bias), *allowed, 1e-12])
    frame = Frame(steps, -reach, reach)
    drawn = frame.band(steps, allowed) + frame.line(steps, bias, "candidate")
    return frame.svg(f"bias of {one_line(curves.group, limit=40)}", drawn)


class Frame:
    """Linear axes and what is drawn in them."""

    def __init__(self, steps: Sequence[float], low: float, high: float) -> None:
        self._first, self._last = steps[0], max(steps[-1], steps[0] + 1)
        self._low, self._high = low, high if high > low else low + 1e-9

    def _x(self, step: float) -> float:
        share = (step - self._first) / (self._last - self._first)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def line(self, steps: Sequence[float], values: Sequence[float], kind: str) -> str:
        """Return a line of the finite values."""
        points = " ".join(
            f"{self._x(s):.1f},{self._y(v):.1f}"
            for s, v in zip(steps, values, strict=True)
            if math.isfinite(v)
        )
        return f'<polyline class="{kind}" points="{points}"/>'

    def band(self, steps: Sequence[float], reach: Sequence[float]) -> str:
        """Return the area between minus and plus `reach`."""
        above = [f"{self._x(s):.1f},{self._y(r):.1f}" for s, r in zip(steps, reach, strict=True)]
        below = [f"{self._x(s):.1f},{self._y(-r):.1f}" for s, r in zip(steps, reach, strict=True)]
        return f'<polygon class="band" points="{" ".join([*above, *reversed(below)])}"/>'

    def svg(self, label: str, drawn: str) -> str:
        """Return the drawing with its axes' ends named."""
        bottom = _HEIGHT - _BOTTOM
        texts = "".join(
            _text(_LEFT - 4, self._y(value) + 3, f"{value:.3g}", anchor="end")
            for value in (self._low, self._high)
        )
        texts += _text(_LEFT, _HEIGHT - 8, f"step {self._first:g}", anchor="start")
        texts += _text(_WIDTH - _RIGHT, _HEIGHT - 8, f"{self._last:g}", anchor="end")
        texts += _text(_WIDTH / 2, _HEIGHT - 8, label, anchor="middle")
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{html_text(label)}">'
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>'
            f"{drawn}{texts}</svg>"
        )


def _text(x: float, y: float, what: str, *, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html_text(what)}</text>'
