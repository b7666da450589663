"""A rank that a starter forks, as on a GPU, confines itself first, then builds and joins."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from pathlib import Path

import torch

from cuassay.catalog import registry
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.device import CPU
from cuassay.model.steps import Moments
from cuassay.sandbox.guest.process import walls
from cuassay.sandbox.guest.ranks.member import Place
from cuassay.sandbox.guest.ranks.messages import (
    Arrives,
    Begin,
    Ends,
    Go,
    Holds,
    Joined,
    Posts,
    Read,
    Take,
    pack,
    unpack,
)
from cuassay.sandbox.guest.ranks.ranked import open_where_ranks_connect
from cuassay.sandbox.guest.ranks.start import Recipe, open_starter, start_by
from cuassay.sandbox.limits import Limits

KERNEL = """\
import torch.distributed as dist


def run(x):
    y = x + 1
    dist.all_reduce(y)
    return y
"""


def test_what_the_starter_starts_is_confined_builds_joins_and_calls(tmp_path: Path) -> None:
    mark = tmp_path / "confined"
    starter = open_starter(mark.touch)
    here, there = Pipe()
    _asks, asked = Pipe()
    process = start_by(starter, there, asked)
    assert process > 0
    there.close()
    asked.close()
    place = Place(rank=0, world=1, groups=1, store=str(tmp_path / "store"), device=CPU, apart=False)
    candidate = Candidate(
        name="one",
        sources=(SourceFile(path="one.py", text=KERNEL),),
        entry_file="one.py",
        entry_function="run",
    )
    recipe = Recipe(candidate=candidate, builder="cuassay.build:load", folder=tmp_path / "built")
    here.send((place, registry.get("all_reduce"), recipe))
    assert isinstance(here.recv(), Joined)
    x = torch.arange(3.0)
    here.send(Begin([[pack(x)]], refill=False, moments=Moments.EARLY, busy_ms=0.0))  # type: ignore[list-item]
    assert isinstance(here.recv(), Arrives)
    here.send(Go())
    posted = here.recv()
    assert isinstance(posted, Posts)
    assert posted.operation.words == "all_reduce (one.py:6)"
    assert posted.given is not None
    assert torch.equal(torch.as_tensor(unpack(posted.given[0])), x + 1)
    here.send(Take(posted.number, posted.given))
    here.send(Go())
    assert isinstance(here.recv(), Ends)  # what was there at once is not waited for
    here.send(Read())
    held = here.recv()
    assert isinstance(held, Holds)
    ((name, sent),) = held.returned[0]
    assert name == "y"
    assert not isinstance(sent, str)
    assert torch.equal(torch.as_tensor(unpack(sent)), x + 1)
    assert mark.exists()
    here.close()
    starter.close()
    os.wait()


def test_what_goes_wrong_before_a_rank_knows_its_place_is_told() -> None:
    def fall() -> None:
        raise OSError("no wall")

    starter = open_starter(fall)
    here, there = Pipe()
    _asks, asked = Pipe()
    start_by(starter, there, asked)
    there.close()
    told = here.recv()
    assert isinstance(told, Ends)
    assert told.raised is not None
    assert told.raised.message == "no wall"
    starter.close()
    os.wait()


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "done"


def _confined_ranks(folder: Path) -> Sequence[str]:
    """Return what a second rank can do to the first one, and to this process's parent.

    In a process of its own, which is confined for good.
    """
    name = f"\0first-{os.getpid()}"
    lit, light = os.pipe()
    outcomes, told = os.pipe()

    def confine() -> None:
        limits = Limits(connects=True)
        walls.restrict(limits, device=CPU, writable=(str(folder),), readable=("/",), namespaces={})
        walls.filter_calls(connects=True)
        if not os.path.exists(folder / "first"):
            served = socket.socket(socket.AF_UNIX)
            served.bind(name)
            served.listen()
            Path(folder, "first").write_text(str(os.getpid()))
            os.write(light, b"1")
            served.accept()
        os.read(lit, 1)
        first = int(Path(folder, "first").read_text())
        attempts = (
            lambda: socket.socket(socket.AF_UNIX).connect(name),
            lambda: os.kill(first, 0),
            lambda: socket.socket(socket.AF_UNIX).connect(f"\0outside-{folder}"),
            lambda: os.kill(parent, 0),
        )
        os.write(told, " ".join(map(_outcome, attempts)).encode())

    parent = os.getppid()
    _, starter = open_where_ranks_connect(True, confine)
    assert starter is not None
    for _ in range(2):
        start_by(starter, *Pipe())
    return os.read(outcomes, 1000).decode().split()


def test_confined_ranks_reach_one_another_and_nobody_else(tmp_path: Path) -> None:
    outside = socket.socket(socket.AF_UNIX)
    outside.bind(f"\0outside-{tmp_path}")
    outside.listen()
    found, told = os.pipe()
    if not os.fork():
        walls.enter_namespaces(())
        os.write(told, " ".join(_confined_ranks(tmp_path)).encode())
        os._exit(0)
    os.close(told)
    with os.fdopen(found) as answers:
        said = answers.read().split()
    os.wait()
    outside.close()
    assert said[:2] == ["done", "done"]
    assert said[2:] == ["ConnectionRefusedError", "PermissionError"]
