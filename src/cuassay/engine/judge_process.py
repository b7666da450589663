"""A judge as the driver sees it: a process group that takes a job and answers with events.

With `prewarm` a judge is started before its job is known: it imports torch and starts its zygote
while another judges, then waits for the job on its standard input.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from cuassay.engine.allowance import Deadline
from cuassay.home import cache_dir
from cuassay.model import serial
from cuassay.model.events import Event
from cuassay.model.jobs import Job

_TERMINATE_S = 5.0
_LEFT_S = 30.0  # for closing what a trial opened
_TAIL_BYTES = 4096
COMMAND = (sys.executable, "-P", "-m", "cuassay.judge")
PREWARM, DRIVER, STARTED = "CUASSAY_PREWARM", "CUASSAY_DRIVER", "CUASSAY_STARTED"
READY = b"\n"  # what a judge says once it has closed what a job opened


class JudgeProcess:
    """One judge. `log` is where its own output goes; None for nowhere.

    One that `stays` takes another job after a verdict, once it `goes_on`; who holds it ends it.
    """

    def __init__(
        self,
        *,
        log: Path | None,
        environment: Mapping[str, str] | None = None,
        prewarm: Mapping[str, object] | None = None,
        stays: bool = False,
    ) -> None:
        self.log, self._stays = log, stays
        self.is_used = False
        self.timed_out = False
        self._allowance: Deadline | None = None
        reader, writer = os.pipe()
        with _opened(log) as sink:
            variables = dict(os.environ) | dict(environment or {})
            root = str(Path(__file__).resolve().parents[2])
            paths = [root, *filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))]
            variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
            # Threads that spin while they wait make a trial on a busy machine many times slower.
            variables.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            variables[DRIVER] = str(os.getpid())
            variables[STARTED] = repr(time.time())  # its Python starts and imports from now on
            variables.pop(PREWARM, None)
            if prewarm is not None:
                variables[PREWARM] = json.dumps(prewarm)
            self._process = subprocess.Popen(
                [*COMMAND, str(writer)],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                pass_fds=(writer,),
                env=variables | _bytecode_folder(),
                start_new_session=True,
            )
        os.close(writer)
        self._lines = os.fdopen(reader, "rb")

    def submit(self, job: Job, *, timeout_s: float | None = None) -> None:
        """Hand over the job; after `timeout_s` of its own the judge and its workers are killed."""
        assert self._process.stdin is not None
        self.is_used = True
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(serial.dumps(job).encode() + b"\n")
            if self._stays:
                self._process.stdin.flush()
            else:
                self._process.stdin.close()
        self._allowance = Deadline(timeout_s, self._expire)

    def events(self) -> Iterator[Event]:
        """Yield what it says until it ends; a line cut short by its death is left out."""
        for line in self._lines:
            if line.endswith(b"\n"):
                event: Event = serial.loads(Event, line.decode())
                if self._allowance is not None:
                    self._allowance.note(event)
                yield event
        self._process.wait()

    def goes_on(self, limit_s: float) -> bool:
        """Wait until it has closed what its job opened; return whether it takes another one.

        It is killed where it has not closed everything after `limit_s`.
        """
        if not self._stays:
            return False
        closes = Deadline(limit_s, self.kill)
        try:
            return any(line == READY for line in self._lines)
        finally:
            closes.cancel()

    def retire(self) -> None:
        """Let it end in the background: it gets no other job."""
        self._stays = False
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self.leave()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def death(self) -> str:
        """Return in words how it ended."""
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"the judge process ended without a verdict ({how})"

    def last_line(self) -> str:
        """Return the last line of its log, or nothing."""
        try:
            text = self.log.read_bytes()[-_TAIL_BYTES:] if self.log else b""
        except OSError:
            return ""
        lines = text.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def leave(self) -> None:
        """Let it end by itself, in the background: it has said its last word.

        Its workers, and their contexts on a GPU, take a while to end. One that stays goes on.
        """
        if self._allowance is not None:
            self._allowance.cancel()
        if self._stays:
            return

        def end() -> None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_LEFT_S)
            self.stop()

        threading.Thread(target=end, name="a judge that ends", daemon=True).start()

    def stop(self) -> None:
        """End it and its process group; workers die with it (parent-death signal)."""
        if self._allowance is not None:
            self._allowance.cancel()
        if self.alive:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=_TERMINATE_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._lines.close()

    def kill(self) -> None:
        """Kill it and its process group at once, from any thread."""
        if self.alive:
            self._signal(signal.SIGKILL)

    def _expire(self) -> None:
        self.timed_out = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@contextlib.contextmanager
def _opened(log: Path | None) -> Iterator[int | IO[bytes]]:
    """Yield where a judge's own stdout and stderr go: never to the user's stdout."""
    if log is None:
        yield subprocess.DEVNULL
        return
    try:
        file = log.open("ab")
    except OSError:
        yield subprocess.DEVNULL
        return
    with file:
        yield file


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
