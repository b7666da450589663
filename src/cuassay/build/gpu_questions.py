"""Which libraries asked the NVIDIA driver for a GPU in this process, on a machine that shows none.

A library that looks for a GPU as it is imported raises an error of its own where it finds none: a
RuntimeError in any words. What it did before tells why: it ran a tool of the driver, or loaded a
library of the driver.
"""

from __future__ import annotations

import functools
import sys
from contextlib import suppress
from pathlib import Path, PurePath
from types import FrameType

_TOOLS = ("nvidia-smi",)
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")
_MOST_FRAMES = 200  # of a stack, looked at
# Where a resource is missing, code raises one of these. A NameError is a fault wherever it runs.
_REFUSALS = (RuntimeError, OSError, AssertionError)
_asked: set[str] = set()  # packages whose code was on the stack of a question


@functools.cache
def watch_questions() -> None:
    """Note from now on which packages ask the driver for a GPU; for good, as audit hooks are."""
    sys.addaudithook(_note)


def asked_in_vain(error: BaseException, root: Path) -> str:
    """Return the package outside of `root` that asked for a GPU and then raised `error`, or ''.

    What the candidate's own files, which are in `root`, raise is their own fault.
    """
    trace = error.__traceback__
    if trace is None or not isinstance(error, _REFUSALS):
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    package = _package(trace.tb_frame)
    is_own = Path(trace.tb_frame.f_code.co_filename).is_relative_to(root)
    return package if package in _asked and not is_own else ""


def _note(event: str, given: tuple[object, ...]) -> None:
    """Note who runs a tool of the driver or loads a library of it: an audit hook."""
    if event not in ("subprocess.Popen", "ctypes.dlopen"):
        return
    with suppress(Exception):  # whatever was given, the call of the candidate goes on
        name = PurePath(str(given[0])).name
        if name in _TOOLS if event == "subprocess.Popen" else name.startswith(_LIBRARIES):
            frame: FrameType | None = sys._getframe(1)
            for _ in range(_MOST_FRAMES):
                if frame is None:
                    return
                _asked.add(_package(frame))
                frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]
