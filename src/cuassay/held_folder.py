"""Private folders of processes that may be killed: the next one that has one removes them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SANDBOX = "py-sandbox-"  # in the paths that a candidate sees: it names nobody
RAY, SANITIZER, TRIALS = "cuassay-ray-", "cuassay-sanitizer-", "cuassay-trials-"
PREFIXES = (SANDBOX, RAY, SANITIZER, TRIALS)
_YOUNG_S = 60.0


def make_held_folder(prefix: str, *, remove: Callable[[Path], object]) -> tuple[Path, int]:
    """Return a new temporary folder and the descriptor of a lock in it.

    The folder is held while any process has that descriptor open; close it once the folder is
    gone. Folders of the same prefix, or of one of PREFIXES, that nobody holds are given to `remove`
    first: those who made them were killed. So a judge removes what an actor of Ray left.
    """
    temporary = Path(tempfile.gettempdir())
    kinds = dict.fromkeys((prefix, *PREFIXES))
    for lock in (lock for kind in kinds for lock in temporary.glob(f"{kind}*/lock")):
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
