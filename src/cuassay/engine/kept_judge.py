"""A judge that stays after its trial, for the next candidate of the same problem.

What it has then need not be made again: Python with torch, a CUDA context with its kernels, the
process that workers are forked from, and with one seed the truths of the problem. A judge imports
the code of a problem, so it takes no other problem, nor the same one once its files have changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cuassay.closing import Closing
from cuassay.engine.judge_process import JudgeProcess
from cuassay.engine.served import identity
from cuassay.model.device import Device
from cuassay.model.events import EngineFinished, EngineStopped, Event
from cuassay.model.jobs import Job, TrialJob
from cuassay.store.place import locate, working_folder

_Files: TypeAlias = tuple[tuple[str, int, int], ...]  # path, bytes, time of the last change
_MOST_FILES = 500  # of a problem's folder that are looked at
_CLOSES_S = 30.0  # the longest that a judge takes to close what a trial opened


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a job needs of its judge: two that are equal may have the same one.

    `here` is the folder from which relative paths are read, `settings` are those of the
    environment: a judge has both from its start.
    """

    here: str
    settings: tuple[tuple[str, str], ...]
    problem: str
    files: _Files
    device: Device | None
    strict: bool
    hide: tuple[str, ...]
    within: tuple[str, ...]
    no_sandbox: bool
    arch: str


class KeptJudge(Closing):
    """Holds one judge between trials. `take` one, run a trial, then `keep` it."""

    def __init__(self) -> None:
        self._judge: JudgeProcess | None = None
        self._for: _Wanted | None = None  # of the trial that ran last
        self._now: _Wanted | None = None  # of the trial that was asked for last

    def take(self, job: Job) -> JudgeProcess | None:
        """Return the judge, if it is there and can judge this; waits until it has closed all."""
        self._now = _wanted(job)
        judge, self._judge = self._judge, None
        if judge is None:
            return None
        if self._now is not None and self._now == self._for and judge.goes_on(_CLOSES_S):
            return judge
        judge.retire()
        return None

    def keep(self, judge: JudgeProcess, last: Event | None) -> None:
        """Keep a judge whose trial ended with the event `last`; end it where that is no verdict."""
        if isinstance(last, EngineFinished) and self._now is not None:
            self._judge, self._for = judge, self._now
        elif isinstance(last, EngineStopped):
            judge.retire()
        else:
            judge.stop()

    def fits(self, job: Job) -> bool:
        """Whether a judge is kept that this job may have."""
        return self._judge is not None and self._for == _wanted(job)

    def close(self) -> None:
        """End the judge that is kept, if any."""
        if self._judge is not None:
            self._judge.stop()
            self._judge = None


def _wanted(job: Job) -> _Wanted | None:
    """Return what a job needs of its judge; None where its problem's files are not known."""
    if not isinstance(job, TrialJob) or job.recorded:
        return None
    place = locate(job.problem)
    if place is None and ":" in job.problem:
        return None  # a module, found by the import system
    here = working_folder()
    if here is None:
        return None
    kernel = Path(job.candidate.partition("::")[0]).expanduser().absolute()
    files: list[tuple[str, int, int]] = []
    own = place.path if place is not None else None
    for path in _files_of(own) if own is not None else ():
        if path.absolute() == kernel and path != own:
            continue  # a kernel beside its problem is what changes
        try:
            status = path.stat()
        except OSError:
            return None
        files.append((str(path), status.st_size, status.st_mtime_ns))
        if len(files) > _MOST_FILES:
            return None
    return _Wanted(
        here=here,
        settings=tuple(sorted(identity()["settings"].items())),
        problem=job.problem,
        files=tuple(sorted(files)),
        device=job.device,
        strict=job.strict,
        hide=job.hide,
        within=job.within,
        no_sandbox=job.no_sandbox,
        arch=job.arch,
    )


def _files_of(path: Path) -> Iterator[Path]:
    """Yield what a problem may read: the files of its folder, also of that beside its file."""
    for folder, below, names in os.walk(path if path.is_dir() else path.parent):
        below[:] = [name for name in below if name != "__pycache__" and name[:1] != "."]
        yield from (Path(folder, name) for name in names)
