"""Judges that are ready before their job is known, for callers that ask again and again.

A lane is a place for one trial at a time, a GPU or a share of the processors. Each lane keeps
one judge waiting: torch is imported and the workers' zygote is up. The judge of the last trial
stays too, for the next candidate of the same problem.
"""

from __future__ import annotations

import dataclasses
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cuassay.closing import Closing
from cuassay.engine import run
from cuassay.engine.executors import DeviceLane
from cuassay.engine.judge_process import JudgeProcess
from cuassay.engine.kept_judge import KeptJudge
from cuassay.errors import CannotJudgeError
from cuassay.model.device import CPU, Device
from cuassay.model.events import DecisionReached, Event
from cuassay.model.jobs import TrialJob
from cuassay.store.place import absolute, working_folder


@dataclass(slots=True, kw_only=True)
class Turn:
    """A trial on a lane: its judge, and the event that it said last."""

    lane: DeviceLane
    judge: JudgeProcess
    last: Event | None = None


class WarmPool(Closing):
    """Lanes with a waiting judge each. Use it as a context manager, from any threads."""

    def __init__(self, lanes: Sequence[DeviceLane]) -> None:
        self._lanes: queue.LifoQueue[DeviceLane] = queue.LifoQueue()  # the warmest first
        self._logs = tempfile.TemporaryDirectory(prefix="cuassay-pool-")
        self._waiting: dict[str, JudgeProcess] = {}
        self._kept = {lane.name: KeptJudge() for lane in lanes}
        self._running: set[JudgeProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._here = working_folder()  # from where waiting judges read relative paths
        for lane in lanes:
            self._warm(lane)
            self._lanes.put(lane)

    def check(self, job: TrialJob, *, timeout_s: float | None = None) -> Iterator[Event]:
        """Judge one candidate on the next free lane; yield its events as `engine.run` does.

        Waits for a lane. Raises CannotJudgeError once the pool is closed.
        """
        lane = self._lanes.get()
        placed = dataclasses.replace(job, device=lane.device)
        if working_folder() != self._here:
            placed = dataclasses.replace(
                placed, problem=absolute(job.problem), candidate=absolute(job.candidate)
            )
        try:
            with self.turn(lane, placed) as turn:
                for event in run.check(placed, judge=turn.judge, timeout_s=timeout_s):
                    self.saw(turn, event)
                    yield event
        finally:
            self._lanes.put(lane)

    def saw(self, turn: Turn, event: Event) -> None:
        """Take note of what the judge of a turn says.

        The next judge of a lane starts where the one that runs has decided: what follows a decision
        keeps no more than one processor busy.
        """
        turn.last = event
        if isinstance(event, DecisionReached):
            self._warm(turn.lane)

    @contextmanager
    def borrow(self, device: Device | None) -> Iterator[DeviceLane | None]:
        """Yield a lane for `device` (None: any); None where none is free."""
        lane = self._free(device)
        try:
            yield lane
        finally:
            if lane is not None:
                self._lanes.put(lane)

    def _free(self, device: Device | None) -> DeviceLane | None:
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
    def turn(self, lane: DeviceLane, job: TrialJob) -> Iterator[Turn]:
        """Yield a judge for a job on a lane: the one before, where the problem is the same.

        Raises CannotJudgeError once the pool is closed.
        """
        kept = self._kept[lane.name]
        judge: JudgeProcess | None = None
        turn: Turn | None = None
        try:
            with self._lock:
                if self._closed:
                    raise CannotJudgeError("the pool of judges is closed; make a new one")
            judge = kept.take(job)
            if judge is None:
                with self._lock:
                    judge = self._waiting.pop(lane.name, None)
            if judge is None or not judge.alive:
                if judge is not None:
                    judge.stop()
                judge = self._start(lane)
            with self._lock:
                if self._closed:
                    raise CannotJudgeError("the pool of judges is closed; make a new one")
                self._running.add(judge)
            turn = Turn(lane=lane, judge=judge)
            yield turn
        finally:
            if judge is not None:
                with self._lock:
                    self._running.discard(judge)
                kept.keep(judge, turn.last if turn is not None else None)
                if self._closed:
                    kept.close()
            self._warm(lane)

    def close(self) -> None:
        """End the waiting judges and the running ones; their callers get no verdict."""
        with self._lock:
            self._closed = True
            waiting, running = list(self._waiting.values()), list(self._running)
            self._waiting.clear()
        for judge in running:
            judge.kill()
        for kept in self._kept.values():
            kept.close()
        for judge in waiting:
            judge.stop()
        self._logs.cleanup()

    def _warm(self, lane: DeviceLane) -> None:
        with self._lock:
            if not self._closed and lane.name not in self._waiting:
                self._waiting[lane.name] = self._start(lane)

    def _start(self, lane: DeviceLane) -> JudgeProcess:
        log = Path(self._logs.name) / f"{lane.name.replace(':', '-')}-{time.monotonic_ns()}.log"
        wish = {"device": lane.device or CPU, "hide": []}
        return JudgeProcess(log=log, environment=lane.environment, prewarm=wish, stays=True)
