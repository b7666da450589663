"""SARIF: valid, within limits, and one alert a place."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cuassay import __version__
from cuassay.cli.sinks import rule
from cuassay.model.candidate import SourceFile
from cuassay.model.outcome import CheckReport, Failed
from cuassay.report import github
from cuassay.report.judged import Judged
from cuassay.report.sarif import RESULTS, sarif
from tests.support import samples
from tests.support.judged import SOURCE, judged_kernel, of_findings

_SCHEMA = Path(__file__).parents[2] / "data" / "sarif" / "sarif-2.1.0-rtm.4.json"


def _log(*trials: Judged) -> dict[str, object]:
    found = sarif(trials, rules=rule, version=__version__)
    jsonschema.validate(found, json.loads(_SCHEMA.read_text()))
    return found


@pytest.mark.parametrize(
    ("site", "address"),
    [
        ("https://docs.example/cuassay/", "https://docs.example/cuassay/checks/NUM002/"),
        ("", None),
        ("javascript:alert(1)//", None),
    ],
)
def test_a_rule_leads_to_its_page_where_a_site_is_known(
    site: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_DOCS", site)
    log: Any = _log(judged_kernel(samples.rejected()))
    (known,) = [r for r in log["runs"][0]["tool"]["driver"]["rules"] if r["id"] == "NUM002"]
    assert known.get("helpUri") == address


def test_sarif_without_a_verdict_is_no_clean_result() -> None:
    log = _log(judged_kernel(None, stopped="no nvcc"), judged_kernel(samples.inconclusive()))
    invocation = log["runs"][0]["invocations"][0]  # type: ignore[index]
    assert invocation["executionSuccessful"] is False
    levels = [note["level"] for note in invocation["toolExecutionNotifications"]]
    assert levels.count("error") == 2


def test_sarif_keeps_what_github_keeps_and_says_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert RESULTS == 5000
    monkeypatch.setattr("cuassay.report.sarif.RESULTS", 50)
    run = _log(judged_kernel(of_findings(57)))["runs"][0]  # type: ignore[index]
    assert len(run["results"]) == 50
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert any("7 more results" in note["message"]["text"] for note in notes)
    prints = {result["partialFingerprints"]["cuassay/v1"] for result in run["results"]}
    assert len(prints) == 50


def test_one_place_is_one_alert_and_one_annotation() -> None:
    found = tuple(dataclasses.replace(samples.hot_rows(), id=f"F{n}") for n in range(20))
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=found))
    trial = judged_kernel(dataclasses.replace(samples.rejected(), checks=(check,)))
    (result,) = _log(trial)["runs"][0]["results"]  # type: ignore[index]
    assert result["occurrenceCount"] == 20
    (line,) = github.annotate([trial]).splitlines()
    assert line.startswith("::error file=kernels/kernel.py,line=4,")


def test_an_alert_stays_the_same_when_lines_move() -> None:
    def fingerprints(source: str, line: int) -> list[str]:
        trial = judged_kernel(samples.rejected())
        assert trial.candidate is not None
        moved = (SourceFile(path="kernel.py", text=source),)
        trial = dataclasses.replace(
            trial, candidate=dataclasses.replace(trial.candidate, sources=moved)
        )
        finding = dataclasses.replace(samples.hot_rows(), evidence=f"kernel.py:{line}: error")
        check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=(finding,)))
        verdict = dataclasses.replace(samples.rejected(), checks=(check,))
        run = _log(dataclasses.replace(trial, verdict=verdict))["runs"][0]  # type: ignore[index]
        return [r["partialFingerprints"]["cuassay/v1"] for r in run["results"]]

    assert fingerprints(SOURCE, 9) == fingerprints("# new\n" + SOURCE, 10)
    assert fingerprints(SOURCE, 9) != fingerprints(SOURCE, 5)


def test_fingerprints_outlive_seed_run_and_other_lines() -> None:
    first = samples.rejected()
    moved = judged_kernel(dataclasses.replace(first, seed=1, run="other", digest="0" * 64))
    prints = [
        [r["partialFingerprints"] for r in _log(trial)["runs"][0]["results"]]  # type: ignore[index]
        for trial in (judged_kernel(first), moved)
    ]
    assert prints[0] == prints[1]


def test_candidate_text_makes_no_sarif_link() -> None:
    finding = dataclasses.replace(samples.hot_rows(), message="see [here](http://evil.example)")
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=(finding,)))
    text = json.dumps(_log(judged_kernel(dataclasses.replace(samples.rejected(), checks=(check,)))))
    assert "](" not in re.sub(r'"help": \{.*?\}', "", text)
