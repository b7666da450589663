"""Hostile text against every sink."""

from __future__ import annotations

import html.parser
import io
import json
import re

import pytest
from rich.console import Console

from cuassay.model.verdict import Verdict
from cuassay.report.clean import CAP_BYTES, clean, github_fence, html_text, json_island, one_line
from cuassay.report.html.verdict import render
from cuassay.report.json_report import document
from cuassay.report.terminal.layout import inert
from cuassay.report.terminal.trial import TerminalReport
from tests.support import samples
from tests.support.samples import NASTY

_FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u200b-\u200f]"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mtrue colour", "true colour"),
        ("\x9b31mC1 introducer", "C1 introducer"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2\x1b\\sixel", "sixel"),
        ("\x1b]52;c;cGFzdGU=\x9cclipboard", "clipboard"),
        ("\x1b]unterminated\nnext line", "\nnext line"),
        ("end\x1b", "end"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("tab\tstays", "tab\tstays"),
        ("nul\x00bell\x07", "nul�bell�"),
        ("abc\u202etxt", "abc�txt"),
        ("\ud800", "�"),
        ("\U000e0041tag", "�tag"),
        ("größer ≥ 漢字", "größer ≥ 漢字"),
    ],
)
def test_clean_takes_away_what_a_terminal_obeys(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_clean_is_stable_and_complete() -> None:
    once = clean(NASTY)
    assert clean(once) == once
    assert not _FORBIDDEN.search(once)
    assert "[bold red]markup[/bold red]" in once  # markup is text, not taken away


def test_clean_caps_the_length_and_says_so() -> None:
    text = clean("ä" * CAP_BYTES)
    assert len(text.encode()) < CAP_BYTES + 100
    assert text.endswith(f"[cut at {CAP_BYTES} bytes]")
    assert clean("x" * CAP_BYTES) == "x" * CAP_BYTES


def test_one_line_has_no_line_breaks_and_a_limit() -> None:
    assert one_line(" a\n\n b\t c ") == "a b c"
    assert one_line("x" * 50, limit=10) == "x" * 9 + "…"


def test_html_text_escapes_tags_and_quotes() -> None:
    assert html_text("</script>\"'&") == "&lt;/script&gt;&quot;&#x27;&amp;"


def test_json_island_cannot_end_its_script_element() -> None:
    text = json_island({"a": "</script><!--<script>&"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>&"}


def test_github_fence_switches_commands_off_and_hides_a_guessed_token() -> None:
    first, *body, last = github_fence("::error::x\n::tok::\n::error::y", token="tok").splitlines()
    assert (first, last) == ("::stop-commands::tok", "::tok::")
    assert "::tok::" not in body
    assert github_fence("x") != github_fence("x")


@pytest.mark.parametrize("row", ["::error::x", "  ::add-mask::x", "\t::set-output name=a::b"])
def test_terminal_rows_are_no_workflow_commands(row: str) -> None:
    assert not inert(row).lstrip().startswith("::")
    assert inert("a ##[error]b") == "a # #[error]b"
    assert inert("std::vector") == "std::vector"


def _terminal(verdict: Verdict, *, quiet: bool = False) -> str:
    target = io.StringIO()
    console = Console(file=target, width=100, color_system=None, markup=False, emoji=False)
    report = TerminalReport(console, progress=console, quiet=quiet)
    for event in samples.events(verdict):
        report.consume(event)
    return target.getvalue()


@pytest.mark.parametrize("quiet", [False, True])
def test_terminal_sink(quiet: bool) -> None:
    text = _terminal(samples.nasty(), quiet=quiet)
    assert not _FORBIDDEN.search(text)
    assert "[bold red]markup" in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


def test_json_sink() -> None:
    text = json.dumps(document(samples.nasty()), allow_nan=False, ensure_ascii=False)
    assert not _FORBIDDEN.search(text)
    text.encode()  # no lone surrogates


class _Page(html.parser.HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_html_sink() -> None:
    text = render(samples.nasty())
    page = _Page()
    page.feed(text)
    names = [tag for tag, _ in page.tags]
    assert names.count("script") == 2
    assert "img" not in names
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert not _FORBIDDEN.search(text)
