"""One process that programs are forked from, for the tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from ptxsan.host import program
from ptxsan_support.program_server import ProgramServer


@pytest.fixture(scope="session")
def program_server() -> Iterator[ProgramServer]:
    """Return what forks a process for each program."""
    with closing(ProgramServer()) as server:
        yield server


@pytest.fixture
def forked_programs(program_server: ProgramServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs in forks of a process that has the machine loaded, not in a Python each.

    That `python -m ptxsan.host.program` runs a program is held by test_program.py.
    """
    monkeypatch.setattr(program, "subprocess", program_server)
