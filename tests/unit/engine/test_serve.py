"""Waiting judges behind a socket: trials borrow one, and start their own where none can serve."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from cuassay.engine import run, served
from cuassay.engine.executors import DeviceLane
from cuassay.engine.pool import WarmPool
from cuassay.engine.serve import Server
from cuassay.errors import UsageError
from cuassay.model.device import CPU
from cuassay.model.events import (
    DecisionReached,
    EngineFinished,
    EngineStarted,
    EngineStopped,
    Event,
    Progress,
)
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision
from tests.support import fake_judge


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    fake_judge.install(monkeypatch)
    for name in ("accept", "die", "wait 600"):
        (tmp_path / f"{name.split()[0]}.py").write_text(f"# {name}\ndef run(x): ...\n")


@pytest.fixture
def server() -> Iterator[Server]:
    with WarmPool([DeviceLane(name="cpu:0", device=CPU)]) as pool, Server(pool) as opened:
        threading.Thread(target=opened.serve, daemon=True).start()
        yield opened


def _job(name: str = "accept") -> TrialJob:
    return TrialJob(problem="rmsnorm", candidate=f"{name}.py", device=CPU)


def _borrowed() -> served.ServedJudge:
    for _ in range(2400):  # a lane is free a moment after its last trial
        found = served.served(_job())
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("no judge was lent")


def test_a_trial_borrows_a_judge_and_keeps_its_own_run_folder(server: Server) -> None:
    for _ in range(2):  # the second judge waits by then
        borrowed = _borrowed()
        borrowed.stop()
        _borrowed().stop()
    events: list[Event] = []
    judge = _borrowed()
    judge.submit(_job())
    events += judge.events()
    judge.stop()
    assert isinstance(events[0], EngineStarted)
    assert isinstance(events[-1], EngineFinished)
    assert Path(events[0].candidate).is_absolute()


def test_check_uses_the_server_without_being_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    _borrowed().stop()
    lent: list[bool] = []
    real = served.served

    def watched(job: TrialJob) -> served.ServedJudge | None:
        found = real(job)
        lent.append(found is not None)
        return found

    monkeypatch.setattr(run, "served", watched)
    for _ in range(600):
        events = list(run.check(_job()))
        assert isinstance(events[-1], EngineFinished)
        if lent[-1]:
            break
        time.sleep(0.05)
    assert lent[-1]


def test_the_socket_is_the_users_alone(server: Server) -> None:
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600


def test_other_settings_start_a_judge_of_their_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    _borrowed().stop()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert served.served(_job()) is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    _borrowed().stop()


def test_a_busy_server_lends_nothing_and_closing_ends_the_trial(server: Server) -> None:
    judge = _borrowed()
    judge.submit(_job("wait"))
    first = next(judge.events())
    assert isinstance(first, EngineStarted)
    assert served.served(_job()) is None
    judge.stop()
    _borrowed().stop()  # the lane is free again, its judge a new one


def test_a_judge_that_dies_gives_no_verdict(server: Server) -> None:
    for _ in range(600):
        events = list(run.check(_job("die")))
        assert isinstance(events[-1], EngineStopped)
        if "cuassay serve" in events[-1].message:
            return
        time.sleep(0.05)
    raise AssertionError("no judge of the server was used")


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[1]\n", b"\xff" * 4096, b"[" * 100_000 + b"\n"])
def test_whatever_is_sent_the_server_goes_on(server: Server, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(server.path))
        client.sendall(line)
    _borrowed().stop()


def test_a_second_server_is_refused_and_a_dead_ones_socket_is_taken_over(server: Server) -> None:
    with WarmPool([]) as pool:
        with pytest.raises(UsageError, match="another `cuassay serve` may run"):
            Server(pool)
        server.close()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(str(server.path))
        assert served.served(_job()) is None
        with Server(pool):
            assert json.dumps(served.identity())
    assert not server.path.exists()


def test_the_next_judge_starts_when_the_one_before_has_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Mock] = []

    def start(pool: WarmPool, lane: DeviceLane) -> Mock:
        started.append(Mock(alive=True))
        return started[-1]

    monkeypatch.setattr(WarmPool, "_start", start)
    lane = DeviceLane(name="cpu:0", device=CPU)
    with WarmPool([lane]) as pool:
        with pool.turn(lane, _job()) as turn:
            pool.saw(turn, Progress(text="a check"))
            assert started == [turn.judge]
            pool.saw(turn, DecisionReached(decision=Decision.ACCEPTED, reason=""))
            assert len(started) == 2
        with pool.turn(lane, _job()) as turn:
            assert turn.judge is started[1]
        assert len(started) == 3


def _process(events: list[Event]) -> str:
    last = events[-1]
    assert isinstance(last, EngineFinished)
    return last.verdict.notes[0]


def test_the_next_trial_of_a_problem_has_the_judge_of_the_one_before(server: Server) -> None:
    """Of another problem, or once this one's files have changed, it has another judge."""
    problem = Path("problem.py")
    problem.write_text("first")

    def process(where: str) -> str:
        judge = _borrowed()
        judge.submit(dataclasses.replace(_job(), problem=where))
        events = list(judge.events())
        judge.stop()
        return _process(events)

    first = process("rmsnorm")
    assert process("rmsnorm") == first
    other = process(str(problem))
    assert other != first
    assert process(str(problem)) == other
    problem.write_text("changed")
    assert process(str(problem)) not in (first, other)


def test_a_judge_that_gave_no_verdict_gets_no_other_trial(server: Server, tmp_path: Path) -> None:
    (tmp_path / "stop.py").write_text("# stop\n")
    with WarmPool([DeviceLane(name="cpu:1", device=CPU)]) as pool:
        before = _process(list(pool.check(_job())))
        assert _process(list(pool.check(_job()))) == before
        list(pool.check(_job("stop")))
        assert _process(list(pool.check(_job()))) != before


def test_a_pool_judges_from_a_folder_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor's temporary folder, say: what is named by its whole path is still there."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    job = dataclasses.replace(_job(), candidate=str(tmp_path / "accept.py"))
    with WarmPool([DeviceLane(name="cpu:2", device=CPU)]) as pool:
        assert isinstance(list(pool.check(job))[-1], EngineFinished)
        (tmp_path / "gone").rmdir()
        assert isinstance(list(pool.check(job))[-1], EngineFinished)
    with WarmPool([DeviceLane(name="cpu:3", device=CPU)]) as pool:
        assert isinstance(list(pool.check(job))[-1], EngineFinished)


def test_trials_of_a_block_share_a_judge(tmp_path: Path) -> None:
    alone = {_process(list(run.check(_job()))) for _ in range(2)}
    assert len(alone) == 2
    with run.one_judge():
        shared = [_process(list(run.check(_job()))) for _ in range(2)]
        dead = list(run.check(_job("die")))
        after = _process(list(run.check(_job())))
    assert shared[0] == shared[1]
    assert isinstance(dead[-1], EngineStopped)
    assert after != shared[0]
    assert _process(list(run.check(_job()))) not in {*shared, after}
