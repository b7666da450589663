"""The HTML report: one small file that needs nothing."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import json
import math
import re

import pytest

from cuassay.cli.sinks import rule
from cuassay.model.outcome import (
    CheckReport,
    ErrorMap,
    Failed,
    Growth,
    GrowthPoint,
    Skipped,
)
from cuassay.model.verdict import AxisCoverage, Timing, Verdict
from cuassay.report.html.svg import budget_bar, error_map_drawing, growth_plot, time_bar
from cuassay.report.html.verdict import render
from tests.support import samples

_LIMIT_BYTES = 300_000
_VERDICTS = [samples.rejected(), samples.accepted(), samples.inconclusive(), samples.nasty()]
_VOID = {"meta", "br", "img", "input", "link", "hr"}


class Balance(html.parser.HTMLParser):
    """Checks that tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("verdict", _VERDICTS)
def test_page_is_well_formed_and_asks_the_network_for_nothing(verdict: Verdict) -> None:
    text = render(verdict)
    page = Balance()
    page.feed(text)
    assert page.open == []
    assert len(text.encode()) < _LIMIT_BYTES
    links = [value for _, name, value in page.attributes if name in ("src", "href", "srcset")]
    assert all(value and value.startswith("#") for value in links)
    assert "style" not in {name for _, name, _ in page.attributes}  # the policy forbids it
    assert "url(" not in text
    assert "@import" not in text


def test_policy_names_the_hashes_of_style_and_script() -> None:
    text = render(samples.rejected())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    for pattern in (r"<style>(.*?)</style>", r"<script>(.*?)</script>"):
        block = re.search(pattern, text, re.DOTALL)
        assert block is not None
        digest = base64.b64encode(hashlib.sha256(block[1].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]


def test_sizes_tried_stand_in_a_section_of_their_own() -> None:
    text = render(samples.rejected())
    assert "<h2>How far the trial looked</h2>" in text
    assert "<summary>tokens: 1, 2, 3, 7, 31, 32, 33 ... 4096 (17 values)</summary>" in text
    assert "4095, 4096</p>" in text
    assert "sizes by check: NUM001 6, SHP001 11" in text
    assert "sizes were tried" not in render(dataclasses.replace(samples.rejected(), coverage=()))
    many = AxisCoverage(axis="n", values=tuple(range(100_000)), checks={})
    page = render(dataclasses.replace(samples.rejected(), coverage=(many,) * 50))
    assert len(page.encode()) < _LIMIT_BYTES
    assert "and 99800 more" in page
    assert "and 10 more axes" in page


def test_page_reads_with_scripts_off() -> None:
    text = re.sub(r"<script.*?</script>", "", render(samples.rejected()), flags=re.DOTALL)
    for part in (
        "REJECTED",
        "Hot rows of grad_embed_weight",
        f"cuassay replay {samples.RUN}/F1",
        "input_ids     = zeros",
        "18.4 times the allowed error",
        "own tolerance",
        "What was not checked",
        "DET001 Run-to-run spread",
        "projected 61 % at 1 000 000",
        'id="F1"',
        'href="#F1"',
        "eps replaced by 2 eps in rms",
        "NVIDIA H200",
        "4 checks passed",
        "read the outputs before the next call",
    ):
        assert part in text
    assert "<button" not in text


def test_checks_explain_themselves_in_the_page() -> None:
    text = render(samples.rejected(), rules=rule)
    assert "<summary>NUM002: Low-precision accumulation" in text
    assert "Can it be wrong?</h3>" in text
    assert len(text.encode()) < _LIMIT_BYTES
    page = Balance()
    page.feed(text)
    assert page.open == []
    assert "What these checks look for" not in render(samples.accepted(), rules=rule)
    assert "What these checks look for" not in render(samples.rejected())


def test_island_holds_the_document() -> None:
    text = render(samples.rejected())
    island = re.search(r'<script type="application/json" id="verdict">(.*?)</script>', text)
    assert island is not None
    assert json.loads(island[1])["findings"][0]["code"] == "NUM002"


def test_page_stays_small_whatever_the_candidate_prints() -> None:
    loud = dataclasses.replace(
        samples.hot_rows(),
        evidence="<&" * 100_000,
        counterexample="x<" * 50_000,
        message="m" * 20_000,
        details=(("<" * 500, "&" * 500),) * 40,
    )
    findings = tuple(dataclasses.replace(loud, id=f"F{n}") for n in range(60))
    check = CheckReport(code="NUM002", title="<" * 9999, outcome=Failed(findings=findings))
    skipped = [
        CheckReport(code=f"X{n}", title="t" * 999, outcome=Skipped(reason="<" * 9999))
        for n in range(20)
    ]
    verdict = dataclasses.replace(samples.rejected(), checks=(check, *skipped))
    assert len(render(verdict).encode()) < _LIMIT_BYTES


def test_error_map_merges_cells_and_shrinks_big_maps() -> None:
    flat = ErrorMap(rows=4, columns=4, cells=(0.1,) * 16, tile=(1, 1), output="y")
    assert error_map_drawing(flat).count("h") >= 4
    cells = [0.0] * (300 * 500)
    cells[-1] = math.nan
    big = ErrorMap(rows=300, columns=500, cells=tuple(cells), tile=(8, 8), output="y")
    drawn = error_map_drawing(big)
    assert len(drawn) < 5000
    assert 'class="z8"' in drawn


def test_growth_plot_needs_two_points() -> None:
    assert growth_plot(samples.growth()).count("<circle") == 9
    bare = dataclasses.replace(samples.growth(), points=samples.growth().points[:1])
    assert growth_plot(bare) == ""
    assert growth_plot(dataclasses.replace(samples.growth(), projected=math.inf)) == ""


def test_growth_plot_copes_with_exact_and_broken_points() -> None:
    points = tuple(
        GrowthPoint(length=length, error=error, trusted=trusted)
        for length, error, trusted in ((1, 1e-9, 0.0), (10, math.nan, 0.0), (100, 1e-9, math.inf))
    )
    growth = Growth(
        axis="n", points=points, exponent=0.0, target=100, projected=1e-9, trusted_exponent=0.0
    )
    assert "trusted" not in re.sub(r'aria-label="[^"]*"', "", growth_plot(growth))


@pytest.mark.parametrize(
    ("share", "tone"),
    [
        (0.0, "good"),
        (0.95, "mid"),
        (1.01, "bad"),
        (1e9, "bad"),
        (math.inf, "bad"),
        (math.nan, "bad"),
    ],
)
def test_budget_bar(share: float, tone: str) -> None:
    drawn = budget_bar(share)
    assert f"fill-{tone}" in drawn
    widths = [float(width) for width in re.findall(r'width="([\d.]+)"', drawn)]
    assert all(0 <= width <= 600 for width in widths)


def test_time_bar_without_time_is_empty() -> None:
    assert time_bar([("build", 0.0)]) == ""
    verdict = dataclasses.replace(samples.accepted(), timing=Timing(total_s=0.0))
    assert "Time and origin" in render(verdict)
