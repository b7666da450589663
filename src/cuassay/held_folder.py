"""Private folders of processes that may be killed: the next one of their kind removes them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_YOUNG_S = 60.0


def make_held_folder(prefix: str, *, remove: Callable[[Path], object]) -> tuple[Path, int]:
    """Return a new temporary folder and the descriptor of a lock in it.

    The folder is held while any process has that descriptor open; close it once the folder is
    gone. Folders of the same prefix that nobody holds are given to `remove` first: those who
    made them were killed.
    """
    for lock in Path(tempfile.gettempdir()).glob(f"{prefix}*/lock"):
        with contextlib.suppress(OSError):
            fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if time.time() - os.fstat(fd).st_mtime < _YOUNG_S:
                    continue  # its maker may not have locked it yet
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(lock.parent)
            finally:
                os.close(fd)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    fd = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return folder, fd
