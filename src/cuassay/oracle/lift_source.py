"""Where in the reference's source the running operation was called."""

from __future__ import annotations

import os
import sys
from types import FrameType

import torch

_SKIPPED = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(__file__) + os.sep,
    os.path.dirname(os.__file__) + os.sep,  # contextlib, functools; site-packages lies below it
)
_NOWHERE = "an unknown line (the autograd engine's own thread)"


def source_line() -> str:
    """Return `file:line` of the innermost frame that belongs to neither torch nor cuassay."""
    frame: FrameType | None = sys._getframe(1)
    fallback = _NOWHERE
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*_SKIPPED, "<frozen", "<string")):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return fallback


def failing_line(error: BaseException) -> str:
    """Return `file:line` of the innermost such frame in an exception's traceback."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith((*_SKIPPED, "<frozen", "<string")):
            found = f"{os.path.basename(name)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found or "its call"
