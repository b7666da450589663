"""A rank that a starter forks, as on a GPU, confines itself first, then builds and joins."""

from __future__ import annotations

import os
from multiprocessing import Pipe
from pathlib import Path

import torch

from cuassay.catalog import registry
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.device import CPU
from cuassay.model.steps import Moments
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
from cuassay.sandbox.guest.ranks.start import Recipe, open_starter, start_by

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
    place = Place(rank=0, world=1, groups=1, store=str(tmp_path / "store"), device=CPU)
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
