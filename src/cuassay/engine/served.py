"""The other end of `cuassay serve`: a trial borrows a waiting judge where one can take it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuassay import __version__
from cuassay.engine.allowance import Deadline
from cuassay.home import home
from cuassay.model import serial
from cuassay.model.events import Event
from cuassay.model.jobs import Job, RunJob, TrialJob
from cuassay.store.place import absolute, locate

_ANSWER_S = 2.0  # a server that says nothing for so long serves nobody
LONGEST_LINE_BYTES = 1 << 20
# What changes how a judge works: a trial with other values must not run in the server's judges.
_NAMES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS", "CC", "CXX")
_PREFIXES = ("CUASSAY_", "PTXSAN_", "CUDA_", "TORCH", "TRITON_", "NVIDIA_", "PYTORCH_")


def socket_place() -> Path:
    """Return where the server of this home listens."""
    return home() / "serve.sock"


def identity() -> dict[str, Any]:
    """Return what server and trial must share: the code and the settings."""
    kept = {k: v for k, v in os.environ.items() if k in _NAMES or k.startswith(_PREFIXES)}
    return {"version": __version__, "code": str(Path(__file__).parents[1]), "settings": kept}


def send(stream: Any, answer: Mapping[str, Any]) -> None:
    stream.write(json.dumps(answer).encode() + b"\n")
    stream.flush()


class ServedJudge:
    """A judge of the server, as `JudgeProcess` is one of this process's own."""

    def __init__(self, connection: socket.socket, stream: Any) -> None:
        self._connection, self._stream = connection, stream
        self._allowance: Deadline | None = None
        self.timed_out = False

    def submit(self, job: Job, *, timeout_s: float | None = None) -> None:
        """Hand over the job; after `timeout_s` of its own the server ends the trial."""
        # The server's working directory is another.
        assert isinstance(job, TrialJob), "`served` hands out judges for trials alone"
        there = dataclasses.replace(
            job, problem=absolute(job.problem), candidate=absolute(job.candidate)
        )
        with contextlib.suppress(OSError):
            self._stream.write(serial.dumps(there).encode() + b"\n")
            self._stream.flush()
        self._allowance = Deadline(timeout_s, self._expire)

    def events(self) -> Iterator[Event]:
        """Yield what the judge says until it ends."""
        with contextlib.suppress(OSError):
            for line in self._stream:
                if line.endswith(b"\n"):
                    event: Event = serial.loads(Event, line.decode())
                    if self._allowance is not None:
                        self._allowance.note(event)
                    yield event

    def death(self) -> str:
        """Return in words how it ended."""
        return "the judge, or the `cuassay serve` that held it, ended without a verdict"

    def last_line(self) -> str:
        """Return nothing: the server keeps its judges' logs."""
        return ""

    def leave(self) -> None:
        """Go away: it has said its last word."""
        self.stop()

    def stop(self) -> None:
        """End the trial."""
        if self._allowance is not None:
            self._allowance.cancel()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()

    def _expire(self) -> None:
        self.timed_out = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def served(job: RunJob) -> ServedJudge | None:
    """Return a judge of this home's server for a trial; None where none can take it."""
    path = socket_place()
    if not isinstance(job, TrialJob) or not path.exists():
        return None
    if ":" in job.problem and locate(job.problem) is None:
        return None  # a module: found from this process's working directory alone
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_ANSWER_S)
        connection.connect(str(path))
        stream = connection.makefile("rwb")
        send(stream, {**identity(), "device": job.device})
        answer = json.loads(stream.readline(LONGEST_LINE_BYTES) or b"{}")
        if "lane" in answer:
            connection.settimeout(None)
            return ServedJudge(connection, stream)
        stream.close()
    except (OSError, ValueError):
        pass  # a server that is ending, or not ours
    connection.close()
    return None
