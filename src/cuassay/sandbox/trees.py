"""Removal of folders that a candidate filled: any depth, any name, any permissions."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(root: str | Path) -> None:
    """Remove a folder with everything in it; what cannot be removed is left.

    Neither the stack, the number of open files nor the length of a path bounds the depth. Links
    are removed, never followed.
    """
    with contextlib.suppress(OSError):
        here = os.open(root, _FOLDER)
        try:
            os.fchmod(here, stat.S_IRWXU)
            here = _emptied(here)
        finally:
            os.close(here)
        os.rmdir(root)


def excess(root: str | Path, *, files: int, depth: int, size: int) -> str:
    """Return what of a folder is more than it may be, in words; empty where nothing is.

    It may hold `files` files and folders, nested `depth` levels, and `size` bytes on disk. What
    cannot be listed counts 0.
    A path of many levels costs the system time at every look, so that none below `depth` is taken.
    """
    waiting, found, held = [(os.fspath(root), 1)], 0, 0
    while waiting:
        folder, level = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                found += 1
                if found > files:
                    return f"more than {files} files in its folder"
                with contextlib.suppress(OSError):  # gone meanwhile
                    held += 512 * entry.stat(follow_symlinks=False).st_blocks
                if held > size:
                    return f"more than {size} bytes in its folder"
                if entry.is_dir(follow_symlinks=False):
                    if level > depth:
                        return f"folders nested more than {depth} levels deep"
                    waiting.append((entry.path, level + 1))
    return ""


def _emptied(top: int) -> int:
    """Remove what is below an open folder; return the descriptor that is open in its place.

    Raises OSError where a folder is moved meanwhile: going on from there could remove others'.
    """
    here, way = top, [os.fstat(top).st_ino]
    names: list[str] = []  # of the folders that lead here
    waiting = [_folders_left(here)]
    while True:
        if waiting[-1]:
            name = waiting[-1].pop()
            try:
                place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                try:
                    os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)
                finally:
                    os.close(place)
                below = os.open(name, _FOLDER, dir_fd=here)
            except OSError:
                continue
            os.close(here)
            here = below
            names.append(name)
            way.append(os.fstat(here).st_ino)
            waiting.append(_folders_left(here))
            continue
        waiting.pop()
        way.pop()
        if not names:
            return here
        above = os.open("..", _FOLDER, dir_fd=here)
        os.close(here)
        here = above
        if os.fstat(here).st_ino != way[-1]:
            raise OSError("a folder was moved while it was removed")
        with contextlib.suppress(OSError):
            os.rmdir(names.pop(), dir_fd=here)


def _folders_left(folder: int) -> list[str]:
    """Remove the files of a folder; return the names of the folders in it."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]
