"""Start a judge process for a job and yield its events; keep them in the run folder.

The driver holds no torch: the judge does the numerics in a process of its own and writes one
event a line to a pipe that nothing else holds. Whatever happens to the judge, the lines that
arrived are already in the run folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cuassay.engine.judge_process import JudgeProcess
from cuassay.engine.kept_judge import KeptJudge
from cuassay.engine.served import ServedJudge, served
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.device import Device
from cuassay.model.events import Document, EngineFinished, EngineStopped, Event, Progress
from cuassay.model.jobs import LOG, Job, ReplayJob, RunJob, ShowJob, TrialJob
from cuassay.store.runs import RunFolder, open_run

_SHARED: list[KeptJudge] = []  # of the blocks of `one_judge` that are open


def check(
    job: RunJob,
    *,
    folder: Path | None = None,
    judge: JudgeProcess | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Iterator[Event]:
    """Judge one candidate; yield typed events, the last EngineFinished or EngineStopped.

    `folder` is the place of the run folder (default: a new one below cuassay's home), `judge` a
    spare one that waits for its job. `environment` is added to the judge's. After `timeout_s`
    seconds the trial is stopped without a verdict; its own budget ends before.
    """
    if timeout_s is not None and isinstance(job, TrialJob):
        job = job.to_end_within(timeout_s)
    run = RunFolder.create(job, path=folder)
    job = dataclasses.replace(job, run_dir=str(run.path))
    try:
        process: JudgeProcess | ServedJudge | None
        if judge is not None:
            if judge.is_used:  # it goes on in the log of this run by itself
                judge.log = run.path / LOG
            elif judge.log is not None:  # a spare judge's log moves into the run of its first job
                try:
                    judge.log = judge.log.replace(run.path / LOG)
                except OSError:
                    judge.log = None
            process = judge
        else:
            # An audit's lanes have environments and judges of their own.
            process = served(job) if environment is None else None
            if process is None and environment is None and _SHARED:
                yield from _in_shared(job, run, _SHARED[-1], timeout_s=timeout_s)
                return
            process = process or JudgeProcess(log=run.path / LOG, environment=environment)
        yield from _drive(job, run, process, timeout_s=timeout_s)
    finally:
        run.close()


@contextmanager
def one_judge() -> Iterator[None]:
    """Let the trials of this block, one after another, share a judge where they may."""
    with KeptJudge() as kept:
        _SHARED.append(kept)
        try:
            yield
        finally:
            _SHARED.pop()


def _in_shared(
    job: RunJob, run: RunFolder, kept: KeptJudge, *, timeout_s: float | None
) -> Iterator[Event]:
    judge = kept.take(job)
    if judge is None:
        judge = JudgeProcess(log=run.path / LOG, stays=True)
    else:
        judge.log = run.path / LOG
    last: Event | None = None
    try:
        for last in _drive(job, run, judge, timeout_s=timeout_s):
            yield last
    finally:
        kept.keep(judge, last)


def replay(where: str, *, device: Device | None = None, export: str = "") -> Iterator[Event]:
    """Run a recorded finding (RUN/F1), or every finding of a run, again.

    `export` is the path of a program to write that shows the finding. Raises UsageError where
    nothing recorded matches `where`.
    """
    recorded = open_run(where)
    if export and recorded.finding is None:
        raise UsageError(f"--export writes one finding; name it, as in {where}/F1")
    job = recorded.job()
    place = recorded.path if recorded.finding is None else recorded.finding_path()
    again = ReplayJob(
        problem=job.problem,
        candidate=job.candidate,
        finding=str(place),
        export=str(Path(export).absolute()) if export else "",
        profile=job.profile,
        device=device or job.device,
        seed=job.seed,
        strict=job.strict,
        hide=job.hide,
    )
    yield from check(again)


def show_problem(where: str, *, strict: bool = False) -> Mapping[str, Any]:
    """Return the document of `cuassay problem show --json`.

    Runs the lifted reference on the smallest workload in a judge process. Raises UsageError
    or CannotJudgeError with the judge's message.
    """
    return document(ShowJob(problem=where, strict=strict), lambda text: None)


def document(
    job: Job,
    progress: Callable[[str], None],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Mapping[str, Any]:
    """Run a job that ends in a document, and return that.

    `progress` gets a line now and then. Raises UsageError or CannotJudgeError with the judge's
    message; what a loop finished before is kept, and the same job goes on from there.
    """
    process = JudgeProcess(log=None, environment=environment)
    for event in _drive(job, None, process, timeout_s=timeout_s):
        match event:
            case Document(text=text):
                found: Mapping[str, Any] = json.loads(text)
                return found
            case Progress(text=text):
                progress(text)
            case EngineStopped(exit_code=code, message=message):
                raise (UsageError if code == 2 else CannotJudgeError)(message)
    raise CannotJudgeError("the judge ended without a document")


def _drive(
    job: Job, run: RunFolder | None, process: JudgeProcess | ServedJudge, *, timeout_s: float | None
) -> Iterator[Event]:
    ended = False
    try:
        process.submit(job, timeout_s=timeout_s)
        for event in process.events():
            ended = isinstance(event, EngineFinished | EngineStopped | Document)
            if run is not None:
                run.append(event)
            yield event
            if ended:
                return  # what is left to it is to close what it opened
        if process.timed_out:
            death = (
                f"stopped after {timeout_s:g} s, the time that one candidate is given: no verdict"
            )
        else:
            where = f"; what it finished is in {run.path}" if run is not None else ""
            line = process.last_line()
            tail = f"; its last line was: {line}" if line else ""
            death = f"{process.death()}{where}{tail}"
        last = EngineStopped(exit_code=3, message=death)
        if run is not None:
            run.append(last)
        yield last
    finally:
        if ended:
            process.leave()
        else:
            process.stop()
