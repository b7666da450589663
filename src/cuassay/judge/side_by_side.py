"""Runs below compute-sanitizer, several at a time: each tool has a process of its own anyway.

One tool keeps a core and little of the GPU busy for up to a minute; four after another are the
longest part of a verdict, four at once take as long as the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from cuassay.model.scenario import Scenario
from cuassay.sandbox.host import sanitizer

if TYPE_CHECKING:
    from cuassay.sandbox.ran import Ran


class SideBySide:
    """Results of sanitized scenarios, of which those announced together run together."""

    def __init__(self, start: Callable[[Scenario], Callable[[], Ran]]) -> None:
        """`start` prepares a run in the caller's thread and returns what a thread may do."""
        self._start = start
        self._running: list[tuple[Scenario, Future[Ran]]] = []
        self._pool: ThreadPoolExecutor | None = None

    def ahead(self, scenarios: Sequence[Scenario]) -> None:
        """Begin with those of `scenarios` that run below a tool, unless there is but one."""
        found = [scenario for scenario in scenarios if scenario.mode in sanitizer.TOOLS]
        if len(found) < 2:
            return
        self._pool = self._pool or ThreadPoolExecutor(max_workers=len(sanitizer.TOOLS))
        for scenario in found:
            self._running.append((scenario, self._pool.submit(self._start(scenario))))

    def result(self, scenario: Scenario) -> Ran:
        """Wait for a run that was begun, or do it now."""
        for index, (begun, future) in enumerate(self._running):
            if begun is scenario or begun == scenario:
                del self._running[index]
                return future.result()
        return self._start(scenario)()

    def close(self) -> None:
        """Let what runs come to its end (each has a time limit), and begin nothing more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self._running.clear()
