"""A judge stays for the next candidate of the same problem, and for nothing else."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from cuassay.engine.judge_process import JudgeProcess
from cuassay.engine.kept_judge import KeptJudge
from cuassay.model.device import CPU
from cuassay.model.events import Document, EngineFinished, EngineStopped, Event
from cuassay.model.jobs import ShowJob, TrialJob
from tests.support import samples

_VERDICT = EngineFinished(verdict=samples.accepted())


@pytest.fixture
def job(tmp_path: Path) -> TrialJob:
    (tmp_path / "problem").mkdir()
    (tmp_path / "problem" / "reference.py").write_text("first")
    return TrialJob(problem=str(tmp_path / "problem"), candidate="a.py", device=CPU)


def _after(job: TrialJob, last: Event | None = _VERDICT) -> tuple[KeptJudge, Mock]:
    kept, judge = KeptJudge(), Mock()
    judge.goes_on.return_value = True
    assert kept.take(job) is None
    kept.keep(judge, last)
    return kept, judge


def test_another_candidate_of_the_problem_has_the_judge(job: TrialJob) -> None:
    kept, judge = _after(job)
    other = dataclasses.replace(job, candidate="b.py", seed=7)
    assert kept.fits(other)
    assert kept.take(other) is judge
    assert not kept.fits(other)  # it is at work
    judge.retire.assert_not_called()


@pytest.mark.parametrize(
    "changes",
    [
        {"problem": "rmsnorm"},
        {"device": "cuda"},
        {"strict": True},
        {"hide": ("/elsewhere",)},
        {"within": ("/elsewhere",)},
        {"no_sandbox": True},
        {"arch": "sm_100"},
        {"recorded": "/calls"},
        {"problem": "package.module:reference"},
    ],
)
def test_what_a_judge_cannot_change_needs_another_one(
    job: TrialJob, changes: dict[str, object]
) -> None:
    kept, judge = _after(job)
    assert kept.take(dataclasses.replace(job, **changes)) is None  # type: ignore[arg-type]
    judge.retire.assert_called_once()


@pytest.mark.parametrize("name", ["reference.py", "workload.jsonl"])
def test_a_problem_whose_files_changed_needs_another_judge(job: TrialJob, name: str) -> None:
    kept, judge = _after(job)
    Path(job.problem, name).write_text("changed since")
    assert kept.take(job) is None
    judge.retire.assert_called_once()


def test_code_beside_the_file_of_a_problem_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text("import helper")
    (tmp_path / "helper.py").write_text("first")
    job = TrialJob(problem=str(tmp_path / "problem.py"), candidate="a.py")
    kept, judge = _after(job)
    (tmp_path / "helper.py").write_text("changed since")
    assert kept.take(job) is None
    judge.retire.assert_called_once()


def test_a_judge_reads_relative_paths_from_its_own_folder_and_keeps_its_settings(
    job: TrialJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, judge = _after(job)
    monkeypatch.setenv("CUASSAY_SANDBOX", "off")
    assert not kept.fits(job)
    monkeypatch.delenv("CUASSAY_SANDBOX")
    assert kept.fits(job)
    monkeypatch.chdir(tmp_path)  # `a.py` is another file here
    assert kept.take(job) is None
    judge.retire.assert_called_once()


def test_code_below_the_folder_of_a_problem_counts_and_the_kernel_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.py").write_text("from ops.ref import f")
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "ref.py").write_text("first")
    (tmp_path / "kernel.py").write_text("first")
    job = TrialJob(problem=str(tmp_path / "problem.py"), candidate="kernel.py")
    kept, _ = _after(job)
    (tmp_path / "kernel.py").write_text("changed since")
    assert kept.fits(job)
    (tmp_path / "ops" / "ref.py").write_text("changed since")
    assert not kept.fits(job)


def test_a_judge_that_does_not_go_on_is_let_go(job: TrialJob) -> None:
    kept, judge = _after(job)
    judge.goes_on.return_value = False
    assert kept.take(job) is None
    judge.retire.assert_called_once()


def test_a_trial_without_a_verdict_ends_its_judge(job: TrialJob) -> None:
    kept, judge = _after(job, EngineStopped(exit_code=3, message="the reference fails"))
    judge.retire.assert_called_once()
    assert kept.take(job) is None
    kept, judge = _after(job, None)  # nobody knows what it does
    judge.stop.assert_called_once()
    assert kept.take(job) is None


def test_closing_ends_the_judge(job: TrialJob) -> None:
    kept, judge = _after(job)
    kept.close()
    judge.stop.assert_called_once()


def test_a_process_does_one_job_after_another_and_ends_when_it_is_let_go() -> None:
    judge = JudgeProcess(log=None, stays=True)
    for name in ("rmsnorm", "swiglu"):
        judge.submit(ShowJob(problem=name))
        (said,) = [event for event in _until_document(judge) if isinstance(event, Document)]
        assert json.loads(said.text)["name"] == name
        assert judge.goes_on(120.0)
    assert judge.alive
    judge.retire()
    assert judge._process.wait(timeout=120.0) == 0


def _until_document(judge: JudgeProcess) -> list[Event]:
    found: list[Event] = []
    for event in judge.events():
        found.append(event)
        if isinstance(event, Document | EngineStopped):
            break
    return found
