"""A judge in the test's own process, for tests of what is judged and said, not of the process.

A judge of its own imports torch and starts what workers are forked from: three seconds of a
processor, for a message that takes a hundredth. Jobs and events pass as text, as they do on the
pipe; workers are processes as always.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cuassay.judge.entry import _guarded, _Place
from cuassay.model import serial
from cuassay.model.events import Event
from cuassay.model.jobs import Job
from cuassay.sandbox.host.nursery import Nursery


class JudgeHere:
    """Stands for `engine.judge_process.JudgeProcess`; `nursery` gives what workers come from."""

    timed_out = False

    def __init__(
        self,
        nursery: Callable[[], Nursery],
        *,
        log: Path | None,
        environment: Mapping[str, str] | None = None,
        stays: bool = False,
    ) -> None:
        assert not environment, "a judge with an environment needs a process"
        self._nursery, self._job = nursery, ""
        self.log = log

    def submit(self, job: Job, *, timeout_s: float | None = None) -> None:
        """Take the job."""
        assert timeout_s is None, "a judge that is stopped needs a process"
        self._job = serial.dumps(job)

    def events(self) -> Iterator[Event]:
        """Do the job, then yield what was said."""
        said: list[str] = []
        job: Job = serial.loads(Job, self._job)
        place = _Place(0, self._nursery())
        _guarded(job, lambda event: said.append(serial.dumps(event)), time.time(), place)
        for text in said:
            event: Event = serial.loads(Event, text)
            yield event

    def death(self) -> str:
        """Say that it ended without a verdict."""
        return "the judge ended without a verdict"

    def last_line(self) -> str:
        """Return nothing: it has no log."""
        return ""

    def goes_on(self, limit_s: float) -> bool:
        """Return whether it takes another job: there is nothing that it could keep."""
        return False

    def retire(self) -> None:
        """Do nothing: it has ended."""

    def leave(self) -> None:
        """Do nothing: it has ended."""

    def stop(self) -> None:
        """Do nothing: it has ended."""
