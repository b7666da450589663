"""A reference or generator that never returns: the trial ends with one message."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cuassay.model.events import EngineStopped, Event

# Far beyond what the smallest case of an honest reference takes, on a machine that others use too.
LIMIT_S = 600.0
_CODE = 3  # inconclusive: nothing is known of the kernel


@contextmanager
def ended_where_stuck(
    emit: Callable[[Event], None],
    what: str,
    *,
    progress: Callable[[], object] = lambda: None,
    limit_s: float = LIMIT_S,
) -> Iterator[None]:
    """End this process with one message where the block makes no progress for `limit_s`.

    Progress is whatever changes what `progress` returns. Code of a user cannot be stopped from
    within a process, so the process ends; whoever started it has the message by then.
    """
    done = threading.Event()

    def watch() -> None:
        seen, since = progress(), time.monotonic()
        while not done.wait(min(1.0, limit_s / 4)):
            now = progress()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > limit_s:
                message = (
                    f"{what} did not return within {limit_s:g} s: no verdict; correct it, or state "
                    "workloads that it needs less time for"
                )
                emit(EngineStopped(exit_code=_CODE, message=message))
                os._exit(_CODE)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
