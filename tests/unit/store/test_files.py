"""Writes that a crash or a full disk cannot tear."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.errors import UsageError
from cuassay.store import files


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for text in ("one", "two"):
        files.append_line(path, text)
    assert list(files.read_lines(path)) == [(1, "one\n"), (2, "two\n")]
    assert list(files.read_lines(tmp_path / "absent")) == []


def test_a_line_cut_short_is_left_out_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\ntw")
    assert [text for _, text in files.read_lines(path)] == ["one\n"]
    files.append_line(path, "three")
    assert [text for _, text in files.read_lines(path)] == ["one\n", "tw\n", "three\n"]


def test_a_write_that_fails_half_way_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    files.append_line(path, "one")
    whole = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 4:
            return whole(descriptor, data[:4])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        files.append_line(path, "a longer line")
    monkeypatch.undo()
    assert path.read_text() == "one\n"


def test_a_whole_file_is_replaced_or_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.json"
    files.write_atomically(path, "old")

    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left"):
        files.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["f.json"]


def test_a_lock_is_exclusive_and_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom cuassay.store.files import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    expected = rf"audit .* is in use by process {holder.pid}"
    with pytest.raises(UsageError, match=expected), files.locked(tmp_path):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with files.locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_what_a_killed_holder_forked_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ORPHANS_S", 300.0)  # of a machine that is busy elsewhere
    program = (
        "import os, sys, time\nfrom pathlib import Path\nfrom cuassay.store.files import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    if os.fork() == 0:\n        time.sleep(0.5)\n        os._exit(0)\n"
        "    print('held', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
        process.wait()
        with files.locked(tmp_path):
            assert (tmp_path / ".lock").read_text() == str(os.getpid())
