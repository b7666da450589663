"""`cuassay problem power` over a fake engine: what is printed, what is listed, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.errors import CannotJudgeError, ProblemError
from cuassay.model.device import CPU
from cuassay.model.jobs import PowerJob
from cuassay.model.verdict import Profile


def _row(words: str, killed_by: str, why: str = "") -> dict[str, Any]:
    named = {"words": words, "kind": "shift", "class": "N10", "classes": ["N10"]}
    return named | {"shown_by": "values beyond 88", "killed_by": killed_by, "why": why}


_COUNTS = {"mutants": 10, "equivalent": 2, "killed_ours": 7, "killed_theirs": 3}
_FOUND: dict[str, Any] = {
    "problem": "rms\x1b[31mnorm",
    "profile": "quick",
    "device": "cpu",
    **_COUNTS,
    "survivors": [_row("no maximum subtracted in `soft\x07max`", "outliers on rows=13")],
    "survivors_theirs": [
        _row("tanh left out", "large on rows=13"),
        _row("epsilon left out", "", "the search stopped after 60 s"),
    ],
    "equivalents": [],
    "by_kind": [{"kind": "shift", "words": "no shift", "classes": ["N10"], **_COUNTS}],
    "by_class": [{"class": "N10", **_COUNTS}],
    "cases": {"full": 40, "covering": 2, "labels": ["normal on rows=4", "cap moved"]},
    "regimes": {"chosen": ["normal", "small"], "mutants": 10, "killed": 7},
    "seed": 5,
    "time_s": 1.5,
}


class Engine:
    def __init__(self, found: Mapping[str, Any] = _FOUND, error: Exception | None = None) -> None:
        self.found, self.error, self.jobs = found, error, list[PowerJob]()

    def document(self, job: PowerJob, progress: Callable[[str], None]) -> Mapping[str, Any]:
        self.jobs.append(job)
        progress("half way")
        if self.error is not None:
            raise self.error
        return self.found


def install(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Engine:
    monkeypatch.setattr("cuassay.engine.run.document", engine.document)
    return engine


def test_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, Engine())
    assert main(["problem", "power", "rmsnorm"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "7 of 8 broken versions of the reference (88 %)" in out
    assert "3 of 8 broken versions" in out
    assert "2 more are equivalent" in out
    assert "N10  no maximum subtracted" in out
    assert "told apart by: outliers on rows=13" in out
    assert "Fewest cases at equal power: 2 of 40" in out
    assert "run first: normal, small" in out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_the_benchmarks_survivors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, Engine())
    assert main(["problem", "power", "rmsnorm", "--inputs", "theirs"]) == 0
    out = capsys.readouterr().out
    assert "Survivors of the benchmark's inputs and rule (2):" in out
    assert "inputs that would show it: values beyond 88 (the search stopped after 60 s)" in out


def test_one_json_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = install(monkeypatch, Engine())
    arguments = ["problem", "power", "p.py", "--json", "--inputs", "theirs", "--profile", "quick"]
    assert main([*arguments, "--device", "cpu", "--seed", "5", "--strict"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["inputs"] == "theirs"
    assert [one["words"] for one in found["survivors"]] == ["tanh left out", "epsilon left out"]
    assert "survivors_theirs" not in found
    assert {key: found[key] for key in _COUNTS} == _COUNTS
    (job,) = engine.jobs
    assert job == PowerJob(problem="p.py", profile=Profile.QUICK, device=CPU, seed=5, strict=True)


def test_nothing_survives_and_nothing_of_theirs_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"class": "N10", **_COUNTS, "killed_theirs": None}
    found = {**_FOUND, "survivors": [], "killed_theirs": None, "by_class": [row], "equivalent": 0}
    install(monkeypatch, Engine(found))
    assert main(["problem", "power", "rmsnorm"]) == 0
    out = capsys.readouterr().out
    assert "No broken version survives cuassay's inputs." in out
    assert "rule: not measured" in out
    assert "equivalent: no legal" not in out


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(ProblemError("no such problem"), 2), (CannotJudgeError("the reference fails"), 3)],
)
def test_failures(
    error: Exception,
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(monkeypatch, Engine(error=error))
    assert main(["problem", "power", "rmsnorm", "--json"]) == exit_code
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["message"] == str(error)
    assert err == f"cuassay: {error}\n"


@pytest.mark.parametrize(
    "arguments",
    [["--inputs", "both"], ["--profile", "slow"], ["--device", "tpu"], ["--seed", "-1"]],
)
def test_a_mistake_in_the_call(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = install(monkeypatch, Engine())
    assert main(["problem", "power", "rmsnorm", *arguments]) == 2
    assert engine.jobs == []
