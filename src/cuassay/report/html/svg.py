"""Drawings of the HTML report as inline SVG: budget bar, error map, growth plot, time split.

Colours come from classes of the style sheet, so that dark mode and print follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuassay.model.outcome import ErrorMap, Growth
from cuassay.report import words
from cuassay.report.clean import html_text, one_line

# Upper ends of the colour classes z0..z7 of error / achievable error where no error is larger;
# z8 is not finite.
BINS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
_MAP_WIDTH, _MAP_HEIGHT, _MAP_CELLS = 560.0, 300.0, 48
_PLOT_WIDTH, _PLOT_HEIGHT = 560.0, 330.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 94.0, 18.0, 44.0


def budget_bar(share: float) -> str:
    """Return a bar of the error budget with its limit marked; overspending runs past it.

    Up to the limit the scale is linear over the first third, beyond it logarithmic.
    """
    limit = 0.34
    spent = 1.0 if not math.isfinite(share) else max(share, 0.0)
    over = share > 1 or math.isnan(share)
    if over:
        decades = math.log10(spent) if math.isfinite(share) else 3.0
        part = limit + (1 - limit) * min(1.0, 0.12 + 0.88 * decades / 3)
    else:
        part = limit * spent
    tone = "bad" if over else "mid" if spent > 0.9 else "good"
    x = 600 * limit
    return (
        f'<svg class="bar" viewBox="0 0 600 22" preserveAspectRatio="none" role="img" '
        f'aria-label="{html_text(words.times(share))}">'
        f'<rect class="track" y="4" width="600" height="14" rx="3"/>'
        f'<rect class="fill-{tone}" y="4" width="{600 * part:.1f}" height="14" rx="3"/>'
        f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="22"/></svg>'
    )


def error_map_drawing(errors: ErrorMap) -> str:
    """Return a heat map of the worst error per tile, the worst tile ringed."""
    rows, columns = min(errors.rows, _MAP_CELLS), min(errors.columns, _MAP_CELLS)
    if (rows, columns) == (errors.rows, errors.columns):
        shrunk = errors
    else:
        largest = [0.0] * (rows * columns)
        for i, value in enumerate(errors.cells):
            row, column = i // errors.columns, i % errors.columns
            j = row * rows // errors.rows * columns + column * columns // errors.columns
            largest[j] = max(largest[j], value, key=_rank)
        shrunk = ErrorMap(
            rows=rows, columns=columns, cells=tuple(largest), tile=errors.tile, output=errors.output
        )
    rows, columns = shrunk.rows, shrunk.columns
    wide, high = _MAP_WIDTH / columns, min(_MAP_HEIGHT / rows, _MAP_WIDTH / columns)
    height = high * rows
    paths: dict[int, list[str]] = {}
    bins = bins_of(errors)
    for row in range(rows):
        cells = shrunk.cells[row * columns : (row + 1) * columns]
        runs: list[tuple[int, int, int]] = []
        for position, value in enumerate(cells):
            index = _bin(value, bins)
            if runs and runs[-1][2] == index:
                start, length, _ = runs[-1]
                runs[-1] = (start, length + 1, index)
            else:
                runs.append((position, 1, index))
        for start, length, index in runs:
            x, y, w, h = start * wide, row * high, length * wide, high
            paths.setdefault(index, []).append(f"M{x:.4g} {y:.4g}h{w:.4g}v{h:.4g}h-{w:.4g}z")
    drawn = "".join(
        f'<path class="z{index}" d="{"".join(parts)}"/>' for index, parts in sorted(paths.items())
    )
    worst = max(range(len(shrunk.cells)), key=lambda i: _rank(shrunk.cells[i]))
    x, y = worst % columns * wide, worst // columns * high
    label = f"Error per tile of {one_line(errors.output, limit=80)}"
    return (
        f'<svg viewBox="-2 -2 {_MAP_WIDTH + 4:.0f} {height + 4:.1f}" role="img" '
        f'aria-label="{html_text(label)}" shape-rendering="crispEdges">{drawn}'
        f'<rect class="ring" x="{x:.1f}" y="{y:.1f}" width="{max(wide, 5):.1f}" '
        f'height="{max(high, 5):.1f}"/></svg>'
    )


def bins_of(errors: ErrorMap) -> tuple[float, ...]:
    """Return the upper ends of the colour classes: powers up to the largest finite error."""
    finite = [cell for cell in errors.cells if math.isfinite(cell)]
    largest = max(finite, default=1.0)
    if largest <= BINS[-1]:
        return BINS
    ratio = largest ** (1.0 / (len(BINS) - 1))
    return (1.0, *(float(f"{ratio**step:.2g}") for step in range(1, len(BINS) - 1)), largest)


def tells(errors: ErrorMap) -> bool:
    """Whether a map shows more than one colour: an even error has no place."""
    bins = bins_of(errors)
    return len({_bin(cell, bins) for cell in errors.cells}) > 1


def map_key(errors: ErrorMap) -> str:
    """Return the colour key of an error map: a swatch a class with the upper end of its range."""
    bins = bins_of(errors)
    names = [f"≤ {words.number(top)}" for top in bins]
    names += [f"> {words.number(bins[-1])}", "NaN, inf"]
    swatches = "".join(
        f'<span><svg viewBox="0 0 10 10"><rect class="z{i}" width="10" height="10"/></svg>'
        f"{name}</span>"
        for i, name in enumerate(names)
    )
    return f'<div class="key">{swatches}</div>'


def _rank(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _bin(value: float, bins: Sequence[float]) -> int:
    if not math.isfinite(value):
        return len(bins) + 1
    return next((i for i, top in enumerate(bins) if value <= top), len(bins))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Log-log coordinates: powers of ten to pixels."""

    x_low: int
    x_high: int
    y_low: int
    y_high: int

    def x(self, length: float) -> float:
        part = (math.log10(length) - self.x_low) / (self.x_high - self.x_low)
        return _LEFT + part * (_PLOT_WIDTH - _LEFT - _RIGHT)

    def y(self, error: float) -> float:
        part = (math.log10(error) - self.y_low) / (self.y_high - self.y_low)
        return _PLOT_HEIGHT - _BOTTOM - part * (_PLOT_HEIGHT - _TOP - _BOTTOM)


