"""Memory and disk that no folder shows: files without a name, which processes hold open or mapped.

A memfd that is not mapped, and a file that was removed while it is open, belong to no process's
memory and to no folder. They are counted here by what /proc shows of the processes that hold
them. What the judge itself made and shared is known by its inode and left out.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")
_DELETED = b"(deleted)"
_ANONYMOUS = b"/dev/zero (deleted)\n"

# Device and inode of what this process made, with its bytes: a process could make it longer.
_made: dict[tuple[int, int], int] = {}


def make_memory(size: int, *, flags: int = os.MFD_CLOEXEC) -> int:
    """Return a descriptor of new memory of `size` bytes that processes of a candidate may hold."""
    made = os.memfd_create("shared", flags)
    os.ftruncate(made, size)
    found = os.fstat(made)
    _made[found.st_dev, found.st_ino] = size
    return made


def unnamed_bytes(pids: Iterable[int]) -> int:
    """Return the bytes of files without a name that these processes hold, each counted once.

    A file counts by the blocks that it has. What is mapped alone, where nobody may look behind a
    mapping, counts by the parts that mappings show: one page may stand at many addresses. Shared
    anonymous memory counts there by what of it is resident, since most of a sparse table is never
    touched, and each process by its share. Nothing counts where /proc does not show a process.
    """
    anonymous = 0
    held: dict[tuple[int, int], int] = {}
    mapped: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for pid in set(pids):
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{number}")
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                        held[found.st_dev, found.st_ino] = 512 * found.st_blocks
        hidden = False
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                if line.endswith(_DELETED + b"\n"):
                    span, _, offset, device, inode = line.split(None, 5)[:5]
                    first, _, last = span.partition(b"-")
                    major, _, minor = device.partition(b":")
                    key = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
                    try:
                        behind = os.stat(f"/proc/{pid}/map_files/{span.decode()}")
                        held[key] = 512 * behind.st_blocks
                        continue
                    except OSError:
                        if line.endswith(_ANONYMOUS):
                            hidden = True
                            continue
                    begin = int(offset, 16)
                    part = (begin, begin + int(last, 16) - int(first, 16))
                    mapped.setdefault(key, set()).add(part)
        anonymous += _resident_anonymous(pid) if hidden else 0
    whole = {key: _covered(parts) for key, parts in mapped.items()} | held
    named = sum(max(0, size - _whole_pages(_made.get(key, 0))) for key, size in whole.items())
    return named + anonymous


def _resident_anonymous(pid: int) -> int:
    """Return a process's share of the shared anonymous memory that it has touched: proc(5), Pss."""
    found, counts = 0, False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                found += 1024 * int(line.split()[1]) if counts else 0
            elif b"-" in line.partition(b" ")[0]:  # the first line of a mapping: its addresses
                counts = line.endswith(_ANONYMOUS)
    return found


def _covered(parts: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes of a file lie in some of its parts, each from its begin to its end."""
    covered = reached = 0
    for begin, end in sorted(parts):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def _whole_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
