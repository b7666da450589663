"""What a command is at while it works: a moving line on a terminal, one line a minute elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from rich.console import Console
from rich.status import Status
from rich.text import Text

from cuassay.closing import Closing
from cuassay.report.clean import one_line

Words: TypeAlias = Callable[[float], str]  # of the seconds since the words were given

AFTER_S = 0.9  # a command that is done by then shows nothing
EACH_S = 60.0  # between two lines where no terminal is
_TICK_S = 0.5
_LIMIT = 300


class Waiting(Closing):
    """Says on a console what goes on, with words that know for how long it does.

    Nothing is shown in the first `after_s` seconds. `hide` takes the moving line away until
    something is said again; `close` ends it. Without a console it says nothing.
    """

    def __init__(
        self, console: Console | None, *, after_s: float = AFTER_S, each_s: float = EACH_S
    ) -> None:
        self._console, self._after_s, self._each_s = console, after_s, each_s
        self._began = time.monotonic()
        self._since = self._began
        self._words: Words | None = None
        self._status: Status | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def say(self, words: Words | str) -> None:
        """Say from now on `words`; a string is followed by the seconds since the beginning."""
        if self._console is None:
            return
        with self._lock:
            self._since = time.monotonic()
            self._words = words if callable(words) else lambda _: f"{words}, {self.elapsed_s:.0f} s"
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        elif self._console.is_terminal:
            self._show()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def hide(self) -> None:
        """Take the moving line away, so that something else can be printed."""
        with self._lock:
            self._words = None
            if self._status is not None:
                self._status.stop()
                self._status = None

    def close(self) -> None:
        """Take the line away and say no more until `say` is called."""
        self._ended.set()
        self.hide()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_TICK_S * 2)
        self._thread = None

    def _run(self) -> None:
        assert self._console is not None
        terminal = self._console.is_terminal
        ended = self._ended
        while not ended.wait(_TICK_S if terminal else self._each_s):
            if terminal:
                self._show()
                continue
            with self._lock:
                words = self._text()
            if words:
                self._console.print(Text(f"cuassay: {words}"), soft_wrap=True)

    def _text(self) -> str:
        if self._words is None:
            return ""
        return one_line(self._words(time.monotonic() - self._since), limit=_LIMIT)

    def _show(self) -> None:
        assert self._console is not None
        with self._lock:
            text = self._text()
            if not text or self._ended.is_set() or self.elapsed_s < self._after_s:
                return
            shown = Text(text)
            shown.truncate(max(20, self._console.width - 4), overflow="ellipsis")
            if self._status is None:
                self._status = self._console.status(shown)
                self._status.start()
            else:
                self._status.update(shown)