def growth_plot(growth: Growth) -> str:
    """Return error over length on log-log axes; empty where too few points can be drawn."""
    points = [p for p in growth.points if p.length > 0 and _drawable(p.error)]
    if len(points) < 2 or not _drawable(growth.projected) or growth.target <= 0:
        return ""
    trusted = [
        (p.length, p.trusted) for p in growth.points if p.length > 0 and _drawable(p.trusted)
    ]
    measured = [(p.length, p.error) for p in points]
    drawn = measured + trusted + [(growth.target, growth.projected)]

    def ends(values: list[float]) -> tuple[int, int]:
        low, high = math.floor(min(values)), math.ceil(max(values))
        return low, max(high, low + 1)

    x_low, x_high = ends([math.log10(x) for x, _ in drawn])
    y_low, y_high = ends([math.log10(y) for _, y in drawn])
    scale = _Scale(x_low=x_low, x_high=x_high, y_low=y_low, y_high=y_high)
    last = max(measured)
    end = (growth.target, growth.projected)
    label = words.growth_line(growth)
    x, y = scale.x(growth.target), scale.y(growth.projected)
    text = (
        f'<text class="clabel" x="{x:.1f}" y="{y - 12:.1f}" text-anchor="middle">'
        f"{html_text(words.percent(growth.projected))}</text>"
        f'<text x="{x + 9:.1f}" y="{y + 4:.1f}">projected</text>'
    )
    if trusted:
        length, error = max(trusted)
        text += (
            f'<text class="tlabel" x="{scale.x(length) + 9:.1f}" y="{scale.y(error) + 4:.1f}">'
            f"trusted</text>"
        )
    axis = one_line(growth.axis, limit=40)
    bottom, right = _PLOT_HEIGHT - _BOTTOM, _PLOT_WIDTH - _RIGHT
    parts = []
    for power, y in _ticks(scale.y_low, scale.y_high, scale.y):
        tick = f"{words.number(10.0 ** (power + 2))} %" if -6 <= power <= 2 else f"1e{power}"
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>'
        )
    parts += [
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_length_tick(power)}</text>'
        for power, x in _ticks(scale.x_low, scale.x_high, scale.x)
    ]
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle:.1f}" y="{bottom + 37}" text-anchor="middle">{html_text(axis)}</text>'
    )
    return (
        f'<svg viewBox="0 0 {_PLOT_WIDTH:.0f} {_PLOT_HEIGHT:.0f}" role="img" '
        f'aria-label="{html_text(label)}">'
        + "".join(parts)
        + _polyline(trusted, scale, "tline")
        + _dots(trusted, scale, "tdot")
        + _polyline(measured, scale, "line")
        + _polyline([last, end], scale, "line dash")
        + _dots(measured, scale, "dot")
        + f'<circle class="hole" cx="{scale.x(end[0]):.1f}" cy="{scale.y(end[1]):.1f}" r="5"/>'
        + text
        + "</svg>"
    )


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _ticks(low: int, high: int, place: Callable[[float], float]) -> list[tuple[int, float]]:
    step = max(1, math.ceil((high - low) / 6))
    return [(power, place(10.0**power)) for power in range(low, high + 1, step)]


def _length_tick(power: int) -> str:
    if power < 3:
        return f"{10**power}"
    if power < 12:
        return f"{10 ** (power % 3)}{('k', 'M', 'G')[power // 3 - 1]}"
    return f"1e{power}"


def _polyline(points: Sequence[tuple[int, float]], scale: _Scale, kind: str) -> str:
    placed = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in sorted(points))
    return f'<polyline class="{kind}" points="{placed}"/>'


def _dots(points: Sequence[tuple[int, float]], scale: _Scale, kind: str) -> str:
    return "".join(
        f'<circle class="{kind}" cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="4"/>'
        for x, y in points
    )


def time_bar(parts: Sequence[tuple[str, float]]) -> str:
    """Return one bar split by time, parts in order; empty where nothing took time."""
    total = sum(max(value, 0.0) for _, value in parts)
    if not math.isfinite(total) or total <= 0:
        return ""
    x = 0.0
    drawn = []
    for index, (name, value) in enumerate(parts):
        width = 600 * max(value, 0.0) / total
        drawn.append(
            f'<rect class="b{index}" x="{x:.1f}" y="4" width="{width:.1f}" height="14">'
            f"<title>{html_text(name)}: {words.seconds(value)}</title></rect>"
        )
        x += width
    return (
        '<svg class="bar" viewBox="0 0 600 22" preserveAspectRatio="none" role="img" '
        f'aria-label="Where the time went">{"".join(drawn)}</svg>'
    )
