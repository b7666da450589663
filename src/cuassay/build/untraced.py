"""Keeps a trace of the candidate's lines out of what cuassay or a compiler does for a call."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def untraced() -> Iterator[None]:
    """Run the block, or the function that this decorates, without `sys.settrace`.

    Each of its calls in Python would cost as much again, in threads that it starts too. Frames that
    are traced go on after it.
    """
    trace, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        threading.settrace(in_threads)
        sys.settrace(trace)
