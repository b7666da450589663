"""Ask the oracle's process; start it when it is first needed and again when it has died."""

from __future__ import annotations

import contextlib
import math
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from cuassay.errors import CuassayError
from cuassay.model import serial
from cuassay_guard.sampled import oracle_process
from cuassay_guard.sampled.checker import CHECKER
from cuassay_guard.sampled.judging import Judgement
from cuassay_guard.sampled.oracle_process import OracleReply, OracleRequest

_SHARED = Path("/dev/shm")
_PATIENCE = 3  # failures to start in a row, after which it is left alone for a while
_PAUSE_S = 300.0


class OracleGoneError(Exception):
    """No judgement could be had; `lost` says that the operator cannot be loaded there at all."""

    def __init__(self, why: str, *, lost: bool = False) -> None:
        self.lost = lost
        super().__init__(why)


class OracleProcess:
    """The one oracle's process of this process, shared by all guards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._owner = os.getpid()
        self._failures, self._paused_until = 0, 0.0
        self._buffer = b""

    def ask(
        self, request: OracleRequest, tensors: dict[str, Sequence[Tensor]], *, timeout_s: float
    ) -> Judgement:
        """Return the judgement of one call. Raises OracleGoneError.

        `tensors` maps in, got and want to CPU tensors.
        """
        if self._owner != os.getpid():  # a forked child has no pipe of its own
            self.__init__()  # type: ignore[misc]
        with self._lock:
            if time.monotonic() < self._paused_until:
                raise OracleGoneError("the oracle's process failed to start; trying again later")
            try:
                found = self._exchange(request, tensors, timeout_s)
            except (OSError, ValueError, EOFError, CuassayError) as failure:
                self._stop()
                self._failures += 1
                if self._failures >= _PATIENCE:
                    self._paused_until, self._failures = time.monotonic() + _PAUSE_S, 0
                raise OracleGoneError(f"the oracle's process failed: {failure}") from failure
        self._failures = 0
        if found.judgement is None:
            raise OracleGoneError(found.error, lost=found.lost)
        return found.judgement

    def abort(self) -> None:
        """Kill the process at once, also while another thread waits for its answer."""
        process = self._process
        self._paused_until = math.inf
        if process is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                process.kill()

    def close(self) -> None:
        """End the process; a later question starts another."""
        with self._lock:
            self._stop()

    def _exchange(
        self, request: OracleRequest, tensors: dict[str, Sequence[Tensor]], timeout_s: float
    ) -> OracleReply:
        from dataclasses import replace

        from safetensors.torch import save_file

        if self._process is not None and self._process.poll() is None:
            process = self._process
        else:
            self._stop()
            shared = _SHARED if os.access(_SHARED, os.W_OK) else None
            self._folder = tempfile.TemporaryDirectory(
                prefix="cuassay-guard-", dir=shared, ignore_cleanup_errors=True
            )
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cuassay_guard.sampled.oracle_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=oracle_process.process_environment(),
            )
            process = self._process
        assert self._folder is not None
        file = Path(self._folder.name) / "call.safetensors"
        named = {
            f"{kind}{index}": tensor.contiguous()
            for kind, part in tensors.items()
            for index, tensor in enumerate(part)
        }
        save_file(named, str(file))
        assert process.stdin is not None
        line = serial.dumps(replace(request, file=str(file))).replace("\n", " ")
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        found: OracleReply = serial.loads(OracleReply, self._line(process, timeout_s))
        return found

    def _line(self, process: subprocess.Popen[bytes], timeout_s: float) -> str:
        assert process.stdout is not None
        until = time.monotonic() + timeout_s
        descriptor = process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise EOFError(f"no answer within {timeout_s:g} s")
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise EOFError(f"it ended with code {process.wait(timeout=5)}")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def _stop(self) -> None:
        process, self._process, self._buffer = self._process, None, b""
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()


ORACLE = OracleProcess()
CHECKER.at_stop(ORACLE.abort)
CHECKER.at_stop(ORACLE.close, after=True)
