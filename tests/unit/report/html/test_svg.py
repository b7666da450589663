"""Drawings of the HTML report: what they show of any numbers, and that they are well-formed."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from cuassay.model.outcome import ErrorMap
from cuassay.report.html.svg import (
    BINS,
    bins_of,
    budget_bar,
    error_map_drawing,
    map_key,
    tells,
    time_bar,
)


def _map(rows: int, columns: int, cells: list[float]) -> ErrorMap:
    return ErrorMap(rows=rows, columns=columns, cells=tuple(cells), tile=(1, 1), output="<y>")


def _element(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


@pytest.mark.parametrize(
    ("share", "tone", "width"),
    [
        (0.0, "good", 0.0),
        (0.5, "good", 102.0),
        (0.95, "mid", 193.8),
        (1.0, "mid", 204.0),
        (1.01, "bad", 252.0),
        (1000.0, "bad", 600.0),
        (1e9, "bad", 600.0),
        (math.inf, "bad", 600.0),
        (math.nan, "bad", 600.0),
    ],
)
def test_a_budget_is_full_at_its_limit_and_overspending_shows(
    share: float, tone: str, width: float
) -> None:
    drawn = _element(budget_bar(share))
    (fill,) = [one for one in drawn if one.get("class", "").startswith("fill-")]
    assert fill.get("class") == f"fill-{tone}"
    assert float(fill.get("width", "")) == pytest.approx(width, abs=1.0)


def test_classes_of_colour_reach_the_largest_finite_error() -> None:
    assert bins_of(_map(1, 3, [0.1, 64.0, math.inf])) == BINS
    far = bins_of(_map(1, 2, [1e6, math.nan]))
    assert far[0] == 1.0
    assert far[-1] == 1e6
    assert list(far) == sorted(far)
    assert len(far) == len(BINS)


def test_an_even_error_has_no_place() -> None:
    assert not tells(_map(2, 2, [0.1, 0.2, 0.3, 0.4]))
    assert tells(_map(2, 2, [0.1, 0.2, 0.3, 3.0]))
    assert tells(_map(1, 2, [0.1, math.nan]))


def test_runs_of_a_colour_are_one_rectangle_and_the_worst_tile_is_ringed() -> None:
    drawn = _element(error_map_drawing(_map(2, 3, [0.1, 0.1, 9.0, 0.1, 0.1, 0.1])))
    paths = {one.get("class"): one.get("d", "").count("M") for one in drawn if one.tag == "path"}
    assert paths == {"z0": 2, "z5": 1}
    (ring,) = [one for one in drawn if one.get("class") == "ring"]
    assert (ring.get("x"), ring.get("y")) == ("373.3", "0.0")
    assert drawn.get("aria-label") == "Error per tile of <y>"


def test_of_a_large_map_each_tile_keeps_its_worst_element() -> None:
    cells = [0.1] * (100 * 100)
    cells[99 * 100 + 99] = math.nan  # worse than any number
    cells[0] = 3.0
    drawn = _element(error_map_drawing(_map(100, 100, cells)))
    classes = {one.get("class") for one in drawn if one.tag == "path"}
    assert classes == {"z0", "z3", "z8"}
    (ring,) = [one for one in drawn if one.get("class") == "ring"]
    assert float(ring.get("x", "")) > 540


def test_the_key_has_every_class() -> None:
    text = map_key(_map(1, 1, [0.1]))
    assert text.count("<rect") == len(BINS) + 2
    assert "NaN, inf" in text
    assert "≤ 64" in text


def test_time_is_split_in_order() -> None:
    assert time_bar([]) == ""
    assert time_bar([("nothing", 0.0)]) == ""
    assert time_bar([("lost", math.nan)]) == ""
    drawn = _element(time_bar([("a & b", 3.0), ("rest", 1.0), ("less", -1.0)]))
    assert [one.get("width") for one in drawn] == ["450.0", "150.0", "0.0"]
    assert drawn[0][0].text == "a & b: 3.0 s"
