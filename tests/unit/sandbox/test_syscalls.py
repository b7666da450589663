"""Walls made of system calls: what processes that reach one another may do with their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuassay.sandbox import syscalls


@pytest.mark.skipif(syscalls.landlock_version() < 6, reason="needs Landlock 6 for scopes")
def test_ranks_move_files_between_their_folders_and_to_no_other(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    (own / "made").mkdir(parents=True)
    other.mkdir()
    (own / "made" / "kernel").write_text("compiled")
    process = os.fork()
    if not process:
        code = 1
        try:
            syscalls.forbid_new_privileges()
            syscalls.landlock_scopes()  # as where ranks connect
            syscalls.landlock([str(own)], connects=True)
            os.replace(own / "made" / "kernel", own / "kernel")
            code = 2
            try:
                os.replace(own / "kernel", other / "kernel")
            except OSError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert (own / "kernel").read_text() == "compiled"
