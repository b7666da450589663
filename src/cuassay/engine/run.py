"""Start a judge process for a job and yield its events; keep them in the run folder.

The driver holds no torch: the judge does the numerics in a process of its own and writes one
event a line to a pipe that nothing else holds. Whatever happens to the judge, the lines that
arrived are already in the run folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cuassay.engine.job import Job
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.home import cache_dir
from cuassay.model import serial
from cuassay.model.events import Document, EngineFinished, EngineStopped, Event, Progress
from cuassay.store.runs import RunFolder, open_run

_LOG_TAIL_BYTES = 4096


def check(job: Job) -> Iterator[Event]:
    """Judge one candidate; yield typed events, the last EngineFinished or EngineStopped."""
    run = RunFolder.create(job)
    try:
        yield from _drive(dataclasses.replace(job, run_dir=str(run.path)), run)
    finally:
        run.close()


def replay(where: str, *, device: str | None = None) -> Iterator[Event]:
    """Run a recorded finding (RUN/F1), or every finding of a run, again.

    Raises UsageError where nothing recorded matches `where`.
    """
    recorded = open_run(where)
    job = recorded.job()
    again = dataclasses.replace(
        job,
        mode="replay",
        replay=str(recorded.path if recorded.finding is None else recorded.finding_path()),
        device=device or job.device,
    )
    yield from check(again)


def show_problem(where: str, *, lenient: bool = False) -> Mapping[str, Any]:
    """Return the document of `cuassay problem show --json`.

    Runs the lifted reference on the smallest workload in a judge process. Raises UsageError
    or CannotJudgeError with the judge's message.
    """
    return _document(Job(problem=where, lenient=lenient, mode="show"), lambda text: None)


def measure_power(job: Job, *, progress: Callable[[str], None]) -> Mapping[str, Any]:
    """Return the document of `cuassay power`: what a problem's inputs can tell apart.

    `progress` gets a line now and then. Raises UsageError or CannotJudgeError with the judge's
    message.
    """
    return _document(dataclasses.replace(job, mode="power"), progress)


def _document(job: Job, progress: Callable[[str], None]) -> Mapping[str, Any]:
    """Run a job that ends in a document."""
    for event in _drive(job, None):
        match event:
            case Document(text=text):
                document: Mapping[str, Any] = json.loads(text)
                return document
            case Progress(text=text):
                progress(text)
            case EngineStopped(exit_code=code, message=message):
                raise (UsageError if code == 2 else CannotJudgeError)(message)
    raise CannotJudgeError("the judge ended without a document")


def _drive(job: Job, run: RunFolder | None) -> Iterator[Event]:
    reader, writer = os.pipe()
    with _log(run) as log:
        process = _start(job, writer, log)
        os.close(writer)
        try:
            ended = False
            for event in _events(reader):
                ended = ended or isinstance(event, EngineFinished | EngineStopped | Document)
                if run is not None:
                    run.append(event)
                yield event
            process.wait()
            if not ended:
                last = EngineStopped(exit_code=3, message=_death(process, run))
                if run is not None:
                    run.append(last)
                yield last
        finally:
            _stop(process)


@contextlib.contextmanager
def _log(run: RunFolder | None) -> Iterator[Any]:
    """Yield where the judge's own stdout and stderr go: never to the user's stdout."""
    if run is None:
        yield subprocess.DEVNULL
        return
    try:
        with (run.path / "judge.log").open("ab") as file:
            yield file
    except OSError:
        yield subprocess.DEVNULL


def _start(job: Job, writer: int, log: Any) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    # Threads that spin while they wait make a trial on a busy machine many times slower.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    environment |= _bytecode_folder()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "cuassay.judge", str(writer)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        pass_fds=(writer,),
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(serial.dumps(job).encode())
        process.stdin.close()
    return process


def _bytecode_folder() -> dict[str, str]:
    """Return where bytecode goes if torch was installed without any, as many images have it.

    Compiling torch's sources takes two seconds of every start otherwise.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None or sys.pycache_prefix is not None:
        return {}
    if Path(importlib.util.cache_from_source(found.origin)).is_file():
        return {}
    return {
        "PYTHONPYCACHEPREFIX": str(cache_dir() / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }


def _events(reader: int) -> Iterator[Event]:
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                event: Event = serial.loads(Event, line.decode())
                yield event


def _death(process: subprocess.Popen[bytes], run: RunFolder | None) -> str:
    code = process.returncode
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    where = f"; what it finished is in {run.path}" if run is not None else ""
    return f"the judge process ended without a verdict ({how}){where}{_tail(run)}"


def _tail(run: RunFolder | None) -> str:
    try:
        text = (run.path / "judge.log").read_bytes()[-_LOG_TAIL_BYTES:] if run else b""
    except OSError:
        return ""
    lines = text.decode(errors="replace").strip().splitlines()
    return f"; its last line was: {lines[-1]}" if lines else ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the judge and all of its process group; workers die with it (parent-death signal)."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def fresh_seed() -> int:
    """Return 63 bits of operating-system entropy: a trial's secret root seed."""
    return secrets.randbits(63)
