"""What an exception says where the machine failed, and not the kernel: a full disk, say.

The candidate's process says so, and nobody else saw it: no pass follows from it, and no rejection.
"""

from __future__ import annotations

import errno
import os

# Of the machine as a whole: a process alone runs out of descriptors, which may be its own fault.
_MACHINES = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENFILE,
    errno.EIO,
    errno.EROFS,
    errno.ESTALE,
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST_CAUSES, _TEXT = 16, 300


def environment_failure(error: BaseException, *, log: str = "") -> str:
    """Return in one sentence what failed on this machine, '' where nothing says so.

    Of the exception, of those behind it, or of a compiler's `log`, which holds the system's words.
    """
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if seen is None:
            break
        if isinstance(seen, OSError) and seen.errno in _MACHINES:
            return _words(seen.errno, _message(seen))
        seen = seen.__cause__ or seen.__context__
    for text in (_message(error), log):
        for number in _FULL:
            line = next((one for one in text.splitlines() if os.strerror(number) in one), "")
            if line:
                return _words(number, line)
    return ""


def _words(number: int, message: str) -> str:
    what = "the disk is full" if number in _FULL else "the machine failed"
    return f"{what} ({message.strip()[:_TEXT]}): make room, then run it again"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # its own __str__ may do anything
        return ""
