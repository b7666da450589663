"""A call that stands still between two instructions of Python while another thread calls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_HELD_UP_S = 0.5  # after which a thread is taken to wait for the one that stands still
_JOIN_S = 50.0
_OURS = str(Path(__file__).parents[3])


def interrupt_everywhere(
    call: Callable[[], None], meanwhile: Callable[[], None], *, rounds: int
) -> None:
    """Make a call that stands still at another instruction each time, while `meanwhile` runs.

    There are at most `rounds` such calls, and one without. Where the other thread waits, for a
    lock that the first one holds, there are no more: no thread comes in between.

    Raises TimeoutError where a thread does not end.
    """
    whole = _Interrupted(at=0, meanwhile=meanwhile)
    whole.make(call)
    count = min(rounds, whole.passed)
    for number in range(count):
        one = _Interrupted(at=1 + number * whole.passed // count, meanwhile=meanwhile)
        one.make(call)
        if one.waits:
            return


@dataclass(slots=True, kw_only=True)
class _Interrupted:
    """One call: instructions of Python outside of cuassay are counted, from 1, and `at` it waits.

    `waits` says that the other thread did not come to its end meanwhile.
    """

    at: int
    meanwhile: Callable[[], None]
    passed: int = 0
    waits: bool = False
    _other: threading.Thread | None = None

    def make(self, call: Callable[[], None]) -> None:
        """Make the call in a thread of its own, and wait for both."""

        def traced() -> None:
            sys.settrace(self._entered)  # type: ignore[arg-type]
            try:
                call()
            finally:
                sys.settrace(None)

        first = threading.Thread(target=traced, daemon=True)
        first.start()
        first.join(_JOIN_S)
        if self._other is not None:
            self._other.join(_JOIN_S)
        if first.is_alive() or (self._other is not None and self._other.is_alive()):
            raise TimeoutError(f"calls from two threads did not end within {_JOIN_S:g} s")

    def _entered(self, frame: FrameType, event: str, argument: object) -> _Traced | None:
        if frame.f_code.co_filename.startswith(_OURS):
            return None
        frame.f_trace_opcodes = True  # with lines, without which 3.12 tells no instruction
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> _Traced:
        if event == "opcode":
            self.passed += 1
            if self.passed == self.at:
                self._other = threading.Thread(target=self.meanwhile, daemon=True)
                self._other.start()
                self._other.join(_HELD_UP_S)
                self.waits = self._other.is_alive()
        return self._step


_Traced = Callable[[FrameType, str, object], object]
