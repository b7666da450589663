"""Removal of folders that a candidate filled: any depth, any name, any permissions."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def remove(root: str | Path) -> None:
    """Remove a folder with everything in it; what cannot be removed is left.

    Neither the stack nor the length of a path bounds the depth: a folder below `root` is moved
    to the top before it is emptied. Links are removed, never followed.
    """
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    token = secrets.token_hex(8)
    try:
        os.fchmod(top, stat.S_IRWXU)
        waiting = _emptied(top)
        count = 0
        while waiting:
            name = waiting.pop()
            with contextlib.suppress(OSError):
                below = _opened(name, top)
                try:
                    for inner in _emptied(below):
                        with contextlib.suppress(OSError):
                            if os.geteuid():  # one that we may not write cannot be moved either
                                os.close(_opened(inner, below))
                            count += 1
                            moved = f".{token}-{count}"
                            os.rename(inner, moved, src_dir_fd=below, dst_dir_fd=top)
                            waiting.append(moved)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=top)
    except OSError:
        pass
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        os.rmdir(root)


def _opened(name: str, top: int) -> int:
    """Open a folder of `top` whatever its permissions were. Raises OSError."""
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)
    finally:
        os.close(place)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)


def _emptied(folder: int) -> list[str]:
    """Remove the files of a folder; return the names of the folders in it."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]
