"""What attacks could leave is seen: the harness of the hostile candidates can fail."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import left
from tests.support.left import look, nothing_left


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left, "_END_S", 0.2)


def test_a_process_is_seen() -> None:
    with pytest.raises(AssertionError, match="running"), nothing_left(None):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.kill()
    process.communicate()


def test_a_segment_is_seen() -> None:
    library = ctypes.CDLL(None)
    with pytest.raises(AssertionError, match="segments"), nothing_left(None):
        made = library.shmget(0, 4096, 0o1600)
    assert library.shmctl(made, 0, None) == 0


def test_files_and_folders_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="here"), nothing_left(None):
        (tmp_path / "file").touch()
    with pytest.raises(AssertionError, match="folders"), nothing_left(tmp_path):
        (tmp_path / "w1").mkdir()
    shared = Path("/dev/shm", f"left-{os.getpid()}")
    with pytest.raises(AssertionError, match="shared"), nothing_left(None):
        shared.touch()
    shared.unlink()


def test_nothing_is_nothing() -> None:
    with nothing_left(None):
        pass


def test_memory_without_a_name_is_seen() -> None:
    with pytest.raises(AssertionError, match="memory"), nothing_left(None):
        made = os.memfd_create("left")
    os.close(made)


def test_what_another_program_holds_in_shared_memory_was_not_left() -> None:
    path, before = Path("/dev/shm", f"left-{os.getpid()}-held"), look(None)
    code = f"f = open({str(path)!r}, 'w'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        now = look(None)
        foreign = dataclasses.replace(now, running=now.running - {process.pid})
        assert str(path) in now.beyond(before)["shared"]
        assert str(path) not in foreign.beyond(before).get("shared", [])
        process.communicate("\n")
    assert str(path) in look(None).beyond(before)["shared"]
    path.unlink()
