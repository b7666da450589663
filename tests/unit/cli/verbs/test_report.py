"""`cuassay report`: kept runs in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.model.events import EngineStopped, Event
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Verdict
from cuassay.store.runs import RunFolder
from tests.support import audits, samples
from tests.support.folders import kept_audit, kept_verdict


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text("def run(x, weight, eps): return x\n")


def _kept(verdict: Verdict | None, last: Event | None = None) -> str:
    run = RunFolder.create(TrialJob(problem="p", candidate="kernel.py"))
    for event in samples.events(verdict) if verdict is not None else ():
        run.append(event)
    if last is not None:
        run.append(last)
    run.close()
    return run.id


def test_a_run_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run = _kept(samples.told())
    assert main(["report", run]) == 0
    out = capsys.readouterr().out
    assert "cause       Hot rows of grad_embed_weight lose 9 % of their gradient" in out
    assert "REJECTED  kernels/bf16_accumulate.py" in out
    assert main(["report", run, "--verbose"]) == 0
    assert "✗ NUM002" in capsys.readouterr().out
    assert main(["report", "last", "--quiet"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_several_runs_make_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    stop = EngineStopped(exit_code=3, message="no nvcc")
    runs = [_kept(samples.rejected()), _kept(samples.accepted()), _kept(None, stop)]
    assert main(["report", *runs, "--format", "markdown"]) == 0
    assert "## cuassay: 1 REJECTED, 1 NO VERDICT, 1 ACCEPTED" in capsys.readouterr().out
    assert main(["report", *runs, "--format", "sarif"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
    assert main(["report", *runs, "--json"]) == 2
    assert "json holds one trial, got 3" in capsys.readouterr().err


def test_a_run_without_a_verdict_is_said_to_have_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = _kept(None)
    assert main(["report", run]) == 2
    assert "interrupted before its verdict" in capsys.readouterr().err
    assert main(["report", run, "--format", "junit"]) == 0
    assert 'errors="1"' in capsys.readouterr().out
    assert main(["report", "absent"]) == 2


def test_an_audit_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit = audits.audit(3)
    folder = kept_audit(tmp_path / "audit", audit)
    path = folder / audit.results[1].run
    kept_verdict(samples.rejected(), tmp_path / "kernel.py", path=path)
    where = str(folder)
    assert main(["report", where, "--format", "sarif"]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert [r["ruleId"] for r in run["results"]] == ["NUM002", "API002", "SHP001"]
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "kernel.py"
    assert main(["report", where, "--format", "junit=o.xml", "--html", "o.html"]) == 0
    assert "\nAUDIT 20260101" in capsys.readouterr().out
    assert (tmp_path / "o.xml").read_text().count("<testsuite ") == 4
    assert "Every kernel" in (tmp_path / "o.html").read_text()
    assert main(["report", where, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["candidates"]) == 4
    assert main(["report", where, "--format", "agent"]) == 2
