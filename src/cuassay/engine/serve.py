"""Waiting judges for every process of this user: `cuassay serve` holds them, trials borrow one.

A judge takes seconds to start: torch, a CUDA context, the workers' zygote. The server keeps one
ready on each lane and listens on a Unix socket in cuassay's home. A trial anywhere else
(`cuassay check`, pytest, `cuassay.check`) asks for a judge; it keeps its own run folder, sends the
job and reads the events. Where the server cannot serve it, its settings differ say, or every lane
is busy, the trial starts a judge of its own, as without a server.

On the socket: one JSON line with who asks, one with the answer, one with the job, then an event
a line. Closing the connection ends the trial.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Any

from cuassay.closing import Closing
from cuassay.engine.pool import Turn, WarmPool
from cuassay.engine.served import LONGEST_LINE_BYTES, identity, send, socket_place
from cuassay.errors import CuassayError, UsageError
from cuassay.model import serial
from cuassay.model.device import Device
from cuassay.model.events import EngineFinished, EngineStopped
from cuassay.model.jobs import TrialJob

# How a client, or what it sends, can be off; each ends its own connection alone.
_OFF = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, CuassayError)
_JUDGES_END_S = 10.0  # how long closing waits for a running judge to be ended


class Server(Closing):
    """Serves the judges of a pool until closed. Raises UsageError where another one serves."""

    def __init__(self, pool: WarmPool) -> None:
        self._pool = pool
        self._identity = identity()
        self.path = socket_place()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._socket = _listening(self.path)
        self._clients: dict[threading.Thread, socket.socket] = {}

    def serve(self) -> None:
        """Answer until `close`, which ends running trials too."""
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:  # closed
                return
            thread = threading.Thread(target=self._answer, args=(client,), daemon=True)
            self._clients[thread] = client
            thread.start()

    def close(self) -> None:
        """Listen no more, end what runs, and remove the socket."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.path.unlink(missing_ok=True)
        for thread, client in list(self._clients.items()):
            with contextlib.suppress(OSError):  # it has gone already
                client.shutdown(socket.SHUT_RDWR)
            if thread.is_alive():  # else it has ended, or never began
                thread.join(_JUDGES_END_S)

    def _answer(self, client: socket.socket) -> None:
        # Whatever a client sends or however it leaves, the server goes on.
        try:
            self._serve_one(client)
        finally:
            self._clients.pop(threading.current_thread(), None)

    def _serve_one(self, client: socket.socket) -> None:
        with client, contextlib.suppress(*_OFF):
            # The user id of the process at the other end.
            size = struct.calcsize("3i")
            _, user, _ = struct.unpack(
                "3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            )
            if int(user) != os.getuid():
                return
            with client.makefile("rwb") as stream:
                asked = json.loads(stream.readline(LONGEST_LINE_BYTES))
                mine = self._identity
                differing = [key for key in ("version", "code") if asked.get(key) != mine[key]]
                theirs = asked["settings"]
                differing += [
                    name
                    for name in sorted({*theirs, *mine["settings"]})
                    if theirs.get(name) != mine["settings"].get(name)
                ]
                refused = f"other {', '.join(differing)}" if differing else ""
                if refused:
                    send(stream, {"refused": refused})
                    return
                device = Device(asked["device"]) if asked["device"] else None
                with self._pool.borrow(device) as lane:
                    if lane is None:
                        send(stream, {"refused": "every judge is busy"})
                        return
                    send(stream, {"lane": lane.name})
                    job: TrialJob = serial.loads(TrialJob, stream.readline().decode())
                    placed = dataclasses.replace(job, device=lane.device)
                    with self._pool.turn(lane, placed) as turn:
                        self._judge(client, stream, turn, placed)

    def _judge(self, client: socket.socket, stream: Any, turn: Turn, job: TrialJob) -> None:
        """Hand the job to the judge and its events to the client, until the verdict."""
        ended = threading.Event()

        def end_with_client() -> None:
            with contextlib.suppress(OSError):  # a client sends nothing after the job
                client.recv(1)
            if not ended.is_set():
                turn.judge.kill()

        gone = threading.Thread(target=end_with_client, daemon=True)
        turn.judge.submit(job)
        gone.start()
        try:
            for event in turn.judge.events():
                self._pool.saw(turn, event)
                if isinstance(event, EngineFinished | EngineStopped):
                    ended.set()
                stream.write(serial.dumps(event).encode() + b"\n")
                stream.flush()
                if ended.is_set():
                    turn.judge.leave()
                    return
        finally:  # closing alone says nothing while the other thread waits
            if not ended.is_set():
                turn.judge.kill()
            ended.set()
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            gone.join(_JUDGES_END_S)


def _listening(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the socket is this user's alone from its first moment
    try:
        for last in (False, True):
            try:
                found.bind(str(path))
                break
            except OSError as error:
                if last or _serves(path):
                    found.close()
                    raise UsageError(
                        f"cannot serve at {path}: {error.strerror or error}; another `cuassay "
                        "serve` may run with this CUASSAY_HOME: end it, or set another home"
                    ) from None
                path.unlink(missing_ok=True)  # its server is gone
    finally:
        os.umask(before)
    found.listen(64)
    return found


def _serves(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
