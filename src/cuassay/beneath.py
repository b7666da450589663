"""Open files below a folder that somebody else made: no link in it leads out of it.

A link `notes.h` to a key would otherwise be read outside of every wall and shipped into the
sandbox, whence its text comes back in an exception. The kernel resolves the path (openat2 with
RESOLVE_BENEATH, Linux 5.6); where it cannot, each component is opened on its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

_OPENAT2 = 437  # on every architecture: include/uapi/asm-generic/unistd.h
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08  # linux/openat2.h
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe does not block
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LINKS = 40  # that Linux follows in one path, too
# An old kernel, a container's filter, a path that changed on every one of the kernel's attempts.
_CANNOT = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EAGAIN)

_libc = ctypes.CDLL(None, use_errno=True)


class LeavesError(OSError):
    """A path leaves the folder below which it was to be opened."""


def open_beneath(folder: Path, relative: str) -> int:
    """Open a file below `folder` for reading and return its descriptor.

    Links are followed as long as they stay below the folder. Raises LeavesError where the path
    leaves it, OSError.
    """
    top = os.open(folder, _FOLDER)
    try:
        how = struct.pack("QQQ", _READ, 0, _BENEATH | _NO_MAGIC_LINKS)
        found = int(
            _libc.syscall(_OPENAT2, top, os.fsencode(relative), how, ctypes.c_size_t(len(how)))
        )
        if found >= 0:
            return found
        error = ctypes.get_errno()
        if error in _CANNOT:
            return _walked(top, PurePosixPath(relative).parts, folder)
        if error == errno.EXDEV:
            raise _leaves(folder, relative)
        raise OSError(error, os.strerror(error), str(folder / relative))
    finally:
        os.close(top)


def _walked(top: int, parts: Sequence[str], folder: Path) -> int:
    """Open a path component by component below an open folder."""
    relative = "/".join(parts)
    if relative.startswith("/"):
        raise _leaves(folder, relative)
    way = [os.dup(top)]  # the folders that lead to where the walk is
    left, links = list(reversed(parts)), 0
    try:
        while left:
            name = left.pop()
            if name == "..":
                if len(way) == 1:
                    raise _leaves(folder, relative)
                os.close(way.pop())
                continue
            here = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=way[-1])
            try:
                mode = os.fstat(here).st_mode
                if stat.S_ISLNK(mode):
                    links += 1
                    target = os.readlink("", dir_fd=here)
                    if target.startswith("/") or links > _LINKS:
                        raise _leaves(folder, relative)
                    left += [part for part in reversed(target.split("/")) if part not in ("", ".")]
                elif left:
                    way.append(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=way[-1]))
                else:
                    return os.open(name, _READ | os.O_NOFOLLOW, dir_fd=way[-1])
            finally:
                os.close(here)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(folder / relative))
    finally:
        for one in way:
            os.close(one)


def _leaves(folder: Path, relative: str) -> LeavesError:
    return LeavesError(errno.EXDEV, "a link leads out of the folder", str(folder / relative))


def is_beneath(folder: Path, path: Path) -> bool:
    """Whether a path below `folder` is a regular file that no link leads out of it to."""
    try:
        found = open_beneath(folder, path.relative_to(folder).as_posix())
    except (OSError, ValueError):
        return False
    try:
        return stat.S_ISREG(os.fstat(found).st_mode)
    finally:
        os.close(found)
