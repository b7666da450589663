"""A trace is set aside for a block, in threads that it starts too, and goes on after it."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from cuassay.build.untraced import untraced


def inner() -> None:
    """Something to call."""


@untraced()
def decorated() -> None:
    """Call on this thread and on another."""
    inner()
    thread = threading.Thread(target=inner)
    thread.start()
    thread.join()


def test_what_the_block_calls_is_not_traced_and_what_follows_is() -> None:
    seen: list[tuple[str, int]] = []

    def called(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is inner.__code__:
            seen.append((event, len(seen)))
        return called

    before = sys.gettrace(), threading.gettrace()
    sys.settrace(called)
    threading.settrace(called)
    try:
        decorated()
        kept = list(seen)
        same = sys.gettrace() is called and threading.gettrace() is called
        inner()
    finally:
        sys.settrace(before[0])
        threading.settrace(before[1])
    assert kept == []
    assert same
    assert seen
