"""Files without a name are counted, wherever a process holds them; those of the judge are not."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cuassay.sandbox.host.unnamed import make_memory, unnamed_bytes

_MIB = 1 << 20
_HOLD = "import mmap, os, sys\n{body}\nprint('held', flush=True)\nsys.stdin.read()"


@contextmanager
def _holding(body: str, folder: Path, *fds: int) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD.format(body=body)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        pass_fds=fds,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"held\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


_BODIES = {
    "memfd": "f = os.memfd_create('x'); os.write(f, bytes(8 << 20))",
    "removed-file": "f = open('a', 'wb'); f.write(bytes(8 << 20)); f.flush(); os.remove('a')",
    "mapped-and-closed": "f = os.memfd_create('x'); os.write(f, bytes(8 << 20))\n"
    "m = mmap.mmap(f, 8 << 20); os.close(f)",
    "shared": "m = mmap.mmap(-1, 8 << 20); m.write(bytes(8 << 20))",
}


@pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES)
def test_what_has_no_name_is_counted(body: str, tmp_path: Path) -> None:
    with _holding("pass", tmp_path) as pid:
        before = unnamed_bytes([pid])
    with _holding(body, tmp_path) as pid:
        found = unnamed_bytes([pid])
        assert 8 * _MIB <= found - before < 9 * _MIB
        assert unnamed_bytes([pid, pid]) == found  # each file once


def test_holes_and_files_with_a_name_are_not_counted(tmp_path: Path) -> None:
    body = "f = os.memfd_create('x'); os.ftruncate(f, 1 << 40)\ng = open('a', 'wb'); g.write(b'1')"
    with _holding("pass", tmp_path) as pid:
        before = unnamed_bytes([pid])
    with _holding(body, tmp_path) as pid:
        assert unnamed_bytes([pid]) == before


def test_a_sparse_table_that_nobody_touched_is_not_counted(tmp_path: Path) -> None:
    with _holding("m = mmap.mmap(-1, 1 << 34)", tmp_path) as pid:
        assert unnamed_bytes([pid]) < _MIB


def test_what_the_judge_made_is_not_counted_but_what_makes_it_longer_is(tmp_path: Path) -> None:
    made = make_memory(4 * _MIB)
    with mmap.mmap(made, 4 * _MIB) as mapped:
        mapped.write(bytes(4 * _MIB))
    with _holding("pass", tmp_path, made) as pid:
        assert unnamed_bytes([pid]) == 0
    body = f"os.pwrite({made}, bytes(8 << 20), 4 << 20)"
    with _holding(body, tmp_path, made) as pid:
        assert unnamed_bytes([pid]) == 8 * _MIB
    os.close(made)


def test_a_process_that_is_gone_holds_nothing() -> None:
    assert unnamed_bytes([2**22 - 1]) == 0
