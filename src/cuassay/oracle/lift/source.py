"""Where in the reference's source the running operation was called."""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

import torch

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_SKIPPED = (
    os.path.dirname(torch.__file__) + os.sep,
    *(os.path.join(_PACKAGE, part, "") for part in ("oracle", "algebra", "build")),
    os.path.join(_PACKAGE, "hooks.py"),
    os.path.dirname(os.__file__) + os.sep,  # contextlib, functools; site-packages lies below it
)
_NOWHERE = "an unknown line (the autograd engine's own thread)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One expression of the reference: `where` is `file:line`, `text` its source if known."""

    where: str
    column: int
    text: str


def source_line() -> str:
    """Return `file:line` of the innermost frame that belongs to neither torch nor cuassay."""
    frame = _reference_frame()
    if frame is None:
        return _NOWHERE
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def source_position() -> Position:
    """Return the expression that the same frame is evaluating."""
    frame = _reference_frame()
    if frame is None:
        return Position(where=_NOWHERE, column=0, text="")
    return _position(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=4096)
def _position(code: CodeType, instruction: int) -> Position:
    found = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    line, end, column, stop = found or (None, None, None, None)
    text = ""
    if line is not None and line == end and column is not None:
        source = linecache.getline(code.co_filename, line).encode()
        text = source[column:stop].decode(errors="replace").strip()
    where = f"{os.path.basename(code.co_filename)}:{line}"
    return Position(where=where, column=column or 0, text=text)


def _reference_frame() -> FrameType | None:
    """Return the innermost frame of user code, or of an installed package if there is none."""
    frame: FrameType | None = sys._getframe(1)
    installed = None
    while frame is not None:
        name = frame.f_code.co_filename
        if not _foreign(name):
            if not _installed(name):
                return frame
            installed = installed or frame
        frame = frame.f_back
    return installed


def _installed(filename: str) -> bool:
    return "site-packages" in filename or "dist-packages" in filename


def _foreign(filename: str) -> bool:
    return filename.startswith((*_SKIPPED, "<frozen", "<string"))


def failing_line(error: BaseException) -> str:
    """Return `file:line` of the innermost such frame in an exception's traceback."""
    found, installed, trace = "", "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not _foreign(name):
            line = f"{os.path.basename(name)}:{trace.tb_lineno}"
            found, installed = (found, line) if _installed(name) else (line, installed)
        trace = trace.tb_next
    return found or installed or "its call"
