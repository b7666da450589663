"""The driver's side: what a user sees whatever becomes of the judge."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.engine.run import check, replay, show_problem
from cuassay.errors import UsageError
from cuassay.model.device import CPU
from cuassay.model.events import EngineFinished, EngineStarted, EngineStopped, Event
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision, Profile, Verdict
from cuassay.sandbox import processes
from cuassay.store.runs import open_run

_GOOD = """
import torch
def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
"""
_BAD = _GOOD.replace("weight, eps)\n", "weight, eps * 100)\n", 2).replace(
    "def run(x, weight, eps * 100)", "def run(x, weight, eps)"
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


def _kernel(folder: Path, text: str) -> Path:
    path = folder / "kernel.py"
    path.write_text(text)
    return path


def _job(kernel: Path | str, **changes: object) -> TrialJob:
    job = TrialJob(problem="rmsnorm", candidate=str(kernel), profile=Profile.QUICK, device=CPU)
    return dataclasses.replace(job, **changes)  # type: ignore[arg-type]


def _verdict(events: Iterator[Event]) -> Verdict:
    *_, last = events
    assert isinstance(last, EngineFinished), last
    return last.verdict


def test_a_good_kernel_is_accepted_and_its_run_can_be_opened(tmp_path: Path) -> None:
    verdict = _verdict(check(_job(_kernel(tmp_path, _GOOD))))
    assert verdict.decision is Decision.ACCEPTED
    assert open_run("last").verdict() == verdict


@pytest.mark.usefixtures("judge_here")
def test_a_wrong_kernel_is_rejected_alike_twice_and_replays(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path, _BAD)
    job = _job(kernel, seed=7, fail_fast=True)
    first, second = (_verdict(check(job)) for _ in range(2))
    assert first.decision is Decision.REJECTED
    kept = [[(f.code, f.message, f.where) for f in v.findings] for v in (first, second)]
    assert kept[0] == kept[1]
    finding = first.findings[0]
    assert finding.reproduce == f"cuassay replay {first.run}/{finding.id}"
    kernel.unlink()  # the run folder holds all that a replay needs
    again = _verdict(replay(f"{first.run}/{finding.id}"))
    assert again.decision is Decision.REJECTED
    assert [f.code for f in again.findings] == [finding.code]


@pytest.mark.usefixtures("judge_here")
@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("from torch import no_such_name_there", Decision.REJECTED),
        ("import no_such_module_here", Decision.INCONCLUSIVE),  # it may be installed elsewhere
    ],
)
def test_a_candidate_that_does_not_import_is_never_accepted(
    tmp_path: Path, line: str, decision: Decision
) -> None:
    verdict = _verdict(check(_job(_kernel(tmp_path, f"{line}\ndef run(x, weight, eps): ..."))))
    assert verdict.decision is decision
    assert [check.code for check in verdict.checks] == ["BUILD001"]
    told = verdict.reason + "".join(found.evidence + found.message for found in verdict.findings)
    assert line.rpartition(" ")[2] in told


@pytest.mark.usefixtures("judge_here")
def test_usage_errors_come_back_as_one_message(tmp_path: Path) -> None:
    (stopped,) = check(_job(tmp_path / "absent.py"))
    assert isinstance(stopped, EngineStopped)
    assert stopped.exit_code == 2
    assert "absent.py" in stopped.message
    assert not stopped.traceback
    with pytest.raises(UsageError, match="did you mean 'rmsnorm'"):
        show_problem("rmsnrm")


@pytest.mark.usefixtures("judge_here")
def test_a_reference_that_fails_is_no_verdict_on_the_kernel(tmp_path: Path) -> None:
    problem = tmp_path / "p.py"
    problem.write_text(
        "from typing import Annotated\nimport torch\nfrom cuassay import problem, tensor\n"
        '@problem(axes={"n": (1, 64)}, workloads=[{"n": 8}])\n'
        'def op(x: Annotated[torch.Tensor, tensor("float32", "n")]) -> '
        'Annotated[torch.Tensor, tensor("float32", "n", name="y")]:\n'
        '    raise RuntimeError("not today")\n'
    )
    kernel = _kernel(tmp_path, "def run(x):\n    return x\n")
    *_, stopped = check(_job(kernel, problem=str(problem)))
    assert isinstance(stopped, EngineStopped)
    assert stopped.exit_code == 3
    assert "not today" in stopped.message


def test_show_finds_the_truth_by_running() -> None:
    document = show_problem("rmsnorm")
    assert document["truth"] == "float64"
    assert document["workloads"]


def test_a_killed_judge_leaves_a_readable_run(tmp_path: Path) -> None:
    events = check(_job(_kernel(tmp_path, _GOOD), profile=Profile.DEEP))
    started = next(event for event in events if isinstance(event, EngineStarted))
    run = open_run(started.run)
    for pid in _children(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    *_, last = events
    assert isinstance(last, EngineStopped)
    assert last.exit_code == 3
    assert "SIGKILL" in last.message
    assert run.verdict() is None
    assert run.job().seed == started.seed
    assert any(isinstance(event, EngineStarted) for event in run.events())


def _children(parent: int) -> list[int]:
    """Return the judges that this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                command = (entry / "cmdline").read_bytes()
                if int(stat[1]) == parent and b"cuassay.judge" in command:
                    found.append(int(entry.name))
    return found


_DRIVER = """
import sys
from cuassay.model.jobs import TrialJob
from cuassay.engine.run import check
from cuassay.model.verdict import Profile
job = TrialJob(problem="rmsnorm", candidate=sys.argv[1], profile=Profile.DEEP, device="cpu")
for event in check(job):
    print(type(event).__name__, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_nothing_outlives_a_driver_that_was_ended(tmp_path: Path, number: signal.Signals) -> None:
    root = Path(__file__).resolve().parents[3] / "src"
    driver = subprocess.Popen(
        [sys.executable, "-c", _DRIVER, str(_kernel(tmp_path, _GOOD))],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(root)),
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "EngineStarted\n"
    running = processes.live(driver.pid)
    assert len(running) > 2, "a judge and what its workers are forked from"
    driver.send_signal(number)
    driver.wait()
    driver.stdout.close()
    end = time.monotonic() + 120
    while any(map(processes.live, running)):
        assert time.monotonic() < end, "a process outlived its driver"
        time.sleep(0.05)
