"""Drawings of a trial as inline SVG: values along a line, errors by size, sizes tried, time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from cuassay.model.outcome import COUNT_BOUNDS, Curve
from cuassay.model.verdict import Lane, Span, TriedSizes
from cuassay.report import words
from cuassay.report.clean import html_text, one_line

_WIDTH, _HEIGHT = 560.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 16.0, 16.0, 40.0
_ROW = 20.0  # height of a lane or of a bar
_SPANS = 400
_LANES = {
    Lane.JUDGE: "checks",
    Lane.BESIDE: "beside them",
    Lane.TRUTH: "truth",
    Lane.COMPARE: "compare",
    Lane.CANDIDATE: "candidate",
    Lane.REFERENCE: "reference",
    Lane.MACHINE: "PTX machine",
    Lane.APART: "process apart",
}
# As in the bar of build, truth, candidate and compare above it.
_COLORS = {
    Lane.JUDGE: "b4",
    Lane.BESIDE: "b4",
    Lane.TRUTH: "b1",
    Lane.COMPARE: "b3",
    Lane.CANDIDATE: "b2",
    Lane.REFERENCE: "b0",
    Lane.MACHINE: "b0",
    Lane.APART: "b2",
}


def curve_plot(curve: Curve) -> str:
    """Return what came and what was expected along a line; nothing where neither is finite."""
    finite = [v for v in (*curve.got, *curve.expected) if math.isfinite(v)]
    if len(curve.got) < 2 or not finite:
        return ""
    left = 96.0  # room for `-1.23e-05` in the larger type of a phone
    low, high = min(finite), max(finite)
    room = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    low, high = low - room, high + room
    last = curve.start + len(curve.got) - 1

    def x(number: int) -> float:
        return left + number / (len(curve.got) - 1) * (_WIDTH - left - _RIGHT)

    def y(value: float) -> float:
        part = (value - low) / (high - low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    lost = [n for n, value in enumerate(curve.got) if not math.isfinite(value)]
    marks = "".join(
        f'<text class="clabel" x="{x(n):.1f}" y="{_TOP}" text-anchor="middle">x</text>'
        for n in lost[:64]
    )
    axis = f"{'column' if curve.axis == 'columns' else 'row'} of the output"
    frame = "".join(
        f'<line class="grid" x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{html_text(text)}</text>'
        for at, text in [(y(value), words.number(value)) for value in (low, (low + high) / 2, high)]
    )
    bottom = _HEIGHT - _BOTTOM + 18
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="Values that came and values that were expected">{frame}'
        f"{_line(curve.expected, x, y, 'tline')}{_line(curve.got, x, y, 'line')}{marks}"
        f'<text x="{left}" y="{bottom}">{curve.start}</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom}" text-anchor="end">{last}</text>'
        f'<text x="{_WIDTH / 2}" y="{bottom}" text-anchor="middle">{axis}</text></svg>'
        '<div class="key"><span><svg viewBox="0 0 10 10"><rect class="tdot" width="10" '
        'height="10"/></svg>expected</span><span><svg viewBox="0 0 10 10"><rect class="dot" '
        'width="10" height="10"/></svg>from the kernel'
        f"{' (x: NaN or infinite)' if lost else ''}</span></div>"
    )


def _line(
    values: Sequence[float], x: Callable[[int], float], y: Callable[[float], float], kind: str
) -> str:
    """Return a line that breaks where a value is not finite, with dots where few are."""
    parts: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if math.isfinite(value):
            parts[-1].append(f"{x(number):.1f},{y(value):.1f}")
        elif parts[-1]:
            parts.append([])
    drawn = "".join(f'<polyline class="{kind}" points="{" ".join(p)}"/>' for p in parts if p)
    if len(values) <= 48:
        dot = "dot" if kind == "line" else "tdot"
        drawn += "".join(
            f'<circle class="{dot}" cx="{place.split(",")[0]}" cy="{place.split(",")[1]}" r="2.6"/>'
            for part in parts
            for place in part
        )
    return drawn


def histogram(counts: Sequence[int]) -> str:
    """Return how many elements have an error of which size; nothing where there are none."""
    if len(counts) != len(COUNT_BOUNDS) + 2 or not sum(counts):
        return ""
    bounds = [f"{bound:g}" for bound in COUNT_BOUNDS]
    pairs = itertools.pairwise(bounds)
    names = [f"up to {bounds[0]}", *(f"{a} to {b}" for a, b in pairs), f"above {bounds[-1]}"]
    names.append("NaN, infinite")
    most = math.log10(1 + max(counts))
    room = _WIDTH - 118.0 - 92.0
    drawn = []
    for number, (name, count) in enumerate(zip(names, counts, strict=True)):
        top = number * _ROW
        width = room * math.log10(1 + count) / most
        tone = "good" if number == 0 else "bad" if number > 1 else "mid"
        drawn.append(
            f'<text x="110" y="{top + 14:.0f}" text-anchor="end">{name}</text>'
            f'<rect class="fill-{tone}" x="118" y="{top + 3:.0f}" width="{width:.1f}" height="14" '
            f'rx="2"/><text x="{124 + width:.1f}" y="{top + 14:.0f}">{words.count(count)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {len(counts) * _ROW:.0f}" role="img" '
        f'aria-label="Elements by the size of their error">{"".join(drawn)}</svg>'
    )


def size_map(tried: Sequence[TriedSizes]) -> str:
    """Return the sizes that were tried, those with a wrong result marked; nothing for one size.

    The two axes with the most sizes are drawn, both by their logarithm.
    """
    names = list(dict.fromkeys(name for one in tried for name in one.sizes))
    varied = {n: {one.sizes[n] for one in tried if n in one.sizes} for n in names}
    axes = sorted((n for n in names if len(varied[n]) > 1), key=lambda n: -len(varied[n]))[:2]
    if not axes:
        return ""
    across, down = axes[0], axes[1] if len(axes) > 1 else ""
    height = _HEIGHT if down else 92.0

    def place(name: str, size: int, length: float) -> float:
        low, high = (math.log2(1 + end) for end in (min(varied[name]), max(varied[name])))
        return (math.log2(1 + size) - low) / (high - low) * length

    points: dict[tuple[float, float], tuple[bool, str]] = {}
    for one in tried:
        if across not in one.sizes or (down and down not in one.sizes):
            continue
        x = _LEFT + place(across, one.sizes[across], _WIDTH - _LEFT - _RIGHT - 8)
        y = height - _BOTTOM
        if down:
            y -= place(down, one.sizes[down], height - _TOP - _BOTTOM)
        key = round(x, 1), round(y, 1)
        before = points.get(key, (False, ""))
        points[key] = before[0] or one.failed, words.sizes(one.sizes)
    drawn = "".join(
        f'<circle class="{"dot" if failed else "tdot"}" cx="{x}" cy="{y}" '
        f'r="{4.5 if failed else 3.5}"><title>{html_text(text)}: '
        f"{'wrong' if failed else 'nothing wrong'}</title></circle>"
        for (x, y), (failed, text) in sorted(points.items(), key=lambda pair: pair[1][0])
    )
    bottom = height - _BOTTOM + 20
    ends = (
        f'<text x="{_LEFT}" y="{bottom}">{min(varied[across])}</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom}" text-anchor="end">{max(varied[across])}</text>'
        f'<text x="{_WIDTH / 2}" y="{bottom}" text-anchor="middle">'
        f"{html_text(one_line(across, limit=60))}</text>"
    )
    if down:
        ends += (
            f'<text x="{_LEFT - 12}" y="{height - _BOTTOM + 4}" text-anchor="end">'
            f'{min(varied[down])}</text><text x="{_LEFT - 12}" y="{_TOP + 4}" text-anchor="end">'
            f'{max(varied[down])}</text><text x="{_LEFT - 12}" y="{(_TOP + height - _BOTTOM) / 2}" '
            f'text-anchor="end">{html_text(one_line(down, limit=12))}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="Sizes that were tried">{drawn}{ends}</svg>'
        '<div class="key"><span><svg viewBox="0 0 10 10"><rect class="tdot" width="10" '
        'height="10"/></svg>nothing wrong</span><span><svg viewBox="0 0 10 10"><rect class="dot" '
        'width="10" height="10"/></svg>a wrong result</span></div>'
    )


def timeline(spans: Sequence[Span]) -> str:
    """Return who worked when, a row a lane; nothing where nothing took time."""
    lanes = [lane for lane in _LANES if any(span.lane is lane for span in spans)]
    end = max((span.end_s for span in spans), default=0.0)
    if not lanes or not math.isfinite(end) or end <= 0:
        return ""
    left = 96.0
    room = _WIDTH - left - 6.0
    longest = sorted(spans, key=lambda span: span.begin_s - span.end_s)[:_SPANS]
    drawn = []
    for span in longest:
        x = left + max(span.begin_s, 0.0) / end * room
        width = max((span.end_s - span.begin_s) / end * room, 0.4)
        y = lanes.index(span.lane) * _ROW + 3
        what = html_text(one_line(span.what, limit=80))
        drawn.append(
            f'<rect class="{_COLORS[span.lane]}" x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" '
            f'height="14">'
            f"<title>{what}: {words.seconds(span.end_s - span.begin_s)}</title></rect>"
        )
    names = "".join(
        f'<text x="{left - 8}" y="{n * _ROW + 14:.0f}" text-anchor="end">{_LANES[lane]}</text>'
        for n, lane in enumerate(lanes)
    )
    bottom = len(lanes) * _ROW + 18
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {bottom + 6:.0f}" role="img" '
        f'aria-label="Who worked when">{"".join(drawn)}{names}'
        f'<text x="{left}" y="{bottom}">0 s</text><text x="{_WIDTH - 6}" y="{bottom}" '
        f'text-anchor="end">{words.seconds(end)}</text></svg>'
    )
