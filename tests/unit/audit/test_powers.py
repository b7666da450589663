"""`cuassay audit --problems-only`: what a benchmark's own inputs and rule let through."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.errors import CannotJudgeError
from cuassay.model.jobs import Job, PowerJob
from cuassay.store import audits as store
from tests.support import trees
from tests.support.snapshot import assert_snapshot


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def _survivor(words: str, kind: str) -> dict[str, Any]:
    return {"words": words, "kind": kind, "class": "O1", "classes": ["O1"], "shown_by": "x"}


def _fake(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    jobs: list[Job] = []

    def document(job: Job, progress: Callable[[str], None], **given: object) -> Mapping[str, Any]:
        jobs.append(job)
        if "broken" in job.problem:
            raise CannotJudgeError("the reference fails")
        alive = [_survivor("an input returned", "trivial answer")] if "weak" in job.problem else []
        return {
            "mutants": 22,
            "equivalent": 2,
            "killed_ours": 20,
            "killed_theirs": 20 - len(alive),
            "survivors_theirs": alive,
        }

    monkeypatch.setattr("cuassay.engine.run.document", document)
    return jobs


def _tree(root: Path) -> str:
    for name in ("weak_norm", "strong_gemm", "broken_scan"):
        trees.sol(root / name, name)
    return str(root)


def test_the_report_and_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _fake(monkeypatch)
    tree = _tree(tmp_path / "t")
    call = ["audit", tree, "--problems-only", "--device", "cpu", "--run", "audit"]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert_snapshot("audit_powers.txt", out)
    assert "[3/3]" in err
    assert all(isinstance(job, PowerJob) and job.isolated for job in jobs)
    assert len({job.seed for job in jobs}) == 3
    assert main([*call, "--json"]) == 0
    assert len(jobs) == 3  # what was measured is not measured again
    powers = {p["problem_name"]: p for p in json.loads(capsys.readouterr().out)["powers"]}
    assert powers["weak_norm"]["trivial"] == ["an input returned"]
    assert powers["broken_scan"]["reason"] == "the reference fails"
    assert len(store.read_audit(tmp_path / "audit").powers) == 3


def test_a_problem_that_changed_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _fake(monkeypatch)
    tree = _tree(tmp_path / "t")
    call = ["audit", tree, "--problems-only", "--device", "cpu", "--run", "audit", "-q"]
    main(call)
    trees.sol(tmp_path / "t" / "weak_norm", "weak_norm", description="changed")
    main(call)
    assert [Path(job.problem).name for job in jobs[3:]] == ["weak_norm"]


def test_filters_and_a_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _fake(monkeypatch)
    tree = _tree(tmp_path / "t")
    assert main(["audit", tree, "--problems-only", "--dry-run", "--only", "*norm"]) == 0
    assert capsys.readouterr().out.startswith("weak_norm  (sol-execbench")
    assert jobs == []
    assert main(["audit", tree, "--problems-only", "--only", "broken*", "--device", "cpu"]) == 3
    assert main(["audit", tree, "--problems-only", "--only", "absent"]) == 2
