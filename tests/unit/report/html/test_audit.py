"""The audit page as text: small, well formed, complete, and honest about what it left out."""

from __future__ import annotations

import dataclasses
import re

from cuassay.model.audit import Ending
from cuassay.report.html.audit import render
from cuassay.report.html.audit_rows import ROWS
from tests.support import audits, samples
from tests.unit.report.html.test_verdict import Balance


def test_the_page_is_well_formed_and_needs_nothing() -> None:
    text = render(audits.audit(60, findings=3))
    page = Balance()
    page.feed(text)
    assert page.open == []
    links = [value for _, name, value in page.attributes if name in ("src", "href", "srcset")]
    assert all(value and value.startswith("#") for value in links)
    assert "style" not in {name for _, name, _ in page.attributes}
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_the_page_reads_without_its_script() -> None:
    text = re.sub(r"<script.*?</script>", "", render(audits.audit(12)), flags=re.DOTALL)
    for part in (
        "<em>2 of 10</em> kernels that the benchmark accepts are wrong",
        "Which operators fail most",
        "Operator family by failure class",
        "Who wrote them",
        "solution.json: line 3: not valid JSON",
        "UNREADABLE",
        "cuassay replay /runs/x/F1",
        "the answer to another seed; the epsilon is 1e-5",
        "neither problem nor kernel",
        "streams: one stream at a time",
    ):
        assert part in text, part


def test_what_does_not_fit_is_counted() -> None:
    text = render(audits.audit(ROWS + 20, findings=40))
    assert "and 21 more kernels, all in the JSON report" in text
    assert "and 34 more, all in the JSON report" in text
    assert len(text.encode()) < 12_000_000


def test_an_audit_without_anything() -> None:
    empty = dataclasses.replace(
        audits.audit(0), results=(), oddities=(), powers=(), finished_at="", wall_s=0.0
    )
    text = render(empty)
    assert "<em>0 of 0</em> kernels judged are wrong" in text
    assert "Unfinished" in text
    lost = audits.result(1, ending=Ending.LOST, verdict=None, findings=0)
    assert "LOST" in render(dataclasses.replace(empty, results=(lost,)))


def test_hostile_names_are_escaped() -> None:
    item = dataclasses.replace(audits.item(1), id=samples.NASTY, candidate_name=samples.NASTY)
    result = audits.result(1, item=item)
    text = render(dataclasses.replace(audits.audit(2), results=(result,)))
    assert "<script>alert(1)" not in text
    assert "\x1b" not in text
    assert "onerror=alert(2)>" not in text
