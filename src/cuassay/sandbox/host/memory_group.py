"""A control group that bounds the memory of all processes of a nursery together.

Where this process may make one below its own or beside it: as root, or in a session that systemd
delegates. It counts what limits of single processes do not: memory that several share, memfds that
nobody mapped, files in shared memory. Where there is none, the judge's watch counts by process.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "cuassay-"
_SHARE = 0.8  # of the machine's memory
_TRIES, _AGAIN_S = 100, 0.01
_NUMBERS = itertools.count()


class MemoryGroup:
    """One group, an empty folder of the control group file system until a process is put in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def adopt(self, pid: int) -> bool:
        """Put a process in, with all that it starts from now on; return whether it is in."""
        try:
            (self.folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Remove the group; its processes must have ended, which the system may notice late."""
        for _ in range(_TRIES):
            try:
                self.folder.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    return
                time.sleep(_AGAIN_S)
            else:
                return


def make_group(limit_bytes: int) -> MemoryGroup | None:
    """Return a new group of so many bytes, at most most of the machine's; None: it may not be."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = min(limit_bytes, int(_SHARE * total))
    for parent, bound in _places():
        for left in parent.glob(f"{_PREFIX}*"):
            pid = left.name.removeprefix(_PREFIX).partition("-")[0]
            if pid.isdigit() and not Path("/proc", pid).exists():
                with contextlib.suppress(OSError):
                    left.rmdir()
        folder = parent / f"{_PREFIX}{os.getpid()}-{next(_NUMBERS)}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                # Where the controller is off the file is not there, and cannot be made.
                with open(folder / bound, "r+", encoding="ascii") as file:
                    file.write(str(limit))
                return MemoryGroup(folder)
            except OSError:
                folder.rmdir()
    return None


def _places() -> Iterator[tuple[Path, str]]:
    """Yield folders in which a group may be made, each with the name of its bound."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    names = {controllers: path for _, controllers, path in (line.split(":", 2) for line in own)}
    for line in mounts:
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        place = Path(words[4])
        if kind[0] == "cgroup" and "memory" in kind[2].split(",") and "memory" in names:
            yield _below(place, names["memory"]), "memory.limit_in_bytes"
        elif kind[0] == "cgroup2" and "" in names:
            here = _below(place, names[""])
            yield here, "memory.max"
            if here != place:  # a group that holds processes gives its children no controller
                yield here.parent, "memory.max"


def _below(place: Path, path: str) -> Path:
    below = place / path.lstrip("/")
    return below if below.is_dir() else place  # a container shows its own group as the root
