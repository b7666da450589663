"""What a trial can leave behind on a machine, and whether it did: nothing may be left."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from cuassay.sandbox import processes

_END_S = 20.0  # that a killed process may take on a busy machine
_SYSTEM_V = ("shm", "sem", "msg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is there at one moment: each a set of names.

    `running` are descendants of this process, `segments` System V objects, `shared` files of shared
    memory and named queues, `memory` files without a name that this process or a descendant holds,
    `folders` those of processes of a sandbox, `locks` files that a
    descendant holds a lock on, `here` files in the current folder.
    """

    running: frozenset[int]
    segments: frozenset[str]
    shared: frozenset[str]
    memory: frozenset[str]
    folders: frozenset[str]
    locks: frozenset[str]
    here: frozenset[str]

    def beyond(self, before: Left) -> dict[str, list[object]]:
        """Return what is there now and was not before, by kind.

        Where no namespace is our own, other programs make files of shared memory meanwhile: those
        that a process beside ours has open are not what was left.
        """
        found = {
            field.name: sorted(getattr(self, field.name) - getattr(before, field.name), key=str)
            for field in fields(self)
        }
        if found["shared"]:
            others = _held_by_others(self.running | {os.getpid()})
            found["shared"] = [name for name in found["shared"] if name not in others]
        return {kind: names for kind, names in found.items() if names}


def look(folder: Path | None) -> Left:
    """Return what is there now; `folder` is where the gate keeps its processes' folders."""
    table = processes.visible_processes()
    below = processes.descendants([os.getpid()], table)
    running = frozenset(pid for pid in below if table[pid].state != "Z")
    sandboxes = [] if folder is None else [p.name for p in folder.glob("[wp][0-9]*")]
    return Left(
        running=running,
        segments=frozenset(_segments()),
        shared=frozenset(f"{p}/{n}" for p in ("/dev/shm", "/dev/mqueue") for n in _names(p)),
        memory=frozenset(_unnamed(running | {os.getpid()})),
        folders=frozenset(sandboxes),
        locks=frozenset(_locks(running - {os.getpid()})),
        here=frozenset(_names(".")),
    )


@contextmanager
def nothing_left(folder: Path | None) -> Iterator[None]:
    """Fail where the block leaves something that was not there before it."""
    before = look(folder)
    yield
    end = time.monotonic() + _END_S
    while (found := look(folder).beyond(before)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not found, f"left behind: {found}"


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _held_by_others(ours: frozenset[int]) -> set[str]:
    """Return the files of shared memory that processes beside ours map or have open."""
    held: set[str] = set()
    for pid in set(processes.visible_processes()) - ours:
        with suppress(OSError):
            lines = Path("/proc", str(pid), "maps").read_text(encoding="utf-8", errors="replace")
            held |= {
                line.split(maxsplit=5)[5] for line in lines.splitlines() if "/dev/shm/" in line
            }
        for number in _names(f"/proc/{pid}/fd"):
            with suppress(OSError):
                held.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return held


def _segments() -> Iterator[str]:
    for kind in _SYSTEM_V:
        with suppress(OSError):
            lines = Path("/proc/sysvipc", kind).read_text(encoding="ascii").splitlines()[1:]
            yield from (f"{kind} {' '.join(line.split()[:2])}" for line in lines)


def _unnamed(pids: frozenset[int]) -> Iterator[str]:
    """Yield memfds, and files that were removed while they are open."""
    for pid in pids:
        for number in _names(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{number}")
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    yield f"{found.st_dev}:{found.st_ino}"


def _locks(pids: frozenset[int]) -> Iterator[str]:
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[4].isdigit() and int(words[4]) in pids:
                yield words[5]
