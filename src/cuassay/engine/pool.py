"""Judges that are ready before their job is known, for callers that ask again and again.

A lane is a place for one trial at a time, a GPU or a share of the processors. Each lane keeps
one judge waiting: torch is imported and the workers' zygote is up. A judge takes one job and
ends; nothing of one trial is left for the next.
"""

from __future__ import annotations

import dataclasses
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cuassay.closing import Closing
from cuassay.engine import run
from cuassay.engine.executors import DeviceLane
from cuassay.engine.judge_process import JudgeProcess
from cuassay.errors import CannotJudgeError
from cuassay.model.events import DecisionReached, Event
from cuassay.model.jobs import TrialJob


class WarmPool(Closing):
    """Lanes with a waiting judge each. Use it as a context manager, from any threads."""

    def __init__(self, lanes: Sequence[DeviceLane]) -> None:
        self._lanes: queue.LifoQueue[DeviceLane] = queue.LifoQueue()  # the warmest first
        self._logs = tempfile.TemporaryDirectory(prefix="cuassay-pool-")
        self._waiting: dict[str, JudgeProcess] = {}
        self._running: set[JudgeProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        for lane in lanes:
            self._warm(lane)
            self._lanes.put(lane)

    def check(self, job: TrialJob, *, timeout_s: float | None = None) -> Iterator[Event]:
        """Judge one candidate on the next free lane; yield its events as `engine.run` does.

        Waits for a lane. Raises CannotJudgeError once the pool is closed.
        """
        with self._judge_on(self._lanes.get()) as (lane, judge):
            placed = dataclasses.replace(job, device=lane.device)
            for event in run.check(placed, judge=judge, timeout_s=timeout_s):
                self.saw(lane, event)
                yield event

    def saw(self, lane: DeviceLane, event: Event) -> None:
        """Let the next judge of a lane start where the one that runs has decided: it is soon due.

        What follows a decision keeps no more than one processor busy.
        """
        if isinstance(event, DecisionReached):
            self._warm(lane)

    @contextmanager
    def borrow(self, device: str | None) -> Iterator[tuple[DeviceLane, JudgeProcess] | None]:
        """Yield a lane for `device` (None: any) with its judge; None where none is free.

        Raises CannotJudgeError once the pool is closed.
        """
        lane = self._free(device)
        if lane is None:
            yield None
            return
        with self._judge_on(lane) as found:
            try:
                yield found
            finally:
                found[1].stop()

    def _free(self, device: str | None) -> DeviceLane | None:
        passed = []
        try:
            while True:
                lane = self._lanes.get_nowait()
                if device in (None, lane.device, lane.name):
                    return lane
                passed.append(lane)
        except queue.Empty:
            return None
        finally:
            for lane in passed:
                self._lanes.put(lane)

    @contextmanager
    def _judge_on(self, lane: DeviceLane) -> Iterator[tuple[DeviceLane, JudgeProcess]]:
        judge: JudgeProcess | None = None
        try:
            with self._lock:
                if self._closed:
                    raise CannotJudgeError("the pool of judges is closed; make a new one")
                judge = self._waiting.pop(lane.name, None)
            if judge is None or not judge.alive:
                if judge is not None:
                    judge.stop()
                judge = self._start(lane)
            with self._lock:
                self._running.add(judge)
            yield lane, judge
        finally:
            with self._lock:
                if judge is not None:
                    self._running.discard(judge)
            self._warm(lane)
            self._lanes.put(lane)

    def close(self) -> None:
        """End the waiting judges and the running ones; their callers get no verdict."""
        with self._lock:
            self._closed = True
            waiting, running = list(self._waiting.values()), list(self._running)
            self._waiting.clear()
        for judge in running:
            judge.kill()
        for judge in waiting:
            judge.stop()
        self._logs.cleanup()

    def _warm(self, lane: DeviceLane) -> None:
        with self._lock:
            if not self._closed and lane.name not in self._waiting:
                self._waiting[lane.name] = self._start(lane)

    def _start(self, lane: DeviceLane) -> JudgeProcess:
        log = Path(self._logs.name) / f"{lane.name.replace(':', '-')}-{time.monotonic_ns()}.log"
        wish = {"device": lane.device or "cpu", "hide": []}
        return JudgeProcess(log=log, environment=lane.environment, prewarm=wish)
