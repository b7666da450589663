"""The candidate's source in a report: heat by error, marks, and the line that is blamed."""

from __future__ import annotations

import dataclasses
import math

import pytest

from cuassay.model.diagnosis import SourceLine
from cuassay.model.machine import SourceView
from cuassay.report.html.source import excerpt, heat_step, source_section
from tests.support import samples

TEXT = "".join(f"line {number}\n" for number in range(1, 101))


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (0.0, 0),
        (2.0**-24, 0),
        (2.0**-23, 1),
        (2.0**-12, 4),
        (0.5, 8),
        (1.0, 8),
        (1e9, 8),
        (math.inf, 8),
        (math.nan, 0),
    ],
)
def test_heat_deepens_with_the_error(error: float, step: int) -> None:
    assert heat_step(error) == step


def test_a_line_stands_among_its_neighbours() -> None:
    view = SourceView(file="k.py", text=TEXT)
    found = excerpt(SourceLine(file="k.py", line=50, what="adds <them>"), [view])
    assert [f">{n}<" in found for n in (46, 47, 50, 53, 54)] == [False, True, True, True, False]
    assert '<tr class="hit"><td class="no">50</td>' in found
    assert "adds &lt;them&gt;" in found
    first = excerpt(SourceLine(file="k.py", line=1), [view])
    assert '<tr class="hit"><td class="no">1</td>' in first


@pytest.mark.parametrize("line", [0, 101, 4000])
def test_a_line_that_the_file_does_not_have_is_shown_by_its_own_text(line: int) -> None:
    view = SourceView(file="k.py", text=TEXT)
    found = excerpt(SourceLine(file="k.py", line=line, text="x = <y>"), [view])
    assert "x = &lt;y&gt;" in found
    assert found.count("<tr") == 1


def _section(*views: SourceView) -> str:
    return source_section(dataclasses.replace(samples.accepted(), sources=views))


def test_only_files_of_which_something_ran_or_was_found_are_shown() -> None:
    silent = SourceView(file="a.py", text=TEXT)
    ran = SourceView(file="b.py", text=TEXT, executed=(30,), heat={"30": 0.25})
    page = _section(silent, ran)
    assert "a.py" not in page
    assert '<td class="no ran">30</td><td class="err">2e-01</td><td class="h8">' in page
    assert [f">{n}</td>" in page for n in (17, 18, 42, 43)] == [False, True, True, False]
    assert _section(silent) == ""


def test_a_mark_stands_below_its_line() -> None:
    marks = ((3, "wrong", "NUM001", "off by <one>"),)
    page = _section(SourceView(file="k.py", text=TEXT, marks=marks))
    below = page.split('<td class="no idle">3</td>')[1].split('<td class="no')[0]
    assert '<tr class="note bad">' in below
    assert "off by &lt;one&gt;" in below
