"""The JSON document keeps to its schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuassay.model.events import EngineStopped
from cuassay.model.verdict import Verdict
from cuassay.report.json_report import document, error_document, stopped_document
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
