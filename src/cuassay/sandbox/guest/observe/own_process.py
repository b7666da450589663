"""What a candidate's own code asks of the process that it runs in.

A kernel has no business with it, and can learn there that it is judged: a filter of system calls,
a variable, a folder, a mount. Python raises an event before it opens a file, lists a folder or
makes a socket, whoever asked for it. An event counts where the innermost frame outside of Python's
own library is in the candidate's files: torch, Triton, numba and OpenMP read such files themselves.
What native code opens raises no event, nor does `os.readlink`.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from contextlib import suppress

_READING = ("open", "os.listdir", "os.scandir")
_SOCKET = "socket.__new__"
_OF_PROCESS = re.compile(r"/proc/(?:self|thread-self|[0-9]+)(?:/task/[0-9]+)?(?:/([a-z_]+))?")
_NAMES = (
    "status", "stat", "statm", "environ", "cmdline", "comm", "maps", "smaps", "mountinfo", "mounts",
    "mem", "fd", "task", "cgroup", "limits", "attr", "ns", "net",
)  # fmt: skip
_OTHERS = "others"
_BEGIN = "asks "
_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = sysconfig.get_path("stdlib") + os.sep  # looked up once: every file that is opened asks

_asked: set[str] = set()
_root = ""


def watch(root: str) -> None:
    """Note from now on what code below the folder `root` asks of this process; for good."""
    global _root
    if not _root:
        sys.addaudithook(_note)
    _root = os.path.realpath(root) + os.sep


def asked() -> dict[str, str]:
    """Return the readings: what can be asked, and whether it was."""
    names = (*(f"/proc/self/{name}" for name in _NAMES), f"/proc/self, {_OTHERS}", "a socket")
    return {_BEGIN + name: "yes" if name in _asked else "no" for name in names}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event not in _READING and event != _SOCKET:
        return
    with suppress(Exception):  # the candidate's call must not fail for ours
        if not _is_candidates_own():
            return
        if event == _SOCKET:
            _asked.add("a socket")
            return
        path = arguments[0]
        if not isinstance(path, str | bytes):
            return
        found = _OF_PROCESS.match(os.path.realpath(os.fsdecode(path)))
        if found is not None:
            name = found[1] or ""
            _asked.add(f"/proc/self/{name}" if name in _NAMES else f"/proc/self, {_OTHERS}")


def _is_candidates_own() -> bool:
    """Whether the innermost frame outside of Python's library is in the candidate's files."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        installed = any(one in name for one in _INSTALLED)
        if not name.startswith("<") and (installed or not name.startswith(_LIBRARY)):
            return os.path.realpath(name).startswith(_root)
        frame = frame.f_back  # type: ignore[assignment]
    return False
