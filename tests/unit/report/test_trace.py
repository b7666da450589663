"""Verdicts as Traces: their statuses, their figures, and what gives none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from cuassay.cli.main import main
from cuassay.formats import load_problem
from cuassay.model import serial
from cuassay.model.outcome import CheckReport, Failed
from cuassay.model.problem import Problem
from cuassay.model.verdict import BenchmarkRule, Speed, Verdict
from cuassay.oracle.benchmark_rule import largest_errors
from cuassay.report.trace import trace
from tests.support import fake_judge, foreign, samples, trees

_SPEED = Speed(axes={"rows": 3}, candidate_us=10.0, eager_us=25.0)
_RULE = BenchmarkRule(
    accepted=True,
    matched_ratio=1.0,
    required_ratio=0.99,
    atol=0.01,
    rtol=0.01,
    workload="w64",
    max_absolute_error=0.25,
    max_relative_error=0.5,
)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return load_problem(str(foreign.flashinfer(tmp_path)))


def _measured(verdict: Verdict) -> Verdict:
    return dataclasses.replace(verdict, speed=_SPEED, benchmark_rule=_RULE)


def _failing(code: str) -> Verdict:
    base = samples.rejected()
    finding = dataclasses.replace(base.findings[0], code=code)
    report = CheckReport(code=code, title="t", outcome=Failed(findings=(finding,)))
    return dataclasses.replace(_measured(base), checks=(report,))


def test_an_accepted_kernel_passes_with_its_time_and_errors(problem: Problem) -> None:
    line = trace(_measured(samples.accepted()), problem, timestamp="2026-01-01T00:00:00+00:00")
    assert line is not None
    evaluation = line["evaluation"]
    assert evaluation["status"] == "PASSED"
    assert evaluation["performance"] == {
        "latency_ms": 0.01,
        "reference_latency_ms": 0.025,
        "speedup_factor": 2.5,
    }
    assert evaluation["correctness"]["max_absolute_error"] == 0.25
    assert line["workload"] == {
        "uuid": "w64",
        "axes": {"rows": 64},
        "inputs": {"x": {"type": "random"}},
    }
    assert json.loads(json.dumps(line, allow_nan=False)) == line


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("NUM001", "INCORRECT_NUMERICAL"),
        ("STATE001", "INCORRECT_NUMERICAL"),
        ("BUILD001", "COMPILE_ERROR"),
        ("RUN001", "RUNTIME_ERROR"),
        ("RUN003", "RUNTIME_ERROR"),
        ("RUN004", "TIMEOUT"),
        ("RUN005", "RUNTIME_ERROR"),
    ],
)
def test_statuses(code: str, status: str, problem: Problem) -> None:
    line = trace(_failing(code), problem, timestamp="t")
    assert line is not None
    assert line["evaluation"]["status"] == status
    assert (line["evaluation"]["correctness"] is None) == (status != "INCORRECT_NUMERICAL")
    assert line["evaluation"]["performance"] is None


def test_what_was_not_measured_gives_no_line(problem: Problem) -> None:
    accepted = _measured(samples.accepted())
    assert trace(dataclasses.replace(accepted, speed=None), problem, timestamp="t") is None
    assert trace(dataclasses.replace(accepted, benchmark_rule=None), problem, timestamp="t") is None
    assert trace(samples.inconclusive(), problem, timestamp="t") is None


def test_hostile_names_stay_text(problem: Problem) -> None:
    line = trace(_measured(samples.nasty()), problem, timestamp="t")
    assert "\\u001b" not in json.dumps(line)


def test_the_largest_errors() -> None:
    got, want = torch.tensor([1.0, 2.5, torch.inf]), torch.tensor([1.0, 2.0, 3.0])
    absolute, relative = largest_errors(got, want) or (0.0, 0.0)
    assert absolute == 0.5
    assert relative == pytest.approx(0.25)
    assert largest_errors(got, want[:2]) is None
    assert largest_errors(got[:0], want[:0]) == (0.0, 0.0)


def test_an_audit_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    fake_judge.install(monkeypatch)
    definition = foreign.flashinfer(tmp_path / "t")
    folder = tmp_path / "t" / "solutions" / "a" / "elementwise" / "scale_h8"
    foreign.flashinfer_solution(folder / "s1.json", "# reject\n")
    kept = serial.dumps(load_problem(str(definition)))
    call = ["audit", str(tmp_path / "t"), "--device", "cpu", "--run", str(tmp_path / "a"), "-q"]
    main(call)
    for run in (tmp_path / "a" / "candidates").iterdir():  # which the real judge writes
        trees.write(run / "problem.json", kept)
        verdict = serial.loads(Verdict, (run / "verdict.json").read_text())
        (run / "verdict.json").write_text(serial.dumps(_measured(verdict)))
    assert main([*call, "--traces", str(tmp_path / "t.jsonl")]) in (0, 1)
    assert "1 traces" in capsys.readouterr().err
    line = json.loads((tmp_path / "t.jsonl").read_text())
    assert (line["definition"], line["solution"]) == ("scale_h8", "s1")
