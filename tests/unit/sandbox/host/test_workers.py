"""Which processes a candidate gets on a GPU: as few as its scenarios need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.device import CUDA
from cuassay.model.steps import Mode
from cuassay.sandbox.host import workers
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.host.workers import Workers
from cuassay.sandbox.limits import Limits

ALL, ONE = None, 1  # hardware queues


class _Handle:
    """A process that was asked for; `queues` as the driver is told."""

    def __init__(self, *_: object, mode: Mode, queues: int | None, **__: object) -> None:
        self.mode, self.queues, self.scenarios, self.ended = mode, queues, 0, False

    def kill(self) -> None:
        self.ended = True

    def has_ended(self) -> bool:
        return self.ended

    async def end(self) -> int:
        return 0

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def handles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WorkerHandle", _Handle)


def opened(tmp_path: Path, text: str = "", **given: Any) -> Workers:
    builds: Any = type("Builds", (), {"post": lambda self, worker: None})()
    nursery: Any = object()
    source = SourceFile(path="k.py", text=text)
    candidate = Candidate(name="k", sources=(source,), entry_file="k.py", entry_function="run")
    return Workers(
        candidate,
        builds,
        device=CUDA,
        limits=Limits(),
        cache=tmp_path,
        nursery=nursery,
        **{"spares": 0} | given,
    )


def taken(
    of: Workers, *, mode: Mode = Mode.PLAIN, concurrent: bool = False, fresh: bool = False
) -> Any:
    handle: Any = run_now(of.take(of.kind_of(mode, concurrent=concurrent), fresh=fresh))
    handle.scenarios += 1
    return handle


def test_a_process_that_began_with_streams_serves_plain_calls_too(tmp_path: Path) -> None:
    of = opened(tmp_path)
    first = taken(of, concurrent=True)
    assert first.queues is ALL
    assert taken(of) is first
    assert taken(of, concurrent=True) is first
    assert of.started == 1
    assert not of.is_special(first)


def test_streams_replace_the_process_that_began_with_plain_calls(tmp_path: Path) -> None:
    of = opened(tmp_path)
    of.begin()
    plain = taken(of)
    assert plain.queues == ONE
    streams = taken(of, concurrent=True)
    assert plain.ended
    assert streams.queues is ALL
    assert taken(of) is streams
    assert of.started == 2


def test_processes_that_begin_with_a_scenario_are_never_replaced_for_streams(
    tmp_path: Path,
) -> None:
    of = opened(tmp_path, lazy=True)
    plain = taken(of)
    guarded = taken(of, mode=Mode.GUARDED)
    assert (plain.queues, guarded.queues) == (ALL, ONE)
    assert taken(of, concurrent=True) is plain
    assert of.started == 2


def test_a_lazy_pool_that_keeps_some_ready_has_processes_with_one_queue(tmp_path: Path) -> None:
    assert taken(opened(tmp_path, lazy=True, spares=1)).queues == ONE


def test_a_new_process_after_a_used_one_needs_no_other_for_streams(tmp_path: Path) -> None:
    of = opened(tmp_path)
    first = taken(of)
    second = taken(of, fresh=True)
    assert first.ended
    assert (first.queues, second.queues) == (ONE, ALL)
    assert taken(of, concurrent=True) is second
    assert of.started == 2


def test_guard_zones_have_a_process_of_their_own_with_one_queue(tmp_path: Path) -> None:
    of = opened(tmp_path)
    plain, guarded = taken(of), taken(of, mode=Mode.GUARDED)
    assert (guarded.mode, guarded.queues) == (Mode.GUARDED, ONE)
    assert taken(of) is plain


def test_where_processes_are_kept_ready_those_of_streams_stay_apart(tmp_path: Path) -> None:
    of = opened(tmp_path, spares=1)
    streams, plain = taken(of, concurrent=True), taken(of)
    assert streams is not plain
    assert plain.queues == ONE


def test_a_candidate_that_makes_streams_has_all_queues_in_every_process(tmp_path: Path) -> None:
    of = opened(tmp_path, "side = torch.cuda.Stream()")
    assert taken(of).queues is ALL
    assert taken(of, mode=Mode.GUARDED).queues is ALL
