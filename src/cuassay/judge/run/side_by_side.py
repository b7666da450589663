"""Runs that need neither the judge nor the candidate's worker go on beside it, several at a time.

Below compute-sanitizer one tool keeps a core and little of the GPU busy for up to a minute; four
after another are the longest part of a verdict, four at once take as long as the slowest. A
process apart compiles all that the candidate's worker has compiled already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from cuassay.model.scenario import Scenario
from cuassay.sandbox.host.turns import waiting

if TYPE_CHECKING:
    from cuassay.sandbox.ran import Ran

_AT_ONCE = 4


class SideBySide:
    """Results of scenarios with processes of their own; those announced together run together."""

    def __init__(self, start: Callable[[Scenario], Callable[[], Ran]]) -> None:
        """`start` prepares a run in the caller's thread and returns what a thread may do."""
        self._start = start
        self._running: list[tuple[Scenario, Future[Ran]]] = []
        self._pool: ThreadPoolExecutor | None = None

    def ahead(self, scenarios: Sequence[Scenario]) -> None:
        """Begin with those of these that were not begun, in the order given.

        Each is asked for later, once.
        """
        self._pool = self._pool or ThreadPoolExecutor(max_workers=_AT_ONCE)
        begun = [scenario for scenario, _ in self._running]
        for scenario in scenarios:
            if scenario in begun:
                continue
            self._running.append((scenario, self._pool.submit(self._start(scenario))))

    def result(self, scenario: Scenario) -> Ran:
        """Wait for a run that was begun, or do it now."""
        for index, (begun, future) in enumerate(self._running):
            if begun is scenario or begun == scenario:
                del self._running[index]
                with waiting():
                    return future.result()
        return self._start(scenario)()

    def close(self) -> None:
        """Let what runs come to its end (each has a time limit), and begin nothing more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self._running.clear()
