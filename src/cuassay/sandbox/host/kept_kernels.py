"""Triton's kernels of a candidate, kept from one process apart to the next.

A process that holds nothing of cuassay compiles all that it launches, one kernel after another:
half a minute where an autotuner has thirty configurations. What it compiled is kept by the
candidate's contents, as Triton keeps it in production. What the candidate's workers compile is
never among it: they know who watches, and could leave other kernels there than those of its source.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from cuassay.build import tuned

_MOST_FILES = 8192
_MOST_BYTES = 1 << 28
_MOST_CHOICES = 1 << 10
_GROUP = "__grp__"  # begins the name of a file that says where others lie
_UNFINISHED = "tmp."
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def place(folder: Path) -> Path:
    """Return where Triton keeps its kernels in a process whose home is `folder`."""
    return folder / ".triton" / "cache"


def lay_out(kept: Path, folder: Path) -> None:
    """Put what is kept where Triton looks for it in a new process's own folder."""
    target = place(folder)
    with suppress(OSError, ValueError):
        for entry in sorted(kept.iterdir()):
            there = target / entry.name
            shutil.copytree(entry, there)
            for group in there.glob(f"{_GROUP}*"):
                # It names files by their whole paths: those of another process's folder.
                names = json.loads(group.read_text())["child_paths"]
                paths = {name: str(there / os.path.basename(name)) for name in names}
                group.write_text(json.dumps({"child_paths": paths}))


def take(folder: Path, kept: Path) -> None:
    """Keep what Triton compiled in a process, which may live and change it meanwhile.

    Plain files alone, no more of them than is allowed; each key's folder comes whole or not at all.
    """
    files = size = 0
    with suppress(OSError):
        kept.mkdir(parents=True, exist_ok=True)
        for _, _, names, at in os.fwalk(kept):
            files += len(names)
            size += sum(os.stat(name, dir_fd=at).st_size for name in names)
        for here, _, names, at in os.fwalk(place(folder)):
            key = os.path.basename(here)
            if Path(here).parent != place(folder) or (kept / key).exists():
                continue
            made = kept.parent / f"{_UNFINISHED}{uuid.uuid4().hex}"
            made.mkdir()
            for name in names:
                data = _contents(name, at, _MOST_BYTES - size)
                files, size = files + 1, size + len(data)
                if files > _MOST_FILES or size >= _MOST_BYTES:
                    shutil.rmtree(made, ignore_errors=True)
                    return
                (made / name).write_bytes(data)
            with suppress(OSError):  # another trial of it was first
                made.rename(kept / key)
            shutil.rmtree(made, ignore_errors=True)


def lay_out_choices(made: Path, folder: Path) -> None:
    """Put what the candidate's autotuners chose, below `made`, below a new process's own folder.

    The candidate's workers write it, whose word it is: plain files alone, and few of them.
    """
    target = folder / tuned.FOLDER
    with suppress(OSError):
        target.mkdir()
        for _, folders, names, at in os.fwalk(made / tuned.FOLDER):
            folders.clear()
            for name in names[:_MOST_CHOICES]:
                (target / name).write_bytes(_contents(name, at, tuned.NOTE_BYTES))


def _contents(name: str, folder: int, most: int) -> bytes:
    """Return up to `most` bytes of a plain file; none of what is no plain file."""
    with suppress(OSError), os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(most)
    return b""
