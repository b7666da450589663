"""Lines for a terminal: wrapped beside their labels, and never an order to a CI runner."""

from __future__ import annotations

import math

import pytest

from cuassay.report.terminal.layout import ASCII, Marks, bar, code, inert, labelled, marks, wrapped


def test_signs_are_those_that_the_encoding_can_write() -> None:
    assert marks("UTF-8") == marks("utf8") == Marks()
    assert marks("ascii") == ASCII
    for name in Marks.__slots__:
        getattr(ASCII, name).encode("ascii")


def test_a_cut_shows() -> None:
    rows = wrapped("word " * 40, width=50, lines=2)
    assert len(rows) == 2
    assert rows[1].endswith("…")
    assert all(len(row) <= 50 for row in rows)
    assert wrapped("", width=50) == [""]
    assert max(map(len, wrapped("word " * 40, width=3))) > 30  # never narrower than can be read


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("::error file=a.py::owned", ": :error file=a.py::owned"),
        ("   ::add-mask::x", "   : :add-mask::x"),
        ("a ##[command]x", "a # #[command]x"),
        ("torch::nn", "torch::nn"),
    ],
)
def test_no_row_is_an_order_to_a_runner(row: str, expected: str) -> None:
    assert inert(row) == expected
    assert code("log", [row])[0].plain.endswith(expected)


def test_later_rows_stand_under_the_first() -> None:
    rows = [row.plain for row in labelled("cause", "word " * 30, width=60)]
    assert rows[0].startswith("  cause       word")
    assert all(row.startswith(" " * 14 + "word") for row in rows[1:])
    assert len(rows) > 1


@pytest.mark.parametrize(
    ("share", "full", "over"),
    [(0.0, 0, False), (0.5, 12, False), (1.0, 24, False), (1.01, 24, True), (math.nan, 24, True)],
)
def test_a_bar_is_full_at_the_budget(share: float, full: int, over: bool) -> None:
    drawn = bar(share, signs=ASCII).plain
    assert drawn.count("#") == full
    assert drawn.count(".") == 24 - full
    assert drawn.endswith(">" if over else " ")


def test_without_a_share_there_is_no_bar() -> None:
    assert bar(None, signs=ASCII).plain == ""
