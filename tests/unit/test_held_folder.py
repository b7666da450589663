"""A folder whose maker was killed is gone when the next one is made; one that is held stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.held_folder import RAY, SANDBOX, SANITIZER, TRIALS, make_held_folder

_HOLDER = (
    "import shutil, time\n"
    "from cuassay.held_folder import make_held_folder\n"
    "print(make_held_folder('kept-', remove=shutil.rmtree)[0], flush=True)\n"
    "time.sleep(600)\n"
)


def _aged(folder: Path) -> None:
    """Make the lock of a folder older than the time in which its maker locks it."""
    os.utime(folder / "lock", (0, 0))


def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        left = Path(holder.stdout.readline().strip())
        _aged(left)
        first, lock = make_held_folder("kept-", remove=shutil.rmtree)
        assert left.exists()  # its maker lives
        holder.kill()
        holder.wait()
    second, other = make_held_folder("kept-", remove=shutil.rmtree)
    assert not left.exists()
    assert first.exists()  # young
    _aged(first)
    _aged(second)
    os.close(lock)
    third, last = make_held_folder("kept-", remove=shutil.rmtree)
    assert not first.exists()
    assert second.exists()
    assert third.exists()
    os.close(other)
    os.close(last)


def test_a_judge_removes_what_an_actor_of_ray_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    left = [tmp_path / f"{prefix}of-a-killed-one" for prefix in (RAY, SANITIZER, TRIALS)]
    other = tmp_path / "cuassay-0-gpu"  # which holds files of bookings, and no private folder
    for folder in (*left, other):
        folder.mkdir()
        (folder / "lock").touch()
        _aged(folder)
    _, lock = make_held_folder(SANDBOX, remove=shutil.rmtree)
    os.close(lock)
    assert not any(folder.exists() for folder in left)
    assert other.exists()
