"""The HTML pages in a real browser: sorting, filters, deep links, copying, hostile text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from cuassay.model.audit import Audit, Oddity
from cuassay.report.html.audit import render
from cuassay.report.html.verdict import render as render_verdict
from tests.browser.conftest import Watched
from tests.support import audits, samples

Opener = Callable[..., Watched]
_VISIBLE = "Array.from(document.querySelectorAll('.items tbody')).filter(t => !t.hidden)"


def _names(page: Any) -> list[str]:
    found: list[str] = page.evaluate(f"{_VISIBLE}.map(t => t.querySelector('a').textContent)")
    return found


def _column(page: Any, number: int) -> list[str]:
    script = f"{_VISIBLE}.map(t => t.rows[0].cells[{number}].textContent.trim())"
    found: list[str] = page.evaluate(script)
    return found


def _hostile() -> Audit:
    nasty = samples.NASTY
    audit = audits.audit(2)
    item = dataclasses.replace(
        audits.item(1), candidate_name=nasty, problem_name=nasty, author=nasty, family=nasty
    )
    finding = audits.finding(
        0, code=nasty, title=nasty, message=nasty, classes=(nasty,), reproduce=nasty
    )
    result = audits.result(1, item=item, reason=nasty, conditions=(nasty,), precision_grade=nasty)
    result = dataclasses.replace(result, findings=(finding,))
    power = dataclasses.replace(
        audit.powers[0], problem_name=nasty, survivors=(nasty,), trivial=(nasty,)
    )
    return dataclasses.replace(
        audit,
        header=audits.header(tree=nasty, filters=(nasty,), environment={nasty: nasty}),
        results=(*audit.results, result),
        oddities=(Oddity(path=nasty, message=nasty),),
        powers=(power,),
    )


def test_a_page_of_a_thousand_kernels_is_all_there(opened: Opener) -> None:
    page = opened(render(audits.audit(1000, findings=3))).page
    assert page.text_content(".filters output") == "1001 kernels"
    page.locator(".items th button").nth(5).click()
    assert page.locator(".items th").nth(5).get_attribute("aria-sort") == "descending"
    speeds = [float(v.rstrip(" x")) for v in _column(page, 5) if v]
    assert len(speeds) == 1000
    assert speeds == sorted(speeds, reverse=True)


def test_the_table_sorts_by_every_column(opened: Opener) -> None:
    page = opened(render(audits.audit(60, findings=3))).page
    heads = page.locator(".items th button")
    assert heads.count() == 7
    for column in range(7):
        heads.nth(column).click()
        first = _column(page, column)
        heads.nth(column).click()
        second = _column(page, column)
        numeric = column in (4, 5, 6)
        values = [v for v in first if v]
        key: Any = (lambda v: float(v.rstrip(" x").replace(" ", ""))) if numeric else str.lower
        reverse = page.locator(".items th").nth(column).get_attribute("aria-sort") == "ascending"
        assert [key(v) for v in values] == sorted(map(key, values), reverse=reverse)
        assert sorted(first) == sorted(second)
        blank = first.index("") if "" in first else len(first)
        assert not any(first[blank:]) or not numeric  # what was not measured comes last


def test_filters_narrow_and_stand_in_the_address(opened: Opener) -> None:
    page = opened(render(audits.audit(60, findings=2))).page
    page.select_option("select[name=family]", "attention")
    assert page.evaluate("location.hash") == "#family=attention"
    assert set(_column(page, 1)) == {"REJECTED"}
    page.select_option("select[name=class]", "S2")
    page.fill("input[name=q]", "k7")
    assert _names(page) == ["k7"]
    page.fill("input[name=q]", "no such kernel")
    assert page.is_visible(".none")
    page.click(".filters button")
    assert page.text_content(".filters output") == "61 kernels"
    page.select_option("select[name=verdict]", "clash")
    assert set(_column(page, 2)) == {"accepted"}
    assert set(_column(page, 1)) == {"REJECTED"}


def test_links_lead_to_filters_and_to_one_kernel(opened: Opener) -> None:
    text = render(audits.audit(60))
    page = opened(text, "#family=softmax&class=N1").page
    assert len(_names(page)) == 10
    assert page.input_value("select[name=class]") == "N1"
    page = opened(text, "#c-000000000004").page
    assert page.locator("tbody.open").count() == 1
    assert page.is_visible("#c-000000000004 .more")
    place = "document.querySelector('#c-000000000004').getBoundingClientRect().top"
    for _ in range(50):  # it scrolls there smoothly
        if page.evaluate(place) < 400:
            break
        page.wait_for_timeout(100)
    assert page.evaluate(place) < 400
    page.evaluate("scrollTo(0, 0)")
    page.click(".heat a >> nth=0")
    assert page.input_value("select[name=family]") == "attention"
    page = opened(text, "#c-nobody&%E0%A4%A").page
    assert len(_names(page)) == 61


def test_a_row_opens_and_its_command_is_copied(opened: Opener) -> None:
    page = opened(render(audits.audit(6))).page
    assert not page.is_visible(".more >> nth=0")
    page.click("tr.row >> nth=0")
    assert page.is_visible(".more >> nth=0")
    page.click(".copy >> nth=0")
    assert page.evaluate("navigator.clipboard.readText()") == "cuassay replay /runs/x/F1"
    page = opened(render_verdict(samples.rejected())).page
    page.click(".copy >> nth=1")
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    again = f"cuassay replay {samples.RUN}/F1"
    assert copied == [again, f"{again} --export repro.py"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["verdict", "audit"])
def test_hostile_text_stays_text_and_nothing_is_asked_for(
    name: str, scheme: str, opened: Opener
) -> None:
    text = render_verdict(samples.nasty()) if name == "verdict" else render(_hostile())
    watched = opened(text, "#c-000000000001", color_scheme=scheme)
    page = watched.page
    assert watched.said == []
    assert all(url.startswith("file://") for url in watched.requests)
    assert len(watched.requests) == 1
    assert page.locator("script").count() == (2 if name == "verdict" else 3)
    assert page.locator("img").count() == 0
    assert "<script>alert(1)</script>" in page.text_content("main")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")


def test_pages_read_with_scripts_off_and_on_paper(opened: Opener) -> None:
    text = render(audits.audit(12))
    page = opened(text, java_script_enabled=False).page
    assert page.is_visible("text=cuassay replay /runs/x/F1 >> nth=0")
    assert not page.is_visible(".filters")
    page = opened(text).page
    page.emulate_media(media="print")
    assert not page.is_visible(".filters")
    assert page.is_visible("tr.row >> nth=11")
    assert not page.is_visible("tr.more >> nth=0")


def test_a_page_fits_a_phone(opened: Opener) -> None:
    for text in (render(audits.audit(12)), render_verdict(samples.rejected())):
        page = opened(text, viewport={"width": 390, "height": 844}).page
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
