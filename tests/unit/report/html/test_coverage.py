"""How far a trial looked, as a section of the page."""

from __future__ import annotations

import dataclasses

from cuassay.model.verdict import AxisCoverage
from cuassay.report.html.coverage import coverage_section
from tests.support import samples


def _section(*axes: AxisCoverage) -> str:
    return coverage_section(dataclasses.replace(samples.accepted(), coverage=axes))


def test_a_problem_without_axes_has_no_section() -> None:
    assert _section() == ""


def test_an_axis_lists_its_sizes_with_the_checks_that_tried_them() -> None:
    page = _section(AxisCoverage(axis="rows", values=(1, 17), checks={"NUM001": 2}))
    assert "<p>1, 17</p>" in page
    assert "NUM001 2" in page


def test_an_axis_that_nothing_tried_has_no_list_to_open() -> None:
    assert "<details>" not in _section(AxisCoverage(axis="rows"))


def test_many_sizes_and_many_axes_are_cut_and_the_rest_is_counted() -> None:
    page = _section(AxisCoverage(axis="n", values=tuple(range(1, 251)), checks={}))
    assert "200 and 50 more" in page
    page = _section(*(AxisCoverage(axis=f"a{n}", values=(n,)) for n in range(43)))
    assert "and 3 more axes" in page


def test_names_of_axes_and_checks_are_escaped() -> None:
    page = _section(AxisCoverage(axis="<b>", values=(1,), checks={"<i>": 1}))
    assert "<b>" not in page
    assert "<i>" not in page
