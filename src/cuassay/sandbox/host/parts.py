"""What the seconds of a scenario go into, seen from the judge."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

START = "start"  # a worker is waited for until it has built the candidate
VALUES = "values"  # the judge makes inputs
TO_WORKER = "to worker"  # they are put where the worker finds them
FROM_WORKER = "from worker"  # results are written by the worker and taken over


class Parts:
    """Adds up seconds by name: those above, and the steps that a worker executes by their type."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add what this block takes, also where it raises."""
        started = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + taken
