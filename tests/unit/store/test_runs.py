"""Run folders: written as the trial goes, readable whatever ended it."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
from pathlib import Path

import pytest

from cuassay.errors import UnknownNameError, UsageError
from cuassay.model import serial
from cuassay.model.events import EngineStarted
from cuassay.model.jobs import ReplayJob, TrialJob
from cuassay.model.outcome import Finding
from cuassay.model.verdict import Profile
from cuassay.store.runs import RunFolder, last_duration_s, open_run
from tests.support import samples


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text("def run(x): return x\n")
    return path


def _finished(kernel: Path) -> RunFolder:
    run = RunFolder.create(TrialJob(problem="rmsnorm", candidate=str(kernel)))
    for event in samples.events(samples.rejected()):
        run.append(event)
    run.close()
    return run


def test_a_finished_run_reads_back(kernel: Path) -> None:
    run = open_run(_finished(kernel).id)
    assert run.verdict() == samples.rejected()
    assert tuple(run.events()) == samples.events(samples.rejected())
    assert run.findings() == ("F1", "F2", "F3")
    finding = serial.loads(Finding, (run.path / "findings" / "F1.json").read_text())
    assert finding == samples.hot_rows()
    assert finding.scenario == samples.scenario()


def test_the_last_trial_of_the_problem_says_how_long_the_next_takes(kernel: Path) -> None:
    job = TrialJob(problem="rmsnorm", candidate=str(kernel))
    assert last_duration_s(job) is None
    run = _finished(kernel)
    began = (run.path / "job.json").stat().st_mtime
    os.utime(run.path / "verdict.json", (began, began + 12.5))
    RunFolder.create(job).close()  # one that was interrupted says nothing
    assert last_duration_s(job) == pytest.approx(12.5)
    assert last_duration_s(dataclasses.replace(job, candidate="another.py")) is not None
    for other in ({"problem": "swiglu"}, {"profile": Profile.DEEP}, {"device": "cuda"}):
        assert last_duration_s(dataclasses.replace(job, **other)) is None


def test_a_run_of_an_earlier_version_has_no_coverage(kernel: Path) -> None:
    run = open_run(_finished(kernel).id)
    file = run.path / "verdict.json"
    old = json.loads(file.read_text())
    del old["coverage"]
    file.write_text(json.dumps(old))
    assert run.verdict() == dataclasses.replace(samples.rejected(), coverage=())


def test_the_job_keeps_absolute_paths_and_the_drawn_seed(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kernel.parent)
    run = _finished(Path(kernel.name))
    job = open_run(run.id).job()
    assert job.candidate == str(kernel)
    assert job.problem == "rmsnorm"
    assert job.seed == samples.SEED
    assert job.run_dir == str(run.path)


def test_a_line_cut_short_by_a_kill_is_passed_over(kernel: Path) -> None:
    run = _finished(kernel)
    file = run.path / "events.ndjson"
    file.write_bytes(file.read_bytes()[:-40])
    (run.path / "verdict.json").unlink()
    events = tuple(open_run(str(run.path)).events())
    assert len(events) == len(samples.events(samples.rejected())) - 1
    assert isinstance(events[0], EngineStarted)
    assert open_run(run.id).verdict() is None


def test_a_torn_verdict_is_read_from_the_events(kernel: Path) -> None:
    run = _finished(kernel)
    (run.path / "verdict.json").write_text('{"type": "Verd')
    assert open_run(run.id).verdict() == samples.rejected()


def test_bytes_that_are_no_text_do_not_stop_the_reader(kernel: Path) -> None:
    run = _finished(kernel)
    with (run.path / "events.ndjson").open("ab") as file:
        file.write(b"\xff\xfe\n[1, 2]\n" + b'{"type": "Unknown"}\n')
    assert len(tuple(run.events())) == len(samples.events(samples.rejected()))


def test_where_forms(kernel: Path) -> None:
    run = _finished(kernel)
    for where in (run.id, run.id[:17], "last", str(run.path), str(run.path) + "/"):
        assert open_run(where).path == run.path
        assert open_run(where).finding is None
    for where in (f"{run.id}/F2", "last/F2", f"{run.path}/F2", f"{run.path}/findings/F2.json"):
        found = open_run(where)
        assert (found.path, found.finding) == (run.path, "F2")
        assert found.finding_path() == run.path / "findings" / "F2.json"


def test_last_passes_over_replays(kernel: Path) -> None:
    first = _finished(kernel)
    RunFolder.create(ReplayJob(problem="rmsnorm", candidate="kernel.py", finding="F1")).close()
    assert open_run("last").path == first.path


def test_ids_sort_by_time(kernel: Path) -> None:
    ids = [RunFolder.create(TrialJob(problem="p", candidate="k.py")).id for _ in range(3)]
    assert [i[:19] for i in ids] == sorted(i[:19] for i in ids)
    assert len(set(ids)) == 3


def test_unknown_and_ambiguous_names(kernel: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown run 'last'"):
        open_run("last")
    run = _finished(kernel)
    _finished(kernel)
    with pytest.raises(UnknownNameError, match="known: 2"):
        open_run("nope")
    with pytest.raises(UsageError, match="ambiguous"):
        open_run(run.id[:4])
    with pytest.raises(UnknownNameError, match=r"F9.*known: F1, F2, F3"):
        open_run(f"{run.id}/F9")
    with pytest.raises(UsageError, match="is not a run folder"):
        open_run(str(tmp_path))
    for where in ("", "../..", "../x/F1"):
        with pytest.raises(UsageError):
            open_run(where)


def test_a_run_without_its_job_says_so(kernel: Path) -> None:
    run = _finished(kernel)
    (run.path / "job.json").unlink()
    with pytest.raises(UsageError, match=r"no readable job\.json"):
        open_run(run.id).job()
    (run.path / "job.json").write_text("{")
    with pytest.raises(UsageError, match="not valid JSON"):
        open_run(run.id).job()


def test_a_full_disk_is_said_once_and_ends_nothing(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder.create(TrialJob(problem="rmsnorm", candidate=str(kernel)))

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("cuassay.store.runs.os.write", full)
    with caplog.at_level(logging.WARNING, logger="cuassay"):
        for event in samples.events(samples.rejected()):
            run.append(event)
    run.close()
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text


def test_a_short_write_is_carried_on(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder.create(TrialJob(problem="rmsnorm", candidate=str(kernel)))
    write = os.write
    monkeypatch.setattr("cuassay.store.runs.os.write", lambda fd, data: write(fd, data[:100]))
    for event in samples.events(samples.rejected()):
        run.append(event)
    run.close()
    assert tuple(run.events()) == samples.events(samples.rejected())


def test_a_home_that_cannot_be_written_moves_the_run(
    tmp_path: Path,
    kernel: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUASSAY_HOME", str(blocked))
    monkeypatch.setattr("cuassay.store.runs.tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    with caplog.at_level(logging.WARNING, logger="cuassay"):
        run = _finished(kernel)
    assert run.path.parent == tmp_path / "tmp" / "cuassay-runs"
    assert run.verdict() == samples.rejected()
    assert "Set CUASSAY_HOME" in caplog.text


def test_nowhere_to_write_still_ends_nothing(
    tmp_path: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUASSAY_HOME", str(blocked))
    monkeypatch.setattr("cuassay.store.runs.tempfile.gettempdir", lambda: str(blocked))
    run = _finished(kernel)
    assert tuple(run.events()) == ()
    assert run.findings() == ()


def test_a_finding_name_from_outside_makes_no_path(kernel: Path) -> None:
    run = RunFolder.create(TrialJob(problem="rmsnorm", candidate=str(kernel)))
    run._keep_finding(samples.hot_rows(), "../../escape")
    assert not (run.path / "findings").exists()


def test_files_are_the_owners_alone(kernel: Path) -> None:
    run = _finished(kernel)
    assert run.path.stat().st_mode & 0o077 == 0


def test_an_edited_finding_gives_one_clear_error(kernel: Path) -> None:
    run = _finished(kernel)
    path = run.path / "findings" / "F1.json"
    data = json.loads(path.read_text()) | {"surprise": 1}
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match="Finding has no field 'surprise'"):
        serial.loads(Finding, path.read_text())
    assert serial.loads(Finding, (path.parent / "F2.json").read_text()) == samples.held_output()
