"""Process trees as /proc shows them: who descends from whom, how much they hold, ending them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from cuassay.model.reports import Holding

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of /proc: parent, process group, state letter, ticks of the processor it used.

    The ticks include those of its children that have ended.
    """

    pid: int
    parent: int
    group: int
    state: str
    ticks: int = 0


def visible_processes() -> dict[int, Process]:
    """Return every process that is visible, by id."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = _read(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def below(root: int) -> dict[int, Process]:
    """Return the process `root` and all that descends from it, by id.

    It reads what the kernel lists as children (proc(5)), so that it takes less time than a process
    needs to fork. Where the kernel lists none, every visible process is read.
    """
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):
        table = visible_processes()
        return {pid: table[pid] for pid in descendants([root], table)}
    found: dict[int, Process] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        process = _read(pid)
        if process is not None and pid not in found:
            found[pid] = process
            waiting += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """Return what the threads of a process started and what was left to them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command may hold spaces and parentheses: fields count from the last one.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 3:
        return None
    return Process(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        ticks=sum(map(int, fields[11:15])),  # utime, stime, cutime, cstime: proc(5)
    )


def descendants(roots: Iterable[int], table: dict[int, Process]) -> set[int]:
    """Return the roots and everything below them that is in `table`."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found & set(table)


def holding(
    pid: int, *, calls: int, device_bytes: int = 0, objects: int = 0, garbage: int = 0
) -> Holding:
    """Return what a process holds after `calls` calls, as /proc shows it; 0 where it does not."""
    threads = files = processes = 0
    with contextlib.suppress(OSError):
        files = len(os.listdir(f"/proc/{pid}/fd"))
        threads = len(os.listdir(f"/proc/{pid}/task"))
        processes = len(_children(pid))
    return Holding(
        calls=calls,
        threads=threads,
        processes=processes,
        files=files,
        host_bytes=_own_bytes(pid),
        device_bytes=device_bytes,
        objects=objects,
        garbage=garbage,
    )


def family_use(pid: int) -> tuple[int, bool]:
    """Return (processor ticks, whether one runs or waits for a disk) of `pid` and its siblings.

    Siblings are all that its parent started, with what they started. A family whose ticks stay
    while none of it runs waits for something that no member of it will do.
    """
    own = _read(pid)
    if own is None:
        return 0, True
    family = below(own.parent).values()
    return sum(one.ticks for one in family), any(one.state in "RD" for one in family)


def tree_size(root: int) -> tuple[int, int]:
    """Return (number of live processes, bytes of their own) of the tree under `root`.

    Memory that a process shares with those it was forked from counts for each of them: never
    too little, and cheap. `tree_bytes` counts it once.
    """
    found = live(root)
    return len(found), sum(_own_bytes(pid) for pid in found)


def tree_bytes(root: int) -> int:
    """Return the bytes that the tree under `root` holds, those it shares counted once.

    The kernel's proportional set size of anonymous memory (proc(5), smaps_rollup), milliseconds
    a process; where it cannot be read, what `tree_size` counts.
    """
    return sum(_proportional_bytes(pid) for pid in live(root))


def live(root: int) -> list[int]:
    """Return the processes of the tree under `root` that have not ended.

    It is asked again and again beside a trial: what else runs on the machine is not read.
    """
    return [pid for pid, process in below(root).items() if process.state != "Z"]


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return _own_bytes(pid)
    found = [line.split()[1] for line in lines if line.startswith(b"Pss_Anon:")]
    return 1024 * int(found[0]) if found else _own_bytes(pid)


def _own_bytes(pid: int) -> int:
    """Return resident bytes that come from no file or shared memory, 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE


def kill_group(group: int) -> None:
    """Kill a process group at one stroke: forks in it cannot run away."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill(pid: int) -> None:
    """Kill one process; no error where it is gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
