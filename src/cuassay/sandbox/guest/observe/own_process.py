"""What a candidate's own code asks of the process that it runs in.

A kernel has no business with it, and can learn there that it is judged: a filter of system calls,
a variable, a folder, a mount, who calls it. Python raises an event before it opens a file, lists a
folder, makes a socket, hands out frames or objects, or loads a library, whoever asked for it. An
event counts where the innermost frame outside of Python's own library is in the candidate's files:
torch, Triton, numba and OpenMP do such things themselves. Calls of the C library through ctypes
count at once: what they ask raises no event. So does the module `resource`, whose readings raise
none. What an extension opens is not seen but by `native_calls`, nor are `os.readlink`, `os.fstat`
and what Python's own `sys` holds.

A file or folder that the walls refuse counts too: it is there for a caller in production. It is
tried once more to know that, and counts only where the candidate's code or a plain helper of
Python's library opens it: an import looks through folders that nobody named.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import sys
import sysconfig
import threading
from contextlib import suppress
from types import FrameType

_READING = ("open", "os.listdir", "os.scandir")
_EVENTS = frozenset(
    (
        *_READING, "socket.__new__", "import", "sys._getframe", "sys._current_frames",
        "object.__getattr__", "gc.get_objects", "gc.get_referrers", "ctypes.dlopen", "ctypes.dlsym",
    )
)  # fmt: skip
_FRAME_OF = ("tb_frame", "f_code")
_C_LIBRARY = re.compile(r"(?:.*/)?(?:libc|libpthread|libdl|ld-linux[^/]*)\.so.*")
_OF_PYTHON = ("Py", "_Py")  # functions of Python that capsules are opened with
_LIMITS = "resource"  # the module
_OF_PROCESS = re.compile(r"/proc/(?:self|thread-self|[0-9]+)(?:/task/[0-9]+)?(?:/([a-z_]+))?")
_NAMES = (
    "status", "stat", "statm", "environ", "cmdline", "comm", "maps", "smaps", "mountinfo", "mounts",
    "mem", "fd", "task", "cgroup", "limits", "attr", "ns", "net",
)  # fmt: skip
_OTHERS = "others"
_REFUSED = "what it may open"
_CALLERS, _HELD = "the frames of its callers", "the objects that it holds"
_NATIVE, _BOUNDS = "the C library through ctypes", "the module resource"
_PLAIN = ("codecs", "fileinput", "glob", "linecache", "os", "pathlib", "shutil", "tokenize")
_OF_FRAMES = ("inspect", "traceback")  # by which frames are asked for; others look for themselves
_REFUSALS = (errno.EACCES, errno.EPERM)
_BEGIN = "asks "
_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = sysconfig.get_path("stdlib") + os.sep  # looked up once: every file that is opened asks

_asked: set[str] = set()
_root = ""
_trying = threading.local()


def watch(root: str) -> None:
    """Note from now on what code below the folder `root` asks of this process; for good."""
    global _root
    if not _root:
        sys.addaudithook(_note)
        # What confines this process has imported it; only its first import raises an event.
        sys.modules.pop(_LIMITS, None)
    _root = os.path.realpath(root) + os.sep
    _is_own.cache_clear()


def asked() -> dict[str, str]:
    """Return the readings: what can be asked, and whether it was."""
    names = (*(f"/proc/self/{name}" for name in _NAMES), f"/proc/self, {_OTHERS}", "a socket")
    names = (*names, _REFUSED, _CALLERS, _HELD, _NATIVE, _BOUNDS)
    return {_BEGIN + name: "yes" if name in _asked else "no" for name in names}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event not in _EVENTS or getattr(_trying, "now", False):
        return
    if event == "import" and arguments[0] != _LIMITS:
        return
    _trying.now = True  # this looks at frames and files itself
    try:
        with suppress(Exception):  # the candidate's call must not fail for ours
            _count(event, arguments)
    finally:
        _trying.now = False


def _count(event: str, arguments: tuple[object, ...]) -> None:
    """Note what an event asks, if the candidate's code asks it."""
    if event == "object.__getattr__":
        # What follows Python's calls reads a frame at each of them, in libraries too: only the
        # frame that asks is looked at, not those of its callers.
        file = sys._getframe(2).f_code.co_filename
        if arguments[1] in _FRAME_OF and not file.startswith("<") and _is_own(file):
            _asked.add(_CALLERS)
        return
    way = _way()
    if way is None:
        return
    match event:
        case "sys._getframe" | "sys._current_frames":
            if all(one in _OF_FRAMES for one in way):
                _asked.add(_CALLERS)
        case "gc.get_objects" | "gc.get_referrers":
            _asked.add(_HELD)
        case "ctypes.dlopen":
            # The C library, or the process itself, which has it
            library = arguments[0]
            c_library = library is None or _C_LIBRARY.fullmatch(os.fsdecode(str(library)))
            if way == ["ctypes"] and c_library:
                _asked.add(_NATIVE)
        case "ctypes.dlsym":
            library, name = arguments
            if isinstance(library, ctypes.PyDLL) and not str(name).startswith(_OF_PYTHON):
                _asked.add(_NATIVE)
        case "socket.__new__":
            _asked.add("a socket")
        case "import":
            _asked.add(_BOUNDS)
        case _:
            _read(event, arguments, way)


def _read(event: str, arguments: tuple[object, ...], way: list[str]) -> None:
    """Note a file or folder that is the process's, or that the walls refuse."""
    path = arguments[0]
    if not isinstance(path, str | bytes):
        return
    found = _OF_PROCESS.match(os.path.realpath(os.fsdecode(path)))
    if found is not None:
        name = found[1] or ""
        _asked.add(f"/proc/self/{name}" if name in _NAMES else f"/proc/self, {_OTHERS}")
    elif _REFUSED not in _asked and all(one in _PLAIN for one in way):
        flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
        if _is_refused(path, flags):
            _asked.add(_REFUSED)


def _is_refused(path: str | bytes, flags: int) -> bool:
    """Whether a file or folder cannot be opened as it is asked for, though it may be there."""
    writes = flags & os.O_ACCMODE
    try:
        os.close(os.open(path, writes | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in _REFUSALS
    return False


def _way() -> list[str] | None:
    """Return the modules of Python's library by which the candidate's code asks, innermost first.

    A name in angle brackets stands for code without a file, as of an import. None where the
    innermost frame outside of that library is not in the candidate's files.
    """
    frame: FrameType | None = sys._getframe(3)
    way: list[str] = []
    while frame is not None:
        name = frame.f_code.co_filename
        installed = any(one in name for one in _INSTALLED)
        if not name.startswith("<") and (installed or not name.startswith(_LIBRARY)):
            return way if _is_own(name) else None
        if not name.startswith("<"):
            name = os.path.splitext(os.path.relpath(name, _LIBRARY).split(os.sep)[0])[0]
        way.append(name)
        frame = frame.f_back
    return None


@functools.cache
def _is_own(file: str) -> bool:
    """Whether a file of code is the candidate's: looked up once, since frames ask often."""
    return os.path.realpath(file).startswith(_root)
