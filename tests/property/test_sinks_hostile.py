"""Whatever a candidate prints: every sink stays well formed and obeys none of it."""

from __future__ import annotations

import dataclasses
import functools
import html.parser
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from tests.support import audits, samples

from cuassay.model.outcome import CheckReport, Failed
from cuassay.model.verdict import Verdict
from cuassay.report import github, markdown
from cuassay.report.agent import agent_document
from cuassay.report.html.audit import render as render_audit
from cuassay.report.html.verdict import render
from cuassay.report.judged import Judged
from cuassay.report.junit import junit
from cuassay.report.rules import Rule
from cuassay.report.sarif import sarif

_PIECES = (
    "::error::", "\n::add-mask::x", "\r::set-output name=a::b", "%0A::debug::", "##[error]",
    "</script><script>alert(1)</script>", "<!--", "-->", "<![CDATA[", "]]>", "<img src=x>",
    "\x1b[31m", "\x1b]8;;http://e.x\x07", "\x9b2J", "\x00", "\ud800", "\ufffe", "\u202e", "\x85",
    "@everyone", "#1", "GH-1", "https://e.x", "[a](b)", "![a](b)", "`", "````", "|", "\n```\n",
    "'", '"', "&lt;", "&", "%", ":", ",", "{0}", "\\", "\t", " ", "é", "𝄞",
)  # fmt: skip
_TEXT = st.lists(st.sampled_from(_PIECES) | st.text(max_size=6), max_size=12).map("".join)


def _hostile(text: str) -> Verdict:
    finding = dataclasses.replace(
        samples.hot_rows(),
        message=text,
        title=text,
        statistic=text,
        counterexample=text,
        evidence=text,
        reproduce=text,
        where=dataclasses.replace(samples.hot_rows().where, output=text, got=text, group=text),
    )
    check = CheckReport(code="NUM002", title=text, outcome=Failed(findings=(finding,)))
    return dataclasses.replace(
        samples.rejected(),
        reason=text,
        candidate=text,
        problem=text,
        conditions=(text,),
        checks=(check,),
        environment={"device": text},
    )


def _judged(text: str) -> Judged:
    return Judged(path="k.py", root=Path("/r"), verdict=_hostile(text), stopped=text)


@given(_TEXT)
def test_xml_and_json_can_be_read(text: str) -> None:
    root = ElementTree.fromstring(junit([_judged(text)]))
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "testcase", "properties", "property", "failure", "error",
        "skipped", "system-out",
    }  # fmt: skip
    log = json.dumps(sarif([_judged(text)], rules=_rule, version="0"))
    json.loads(log)
    messages = re.findall(r'"text": "((?:[^"\\]|\\.)*)"', log)
    assert not any("](" in message for message in messages)
    json.loads(json.dumps(agent_document(_hostile(text)), allow_nan=False))
    assert "\x1b" not in log


@functools.cache
def _rule(code: str) -> Rule:
    return Rule(code=code, title=code)


@given(_TEXT)
def test_only_our_own_workflow_commands_are_outside_the_fence(text: str) -> None:
    log = github.log([_judged(text)], token="T" * 32)
    fence = "T" * 32
    assert log.count(f"::stop-commands::{fence}") == 1
    outside = re.sub(rf"::stop-commands::{fence}\n.*?\n::{fence}::", "", log, flags=re.DOTALL)
    for line in outside.splitlines():
        assert not line or re.match(r"::(error|warning|notice) (file|title)=", line), line
    assert "##[" not in log


@given(_TEXT)
def test_markdown_holds_no_markup_of_the_candidate(text: str) -> None:
    written = markdown.text(text)
    assert "<" not in written.replace("&lt;", "")
    assert "\n" not in written
    bare = re.sub(r"\\.", "", written)
    assert not re.search(r"[`*_\[\]|#]", bare)
    assert not re.search(r"@(?!\u200b)", written)
    assert "://" not in written
    block = markdown.fenced(text)
    fence = block.splitlines()[0]
    assert [line for line in block.splitlines()[1:] if line.strip() == fence] == [fence]


class _Tags(html.parser.HTMLParser):
    """Collects the tags and attributes that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.scripts = 0
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]


@given(_TEXT)
def test_pages_hold_no_element_of_the_candidate(text: str) -> None:
    item = dataclasses.replace(
        audits.item(1), id=text, candidate_name=text, problem_name=text, author=text, family=text
    )
    finding = audits.finding(0, message=text, title=text, classes=(text,), code=text)
    result = dataclasses.replace(
        audits.result(1, item=item, reason=text, run=text), findings=(finding,)
    )
    audit = dataclasses.replace(audits.audit(0), results=(result, audits.result(2)))
    pages: dict[str, Any] = {
        render(_hostile(text)): 2,
        render_audit(audit): 3,
        render_audit(audit, runs="/s/run/"): 3,
    }
    for page, scripts in pages.items():
        seen = _Tags()
        seen.feed(page)
        assert seen.scripts == scripts
        assert not seen.tags & {"img", "iframe", "object", "link", "base"}
        assert seen.handlers == []
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", page)
