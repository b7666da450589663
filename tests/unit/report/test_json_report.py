"""The JSON document keeps to its schema."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuassay.model.diagnosis import Cause
from cuassay.model.events import EngineStopped
from cuassay.model.verdict import Verdict
from cuassay.report.html.verdict import render
from cuassay.report.json_report import document, error_document, stopped_document
from cuassay.report.terminal.trial import story
from tests.support import samples

_DOCS = Path(__file__).resolve().parents[3] / "docs" / "json-schema.md"
_VERDICTS = [samples.rejected(), samples.accepted(), samples.inconclusive(), samples.nasty()]


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in ("environment", "axes", "fills", "by_check", "walls"):
                yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


@pytest.mark.parametrize("verdict", _VERDICTS)
def test_document_is_valid_json(verdict: Verdict) -> None:
    text = json.dumps(document(verdict), allow_nan=False)
    assert json.loads(text)["schema"] == "cuassay/verdict/1"


def test_every_key_is_documented() -> None:
    known = set(re.findall(r"`\.?([a-z_0-9.]+)(?:\[\])?`", _DOCS.read_text()))
    known |= {part for name in known for part in name.split(".")}
    used = set(_keys(document(samples.rejected())))
    used |= set(_keys(error_document("m", kind="usage", exit_code=2, traceback="t")))
    assert used - known == set()


def test_document_of_the_known_story() -> None:
    found = document(samples.rejected())
    assert found["verdict"] == "REJECTED"
    assert [finding["id"] for finding in found["findings"]] == ["F1", "F2", "F3"]
    first = found["findings"][0]
    assert first["finding_class"] == "wrong"
    assert first["share"] == pytest.approx(0.0892 / 0.00486)
    assert first["growth"]["projected"] == 0.61
    assert first["where"]["index"] == [3, 17]
    assert found["timing_s"]["total"] == 9.7
    tokens, hidden = found["coverage"]
    assert (tokens["axis"], len(tokens["values"])) == ("tokens", 17)
    assert hidden["values"] == [16, 4096]
    assert hidden["by_check"] == {"NUM001": 2, "SHP001": 2}
    assert {check["outcome"] for check in found["checks"]} == {
        "passed", "failed", "inconclusive", "skipped",
    }  # fmt: skip


class _Seen(html.parser.HTMLParser):
    """Collects what a reader of a page sees."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def _in_one_line(text: str) -> str:
    """Return a text without its line breaks, and without the marks of rows that go on."""
    return " ".join(re.sub(r"\n\s*#  ", " ", text).split())


_LONG = "y[5, 2434]: got -25.8284, expected -452.493, and the row that the generator made: " * 2


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"cause": Cause.WRONG_VALUES, "words": "wrong numbers: y[5, 7] is 0.52, expected 0.61"},
        {"line": None, "words": "wrong at cols=11 and right at cols=128; " * 4},
        {"example": f"# rms_norm with rows=5\nx = ones(5, 100)\n# {_LONG}"},
    ],
)
def test_document_page_and_terminal_show_one_cause_one_line_and_one_input(
    changed: dict[str, Any],
) -> None:
    made = dataclasses.replace(samples.diagnosis(), **changed)
    verdict = dataclasses.replace(samples.told(), diagnoses=(made,))
    first = document(verdict)["diagnoses"][0]
    terminal = story(verdict, width=80)
    page = _Seen()
    page.feed(render(verdict))
    shown = {
        "terminal": _in_one_line(terminal),
        "page": _in_one_line(" ".join(page.text)),
    }
    parts = [first["words"], *first["smallest_input"].splitlines(), first["remedy"]]
    if first["line"] is not None:
        place = first["line"]
        parts += [f"{place['file']}:{place['line']}", place["text"], place["what"]]
    for form, text in shown.items():
        for part in parts:
            assert _in_one_line(part) in text, (form, part)
    assert all(len(row) <= 80 for row in terminal.splitlines())


def test_numbers_that_json_cannot_hold_are_strings() -> None:
    finding = document(samples.nasty())["findings"][0]
    assert (finding["measured"], finding["allowed"]) == ("Infinity", "NaN")
    assert finding["share"] == "NaN"
    assert math.isinf(float(finding["measured"]))


@pytest.mark.parametrize(("exit_code", "verdict"), [(2, None), (3, "INCONCLUSIVE")])
def test_document_without_a_verdict(exit_code: int, verdict: str | None) -> None:
    seen = samples.events(samples.rejected())[:-1]
    stopped = EngineStopped(exit_code=exit_code, message="no \x1b[31mgood", traceback="")
    found = stopped_document(stopped, seen)
    assert found["verdict"] == verdict
    assert found["error"]["message"] == "no good"
    assert found["exit_code"] == exit_code
    assert len(found["findings"]) == 2
    assert len(found["checks"]) == 8
    assert found["run"] == samples.RUN
