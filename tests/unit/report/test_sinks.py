"""SARIF, JUnit, GitHub, Markdown and agent forms: valid, within limits, and never obeyed."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from cuassay import __version__
from cuassay.checks.registry import codes
from cuassay.cli.sinks import rule
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.outcome import CheckReport, Errored, Failed, Finding, FindingClass
from cuassay.model.verdict import Decision, Verdict
from cuassay.report import advice, github, markdown
from cuassay.report.agent import agent_document
from cuassay.report.judged import Judged, line_shown
from cuassay.report.junit import junit
from cuassay.report.sarif import RESULTS, sarif
from tests.support import samples
from tests.support.snapshot import assert_snapshot

_ROOT = Path("/repository")
_SOURCE = "import torch\n\n\ndef run(x):\n    return helper(x)\n\n\ndef helper(x):\n    raise x\n"
_SCHEMA = Path(__file__).parents[2] / "data" / "sarif" / "sarif-2.1.0-rtm.4.json"
_VERDICTS = {
    "accepted": samples.accepted(),
    "rejected": samples.rejected(),
    "inconclusive": samples.inconclusive(),
    "nasty": samples.nasty(),
}


def _judged(verdict: Verdict | None = None, **changes: object) -> Judged:
    candidate = Candidate(
        name="kernel",
        sources=(SourceFile(path="kernel.py", text=_SOURCE),),
        entry_file="kernel.py",
        entry_function="run",
        origin=_ROOT / "kernels" / "kernel.py",
    )
    made = Judged(path="kernels/kernel.py", root=_ROOT, verdict=verdict, candidate=candidate)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def _many(number: int) -> Verdict:
    """Return a verdict with as many findings of their own: conditions, which no cause joins."""
    finding = dataclasses.replace(samples.hot_rows(), finding_class=FindingClass.UNSAFE)
    found = tuple(
        dataclasses.replace(
            finding,
            id=f"F{n}",
            title=f"t{n}",
            where=dataclasses.replace(finding.where, output=f"y{n}"),
        )
        for n in range(number)
    )
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=found))
    return dataclasses.replace(samples.rejected(), checks=(check,))


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
    log: Any = _log(_judged(samples.rejected()))
    (known,) = [r for r in log["runs"][0]["tool"]["driver"]["rules"] if r["id"] == "NUM002"]
    assert known.get("helpUri") == address


@pytest.mark.parametrize("name", _VERDICTS)
def test_every_form_of_every_verdict(name: str) -> None:
    trial = _judged(_VERDICTS[name])
    log = _log(trial)
    for known in log["runs"][0]["tool"]["driver"]["rules"]:  # type: ignore[index]
        known["help"] = {"text": "(the page of the check)"}  # kept by the registry's own tests
    assert_snapshot(f"sink_{name}.sarif", json.dumps(log, indent=1, ensure_ascii=False))
    assert_snapshot(f"sink_{name}.junit.xml", junit([trial]))
    assert_snapshot(f"sink_{name}.github.txt", github.log([trial], token="TOKEN"))
    assert_snapshot(f"sink_{name}.md.txt", markdown.markdown([trial]))
    agent = json.dumps(agent_document(_VERDICTS[name]), indent=1, ensure_ascii=False)
    assert_snapshot(f"sink_{name}.agent.json", agent)


def test_sarif_without_a_verdict_is_no_clean_result() -> None:
    log = _log(_judged(None, stopped="no nvcc"), _judged(samples.inconclusive()))
    invocation = log["runs"][0]["invocations"][0]  # type: ignore[index]
    assert invocation["executionSuccessful"] is False
    levels = [note["level"] for note in invocation["toolExecutionNotifications"]]
    assert levels.count("error") == 2


def test_sarif_keeps_what_github_keeps_and_says_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert RESULTS == 5000
    monkeypatch.setattr("cuassay.report.sarif.RESULTS", 50)
    run = _log(_judged(_many(57)))["runs"][0]  # type: ignore[index]
    assert len(run["results"]) == 50
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert any("7 more results" in note["message"]["text"] for note in notes)
    prints = {result["partialFingerprints"]["cuassay/v1"] for result in run["results"]}
    assert len(prints) == 50


def test_one_place_is_one_alert_and_one_annotation() -> None:
    found = tuple(dataclasses.replace(samples.hot_rows(), id=f"F{n}") for n in range(20))
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=found))
    trial = _judged(dataclasses.replace(samples.rejected(), checks=(check,)))
    (result,) = _log(trial)["runs"][0]["results"]  # type: ignore[index]
    assert result["occurrenceCount"] == 20
    (line,) = github.annotate([trial]).splitlines()
    assert line.startswith("::error file=kernels/kernel.py,line=4,")


def test_an_alert_stays_the_same_when_lines_move() -> None:
    def fingerprints(source: str, line: int) -> list[str]:
        trial = _judged(samples.rejected())
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

    assert fingerprints(_SOURCE, 9) == fingerprints("# new\n" + _SOURCE, 10)
    assert fingerprints(_SOURCE, 9) != fingerprints(_SOURCE, 5)


def test_fingerprints_outlive_seed_run_and_other_lines() -> None:
    first = samples.rejected()
    moved = _judged(dataclasses.replace(first, seed=1, run="other", digest="0" * 64))
    prints = [
        [r["partialFingerprints"] for r in _log(trial)["runs"][0]["results"]]  # type: ignore[index]
        for trial in (_judged(first), moved)
    ]
    assert prints[0] == prints[1]


def test_candidate_text_makes_no_sarif_link() -> None:
    finding = dataclasses.replace(samples.hot_rows(), message="see [here](http://evil.example)")
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=(finding,)))
    text = json.dumps(_log(_judged(dataclasses.replace(samples.rejected(), checks=(check,)))))
    assert "](" not in re.sub(r'"help": \{.*?\}', "", text)


@pytest.mark.parametrize(
    ("evidence", "line", "exact"),
    [
        ('File "/tmp/x/kernel.py", line 5, in run\nFile "/tmp/x/kernel.py", line 9', 9, True),
        ("kernel.py(4): error: expected ;\nkernel.py(5): error", 4, True),
        ("/tmp/build/kernel.py:8:3: error", 8, True),
        ('File "/usr/lib/torch/nn.py", line 5', 4, False),
        ('File "kernel.py", line 9999', 4, False),
        ("notkernel.py(5)", 4, False),
        ("", 4, False),
    ],
)
def test_the_line_is_the_evidence_s_or_the_definition_s(
    evidence: str, line: int, exact: bool
) -> None:
    finding = dataclasses.replace(samples.hot_rows(), evidence=evidence)
    found = line_shown(finding, _judged(samples.rejected()))
    assert (found.path, found.line, found.exact) == ("kernels/kernel.py", line, exact)


def test_the_line_of_a_sanitizer_or_of_the_machine() -> None:
    trial = _judged(samples.rejected())
    found = dataclasses.replace(samples.hot_rows(), evidence='File "kernel.py", line 9')
    told = dataclasses.replace(found, message="memcheck: read of 4 bytes in f (kernel.py:5)")
    assert line_shown(told, trial).line == 5
    told = dataclasses.replace(found, details=(("access", "load"), ("/b/src/kernel.py:8", "x")))
    assert line_shown(told, trial).line == 8
    assert line_shown(found, trial).line == 9


def test_a_solution_file_stands_for_the_sources_inside_it() -> None:
    trial = _judged(samples.rejected())
    assert trial.candidate is not None
    origin = _ROOT / "set" / "solution.json"
    trial = dataclasses.replace(
        trial, candidate=dataclasses.replace(trial.candidate, origin=origin)
    )
    found = line_shown(samples.hot_rows(), trial)
    assert (found.path, found.line) == ("set/solution.json", 1)
    outside = _judged(None, candidate=None, path="/else/k.py", stopped="x")
    uri = outside.name
    assert uri == "/else/k.py"


def test_junit_counts_and_never_turns_an_open_verdict_into_a_pass() -> None:
    broken = CheckReport(code="X1", title="t", outcome=Errored(reason="boom", traceback="t\x1b[1m"))
    verdict = dataclasses.replace(
        samples.inconclusive(), checks=(*samples.inconclusive().checks, broken)
    )
    root = ElementTree.fromstring(junit([_judged(verdict), _judged(None, stopped="no torch")]))
    assert [suite.get("errors") for suite in root] == ["2", "1"]
    assert root.get("errors") == "3"
    assert "no verdict: no torch" in junit([_judged(None, stopped="no torch")])
    accepted = ElementTree.fromstring(junit([_judged(samples.accepted())]))
    assert (accepted.get("failures"), accepted.get("errors")) == ("0", "0")


def test_annotations_stay_below_githubs_limit_and_count_the_rest() -> None:
    lines = github.annotate([_judged(_many(50))]).splitlines()
    assert len(lines) == 9
    assert lines[-1] == "::notice title=cuassay::42 more findings are in the job summary"
    assert all(line.startswith("::warning file=kernels/kernel.py,line=4,") for line in lines[:-1])


def test_only_our_own_commands_reach_the_runner() -> None:
    text = github.log([_judged(samples.nasty())], token="T")
    outside = re.sub(r"::stop-commands::T\n.*?\n::T::", "", text, flags=re.DOTALL)
    commands = [line for line in outside.splitlines() if line.lstrip().startswith("::")]
    assert commands
    assert all(re.match(r"::(error|warning|notice) (file|title)=", line) for line in commands)
    assert "::add-mask::" not in "\n".join(line[:20] for line in commands)
    assert "##[" not in text


def test_markdown_text_is_inert() -> None:
    got = markdown.text("**b** @org/team #12 GH-7 [a](http://e.x) <img> www.e.x `c` | ~~s~~")
    assert got == (
        r"\*\*b\*\* @​org/team \#​12 GH\-​7 \[a\]\(http:​//e.x\) &lt;img&gt; www​.e.x \`c\` \| "
        r"\~\~s\~\~"
    )
    assert markdown.fenced("a\n````\nb").startswith("`````\n")


def test_markdown_stays_within_its_limit_and_says_so() -> None:
    trials = [_judged(samples.rejected(), path=f"k{n}.py", candidate=None) for n in range(900)]
    text = markdown.markdown(trials)
    assert len(text.encode()) <= markdown.COMMENT_CHARACTERS
    assert re.search(r"\d+ more kernels", text)
    assert text.startswith(markdown.MARKER)
    assert len(github.summary(trials).encode()) <= markdown.SUMMARY_BYTES


def test_the_agent_is_told_nothing_to_cheat_by() -> None:
    verdict = samples.rejected()
    text = json.dumps(agent_document(verdict))
    rule_, power = verdict.benchmark_rule, verdict.power
    assert rule_ is not None
    assert power is not None
    passing = next(c for c in verdict.checks if c.code == "NUM001")
    assert passing.outcome.share == 0.73  # type: ignore[union-attr]
    for secret in (
        str(verdict.seed),
        str(samples.hot_rows().allowed),
        str(samples.hot_rows().measured),
        power.survivors[0],
        rule_.workload,
        "4095",
        "0.73",
        "73 %",
        "DET001",  # what was not decided
        "1000000",
    ):
        assert secret not in text, secret
    for told in ("zeros(tokens, int64)", "keep running sums in float32", "cuassay replay"):
        assert told in text


def test_advice_names_codes_that_exist_and_serves_the_others() -> None:
    assert set(advice._BY_CODE) <= set(codes())
    assert set(codes()) <= set(advice._BY_CODE), "say in report/advice.py what to try"
    assert all(advice.advice(code) for code in ("NEW999", "MEM999", "run", ""))


def test_an_undecided_verdict_is_no_pass_for_an_agent() -> None:
    found = agent_document(samples.inconclusive())
    assert found["verdict"] == Decision.INCONCLUSIVE.value
    assert found["undecided"]
    bare: Finding = dataclasses.replace(samples.hot_rows(), counterexample="", growth=None)
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=(bare,)))
    told = agent_document(dataclasses.replace(samples.rejected(), checks=(check,)))
    assert told["findings"][0]["input"].startswith("tokens=258")
