"""The judge's handle of one worker: asks with a deadline, keeps what it prints, sees it end."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import select
import socket
import time
import tty
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuassay.model.steps import Mode
from cuassay.sandbox import processes, trees, wire
from cuassay.sandbox.host.nursery import ForkServer, NurseryError
from cuassay.sandbox.host.unnamed import unnamed_bytes
from cuassay.sandbox.host.waits import await_readable
from cuassay.sandbox.limits import Limits

_GRACE_S = 15.0  # a CUDA context on a busy device takes seconds to end
_SEND_S = 60.0
_COUNT_S = 2.0
_LOOK_S = 1.0  # between two looks at the build cache and at what has no name


class Gone(enum.Enum):
    """Why a worker is of no further use."""

    ENDED = "ended"
    TIMEOUT = "timeout"
    IDLE = "idle"
    GARBLED = "garbled"
    FLOODED = "flooded"
    EXCESS = "excess"


class GoneError(Exception):
    """The worker is of no further use."""

    def __init__(self, kind: Gone, what: str = "") -> None:
        self.kind, self.what = kind, what
        super().__init__(f"{kind.value}: {what}")


class UnbornError(NurseryError):
    """A worker ended before anything of a candidate was loaded: not the candidate's doing."""


def _terminal() -> tuple[int, int]:
    """Return both ends of a terminal that changes nothing of what is written; else of a pipe."""
    try:
        ours, theirs = os.openpty()
    except OSError:  # a system without them
        return os.pipe2(os.O_CLOEXEC)
    tty.setraw(theirs)
    return ours, theirs


