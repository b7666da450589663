"""A launch that goes on beside the host: it stops where only others can help it on.

A kernel may wait for a flag that the host sets, or that work of another stream sets, after the
call that launched it. Such a launch runs in a thread of its own. Where all of its blocks wait for
memory, the host goes on; from then on the thread looks at memory again every now and then. The
host's next calls let it go on as far as it gets, and those that wait for it wait until it has
ended. Where nobody is left who could help, its blocks wait for ever: a deadlock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Generic, TypeVar

from ptxsan.run import UNTIL_ALL_WAIT

_Result = TypeVar("_Result")
_FIRST_S, _LAST_S = 0.0002, 0.005  # between two looks at memory
_GLANCE_S = 0.02
_OTHERS_S = 2.0  # how long another thread of the host may take to help


class Progress(Enum):
    """How far a launch has come: it ended, it got on and waits again, or it waits as before."""

    ENDED = auto()
    MOVED = auto()
    WAITS = auto()


@dataclass(slots=True)
class Paused(Generic[_Result]):
    """A launch in a thread of its own: `work`, which is given this object to wait with.

    With `patience_s` the host goes on after so many seconds of a kernel that works and looks at
    what the host may change: it is `beside` then. `waited` says whether it ever waited for others.
    """

    work: Callable[[Paused[_Result]], _Result]
    patience_s: float | None = None
    waited: bool = False
    beside: bool = False
    turns: int = UNTIL_ALL_WAIT
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _looks: int = 0  # how often it found that all blocks wait
    _moves: int = 0  # how often it got on in between
    _seen: int = 0  # moves that the host was told of
    _pause_s: float = _FIRST_S
    _alone: bool = False
    _ended: bool = False
    _result: list[_Result] = field(default_factory=list)
    _error: BaseException | None = None

    def start(self) -> Progress:
        """Let it run until it has ended or waits."""
        threading.Thread(target=self._run, daemon=True).start()
        return self._until(1, self.patience_s)

    def go_on(self) -> Progress:
        """Let it look at memory as it is now, and run until it has ended or waits."""
        # One look may have begun before. A launch that works while the host goes on never looks.
        return self._until(2, None if self.patience_s is None else _GLANCE_S)

    def end(self) -> None:
        """Let it run to its end, which is a deadlock if it waits and nobody changes memory."""
        if self.go_on() is not Progress.ENDED and has_other_threads():
            until = time.monotonic() + _OTHERS_S
            while time.monotonic() < until and self.go_on() is not Progress.ENDED:
                pass
        with self._changed:
            self._alone = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended)

    @property
    def result(self) -> _Result:
        """What the work returned, or raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Return nothing that keeps the host away: it is of this process."""
        return contextlib.nullcontext()

    def wait(self, *, moved: bool) -> bool:
        """Called by the launch whose blocks all wait: return whether to look at memory again."""
        with self._changed:
            self._pause_s = _FIRST_S if moved else min(2 * self._pause_s, _LAST_S)
            self.waited = True
            self._looks += 1
            self._moves += moved
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._alone, self._pause_s)
            return not self._alone

    def _until(self, looks: int, limit_s: float | None) -> Progress:
        with self._changed:
            wanted = self._looks + looks
            self._changed.wait_for(lambda: self._ended or self._looks >= wanted, limit_s)
            self.beside = self.beside or not (self._ended or self._looks >= wanted)
            moved, self._seen = self._moves > self._seen, self._moves
            if self._ended:
                return Progress.ENDED
            return Progress.MOVED if moved else Progress.WAITS

    def _run(self) -> None:
        try:
            self._result.append(self.work(self))
        except BaseException as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def has_other_threads() -> bool:
    """Return whether the process has threads that Python did not make: the program's own."""
    return len(list(Path("/proc/self/task").iterdir())) > threading.active_count()
