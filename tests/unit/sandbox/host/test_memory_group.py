"""A nursery's control group: made where that is allowed, done without where it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.model.device import CPU
from cuassay.sandbox.host import memory_group
from cuassay.sandbox.host.memory_group import make_group
from cuassay.sandbox.host.nursery import Nursery

_HELD = (
    "import os\nfor _ in range(64):\n    F.append(os.memfd_create('x'))\n"
    "    os.write(F[-1], bytes(8 << 20))\n"
)


def test_memory_that_nobody_mapped_is_bounded() -> None:
    group = make_group(128 << 20)
    if group is None:
        pytest.skip("this process may make no control group")
    wait = "import sys\nsys.stdin.readline()\nF = []\n"
    process = subprocess.Popen([sys.executable, "-c", wait + _HELD], stdin=subprocess.PIPE)
    assert group.adopt(process.pid)
    process.communicate(b"\n")
    assert process.returncode == -signal.SIGKILL
    group.close()
    assert not group.folder.exists()


def test_a_nursery_is_in_a_group_that_goes_with_it() -> None:
    with Nursery(CPU) as nursery:
        group = nursery.group
        if group is None:
            pytest.skip("this process may make no control group")
        held = (group.folder / "cgroup.procs").read_text(encoding="ascii").split()
        assert held
        assert str(os.getpid()) not in held
    assert not group.folder.exists()


def test_a_nursery_does_without_where_none_may_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_group, "_places", lambda: iter(()))
    assert make_group(1 << 30) is None
    with Nursery(CPU) as nursery:
        assert nursery.group is None


def test_a_folder_without_the_controller_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_group, "_places", lambda: iter([(tmp_path, "memory.max")]))
    assert make_group(1 << 30) is None
    assert not list(tmp_path.iterdir())


def test_groups_of_processes_that_were_killed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cuassay-4194303-0").mkdir()
    (tmp_path / f"cuassay-{os.getpid()}-0").mkdir()
    monkeypatch.setattr(memory_group, "_places", lambda: iter([(tmp_path, "memory.max")]))
    make_group(1 << 30)
    assert [one.name for one in tmp_path.iterdir()] == [f"cuassay-{os.getpid()}-0"]