class WorkerHandle:
    """One forked worker with its channel and its output pipe."""

    def __init__(
        self,
        nursery: ForkServer,
        *,
        cache: Path,
        limits: Limits,
        mode: Mode = Mode.PLAIN,
        queues: int | None = None,
    ) -> None:
        self._nursery, self._limits = nursery, limits
        self._cache = cache if cache != nursery.folder else None
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel.setblocking(False)
        self._output, write_end = _terminal() if mode is Mode.APART else os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._output, False)
        try:
            self._id, self.folder = nursery.spawn(
                channel=theirs.fileno(),
                output=write_end,
                cache=cache,
                limits=limits,
                mode=mode,
                queues=queues,
            )
        finally:
            theirs.close()
            os.close(write_end)
        self._buffer = bytearray()
        self._printed, self._text = 0, bytearray()
        self._output_open, self._closed = True, False
        self._shared_bytes, self._count_at = 0, 0.0
        self._look_at = time.monotonic() + _LOOK_S
        self._ticks, self._idle_watches = -1, 0
        self.scenarios = 0
        self.build_nonce: str | None = None
        self.built = False
        self.walls: dict[str, str] = {}  # which stood before anything was loaded
        self.context_s = 0.0  # in which the driver made its context, before anything was loaded
        self._unsent = False  # a request met a channel that the worker had closed
        self._hello: str | None = None
        self._hello = self.post({"do": "hello"})

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come from the worker so far: it starts, or builds."""
        if self._hello is None or self._buffer:
            return False
        return not select.select([self._channel], [], [], 0.0)[0]

    def post(self, message: dict[str, Any], fds: Sequence[int] = ()) -> str:
        """Send a request under a fresh nonce, which is returned. Raises GoneError.

        A worker that has closed its channel is told apart from one that ended where its reply is
        waited for.
        """
        self._refuse_unasked()
        nonce = wire.new_nonce()
        self._channel.settimeout(_SEND_S)
        try:
            wire.send(self._channel, {"nonce": nonce, **message}, fds)
        except TimeoutError:
            raise GoneError(Gone.GARBLED, "the worker reads no requests") from None
        except OSError:
            self._unsent = True
        finally:
            self._channel.setblocking(False)
        return nonce

    async def ask(
        self,
        message: dict[str, Any],
        fds: Sequence[int] = (),
        *,
        limit_s: float,
        may_be_idle: bool = True,
    ) -> dict[str, Any]:
        """Send a request and return its reply; see `wait`. Raises GoneError, NurseryError."""
        return await self.wait(self.post(message, fds), limit_s, may_be_idle=may_be_idle)

    async def wait(
        self, nonce: str, limit_s: float, *, may_be_idle: bool = True, more: bool = False
    ) -> dict[str, Any]:
        """Return the reply to `nonce`. Raises GoneError, NurseryError.

        Unless it `may_be_idle`, a worker is given up after `Limits.idle_s` without the processor.
        With `more` another reply to the same request follows this one.
        """
        self._ticks, self._idle_watches = -1, 0
        end = time.monotonic() + limit_s
        watch = time.monotonic() + self._limits.watch_s
        try:
            while True:
                if self._unsent:
                    raise await self._how_it_ended()
                reply = self._whole_reply(nonce, more=more)
                if reply is not None:
                    if not more:
                        self._count_files()
                    return reply
                if self._nursery.has_ended(self._id):
                    self._drain()
                    raise GoneError(Gone.ENDED)
                now = time.monotonic()
                if now >= end:
                    raise GoneError(Gone.TIMEOUT)
                if now >= watch:
                    await self._watch(may_be_idle=may_be_idle)
                    watch = time.monotonic() + self._limits.watch_s
                until = min(end, watch)
                await self._listen(until - now)
                # While others of this judge think, a reply waits: that is no time of the worker's.
                end += max(0.0, time.monotonic() - until)
        except GoneError as error:
            if self._hello is None:
                raise
            text = " ".join(self.take_output().split())[-300:]
            raise UnbornError(f"a worker could not be started ({error}): {text}") from None

    async def _listen(self, limit_s: float) -> None:
        """Take in what comes within the limit."""
        sources: list[Any] = [self._channel, self._nursery.control]
        if self._output_open:
            sources.append(self._output)
        ready = await await_readable(sources, limit_s)
        if self._output in ready:
            self._read_output()
        if self._nursery.control in ready:
            self._nursery.hear()
        if self._channel not in ready:
            return
        try:
            data = self._channel.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise await self._how_it_ended()
        self._buffer += data

    def _whole_reply(self, nonce: str, *, more: bool) -> dict[str, Any] | None:
        if self._hello is not None:  # its reply comes first, and nothing is loaded before it
            hello = self._frame()
            if hello is None:
                return None
            if hello.pop("nonce", None) != self._hello:
                raise GoneError(
                    Gone.GARBLED, "a reply that does not carry the nonce of its request"
                )
            self.walls = {str(k): str(v) for k, v in hello["walls"].items()}
            self.context_s = float(hello.get("context_s", 0.0))
            self._hello = None
        reply = self._frame()
        if reply is None:
            return None
        if reply.pop("nonce", None) != nonce:
            raise GoneError(Gone.GARBLED, "a reply that does not carry this step's nonce")
        if not more:
            self._refuse_unasked()
        return reply

    def _frame(self) -> dict[str, Any] | None:
        try:
            return wire.take_frame(self._buffer, cap=wire.REPLY_CAP)
        except wire.GarbledError as error:
            raise GoneError(Gone.GARBLED, str(error)) from None

    def _refuse_unasked(self) -> None:
        """Raise where bytes lie in the channel that no request asked for."""
        if self._hello is not None:
            return
        with contextlib.suppress(OSError):
            self._buffer += self._channel.recv(4096)
        if self._buffer:
            raise GoneError(Gone.GARBLED, f"bytes without a request: {bytes(self._buffer[:60])!r}")

    async def _how_it_ended(self) -> GoneError:
        """Tell a worker that ended from one that merely closed its channel."""
        try:
            await self._nursery.wait_status(self._id, _GRACE_S)
        except TimeoutError:
            return GoneError(Gone.GARBLED, "the worker closed its result channel and lives on")
        self._drain()
        return GoneError(Gone.ENDED)

    def _read_output(self) -> bool:
        try:
            data = os.read(self._output, 1 << 18)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose other end is closed
            data = b""
        if not data:
            self._output_open = False
            return False
        self._printed += len(data)
        self._text += data
        kept = self._limits.output_kept_bytes
        if len(self._text) > 2 * kept:  # the beginning and the end tell most
            del self._text[kept // 4 : len(self._text) - kept * 3 // 4]
        if self._printed > self._limits.output_bytes:
            limit = self._limits.output_bytes
            raise GoneError(Gone.FLOODED, f"the candidate printed more than {limit} bytes")
        return True

    def _drain(self) -> None:
        with contextlib.suppress(GoneError):
            while self._output_open and self._read_output():
                pass

    def take_output(self) -> str:
        """Return what was printed since the last call, capped: untrusted text."""
        if not self._closed:
            self._drain()
        text, kept = self._text, self._limits.output_kept_bytes
        if len(text) > kept:
            cut = b"\n[...]\n"
            text = text[: kept // 4] + cut + text[len(text) - (kept - kept // 4 - len(cut)) :]
        self._printed, self._text = 0, bytearray()
        return bytes(text).decode(errors="replace")

    def _count_files(self) -> None:
        limits, depth = self._limits, self._limits.folder_levels
        excess = trees.excess(
            self.folder, files=limits.files, depth=depth, size=limits.folder_bytes
        )
        now = time.monotonic()
        if not excess and now >= self._look_at:
            self._look_at = now + _LOOK_S
            # `excess` is in words what its processes hold too much of without a name.
            held = 0 if self.pid is None else unnamed_bytes(processes.live(self.pid))
            allowed = self._limits.folder_bytes
            excess = (
                f"{held} bytes held without a name, allowed {allowed}" if held > allowed else ""
            )
            if not excess and self._cache is not None:
                excess = trees.excess(
                    self._cache, files=limits.cache_files, depth=depth, size=limits.cache_bytes
                )
        if excess:
            raise GoneError(Gone.EXCESS, excess)

    async def _watch(self, *, may_be_idle: bool) -> None:
        self._count_files()
        pid = self._nursery.pids.get(self._id)
        if pid is None:
            return
        if not may_be_idle:
            # Looks are counted, not seconds: a judge that was stopped itself saw nothing.
            ticks, runs = processes.family_use(pid)
            waits = ticks == self._ticks and not runs
            self._ticks, self._idle_watches = ticks, self._idle_watches + 1 if waits else 0
            if self._idle_watches * self._limits.watch_s >= self._limits.idle_s:
                raise GoneError(Gone.IDLE)
        # It reads many files, while others go on.
        count, held = await asyncio.to_thread(processes.tree_size, pid)
        if count > self._limits.processes:
            raise GoneError(Gone.EXCESS, f"{count} processes, allowed {self._limits.processes}")
        if held > self._limits.memory_bytes:
            self._count(pid, held)

    def _count(self, pid: int, held: int) -> None:
        """Raise GoneError where the tree holds too much, what its processes share counted once.

        torch's compiler forks a process a core, each of which seems to hold all that the first
        one does. Counting costs milliseconds a process: again when it grew, and now and then.
        """
        allowed, now = self._limits.memory_bytes, time.monotonic()
        if held - self._shared_bytes <= allowed and now < self._count_at:
            return
        exact = processes.tree_bytes(pid)
        if exact > allowed:
            raise GoneError(Gone.EXCESS, f"{exact} bytes held, allowed {allowed}")
        self._shared_bytes, self._count_at = held - exact, now + _COUNT_S

    @property
    def pid(self) -> int | None:
        """Its process, as this side sees it; None where that is not known."""
        return self._nursery.pids.get(self._id)

    def kill(self) -> None:
        """Kill the worker with its tree without waiting for its end. Raises NurseryError."""
        self._nursery.kill(self._id)

    def has_ended(self) -> bool:
        """Whether its end has been reported."""
        return self._nursery.has_ended(self._id)

    async def end(self) -> int:
        """Kill the worker with its tree; return its wait status. Raises NurseryError."""
        status = await self._nursery.end(self._id)
        self._drain()
        return status

    def close(self) -> None:
        """Close the judge's descriptors; the worker must have been ended."""
        if not self._closed:
            self._drain()
            self._closed = True
            self._channel.close()
            os.close(self._output)
