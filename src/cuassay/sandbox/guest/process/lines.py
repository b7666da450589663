"""Which of a candidate's lines calls in a worker run: of its Python, and of its C++ host code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cuassay.build.cuda.host_lines import HOST_LINES
from cuassay.sandbox.guest.observe.operators import OPERATORS
from cuassay.sandbox.guest.process.notes import follow, watch


class Lines:
    """The candidate's lines that calls run, and what expressions come to; see `notes`.

    Made before the candidate is loaded. On a GPU calls in a process apart tell the latter.
    """

    def __init__(self, sources: str, *, values: bool) -> None:
        self._lines, self._values = follow(sources), watch(sources) if values else None
        self._on = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note what the block runs of what lies below the folder of the sources.

        A block within another one is part of that.
        """
        if self._on:
            yield
            return
        self._on = True
        if self._values is not None:
            self._values[0]()
        HOST_LINES.begin()
        self._lines[0]()
        try:
            yield
        finally:
            self._lines[1]()
            HOST_LINES.end()
            if self._values is not None:
                self._values[1]()
            self._on = False

    def found(self) -> dict[str, Any]:
        """Return what was noted and not yet returned."""
        values = {} if self._values is None else self._values[2]()
        host = {"host": HOST_LINES.found(), "operators": OPERATORS.found()}
        return self._lines[2]() | values | host

    def forget(self) -> None:
        """Begin anew."""
        HOST_LINES.forget()
        self._lines[3]()
        if self._values is not None:
            self._values[3]()
