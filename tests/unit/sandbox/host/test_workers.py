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


def taken(of: Workers, *, mode: Mode = Mode.PLAIN, concurrent: bool = False) -> Any:
    handle: Any = run_now(of.take(of.kind_of(mode, concurrent=concurrent), fresh=False))
    handle.scenarios += 1
    return handle


def test_a_process_of_streams_and_load_serves_no_plain_call(tmp_path: Path) -> None:
    of = opened(tmp_path)
    streams = taken(of, concurrent=True)
    assert streams.queues is ALL
    assert of.is_special(streams)
    plain = taken(of)
    assert plain is not streams
    assert plain.queues == ONE
    assert taken(of, concurrent=True) is streams
    assert of.started == 2


def test_one_that_began_with_plain_calls_has_another_beside_it_for_streams(tmp_path: Path) -> None:
    of = opened(tmp_path)
    plain = taken(of)
    assert plain.queues == ONE
    streams = taken(of, concurrent=True)
    assert streams.queues is ALL
    assert taken(of) is plain
    assert taken(of, concurrent=True) is streams
    assert of.started == 2


def test_guard_zones_have_a_process_of_their_own_with_one_queue(tmp_path: Path) -> None:
    of = opened(tmp_path)
    plain, guarded = taken(of), taken(of, mode=Mode.GUARDED)
    assert (guarded.mode, guarded.queues) == (Mode.GUARDED, ONE)
    assert taken(of) is plain


def test_a_candidate_that_makes_streams_has_all_queues_in_every_process(tmp_path: Path) -> None:
    of = opened(tmp_path, "side = torch.cuda.Stream()")
    assert taken(of).queues is ALL
    assert taken(of, mode=Mode.GUARDED).queues is ALL
