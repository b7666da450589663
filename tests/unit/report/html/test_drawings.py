"""Drawings show the data that they are given, and nothing where there is nothing to show."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from cuassay.model.outcome import COUNT_BOUNDS, Curve
from cuassay.model.verdict import Lane, Span, TriedSizes
from cuassay.report.html.drawings import curve_plot, histogram, size_map, timeline


def _parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<p>{text}</p>")


def _all(text: str, tag: str, kind: str) -> list[ElementTree.Element]:
    return [each for each in _parsed(text).iter(tag) if each.get("class") == kind]


def test_a_curve_breaks_where_a_value_is_not_finite() -> None:
    curve = Curve(
        axis="columns", start=64, got=(1.0, math.nan, 3.0, math.inf), expected=(1.0, 2.0, 3.0, 4.0)
    )
    drawn = curve_plot(curve)
    assert len(_all(drawn, "polyline", "line")) == 2
    assert len(_all(drawn, "polyline", "tline")) == 1
    assert len(_all(drawn, "text", "clabel")) == 2
    assert ">64<" in drawn
    assert ">67<" in drawn


@pytest.mark.parametrize("values", [(), (1.0,), (math.nan, math.inf)])
def test_a_curve_without_values_is_not_drawn(values: tuple[float, ...]) -> None:
    assert curve_plot(Curve(axis="rows", start=0, got=values, expected=values)) == ""


def test_equal_values_are_a_curve_too() -> None:
    assert _all(
        curve_plot(Curve(axis="rows", start=0, got=(0.0,) * 3, expected=(0.0,) * 3)),
        "polyline",
        "line",
    )


def test_a_histogram_has_a_bar_a_class() -> None:
    counts = (5, 0, 0, 100, 0, 0, 2, 1)
    drawn = histogram(counts)
    assert len(list(_parsed(drawn).iter("rect"))) == len(COUNT_BOUNDS) + 2
    assert "NaN, infinite" in drawn
    assert histogram(()) == histogram((0,) * 8) == ""


def test_sizes_with_a_wrong_result_are_marked() -> None:
    tried = [
        TriedSizes(sizes={"rows": rows, "hidden": hidden, "fixed": 4}, failed=hidden % 64 != 0)
        for rows in (1, 8)
        for hidden in (64, 65, 128)
    ]
    drawn = size_map(tried)
    assert len(_all(drawn, "circle", "dot")) == 2
    assert len(_all(drawn, "circle", "tdot")) == 4
    assert "rows=8" in drawn
    assert "wrong" in drawn
    one = size_map([TriedSizes(sizes={"n": n}) for n in (1, 1 << 20)])
    assert len(_all(one, "circle", "tdot")) == 2
    assert size_map(tried[:1]) == size_map(()) == ""


def test_a_timeline_has_a_row_a_lane() -> None:
    spans = [
        Span(lane=Lane.JUDGE, what="NUM001", begin_s=1.0, end_s=4.0),
        Span(lane=Lane.CANDIDATE, what="<small & co>", begin_s=2.0, end_s=3.0),
    ]
    drawn = timeline(spans)
    assert {rect.get("y") for rect in _parsed(drawn).iter("rect")} == {"3", "23"}
    assert "&lt;small &amp; co&gt;: 1.0 s" in drawn
    assert timeline(()) == ""
