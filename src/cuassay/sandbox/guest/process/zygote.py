"""The process that workers are forked from: torch is imported once, a worker costs a fork.

A fork of the program in `apart`, with one descriptor, the control socket, which no worker ever
has. It enters its namespaces before anything can start a thread, never initialises CUDA,
forks a worker on request, reaps every descendant and reports how each worker ended. When the
judge goes away, however that happens, it ends everything and removes the folder.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any

from cuassay.model.device import Device
from cuassay.model.steps import Mode
from cuassay.sandbox import environment, processes, trees
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.guest.process import walls as sandbox
from cuassay.sandbox.guest.process.preload import hash_triton, preload, preload_compiler
from cuassay.sandbox.limits import Limits

CONTROL_CAP = 1 << 16
_SWEEP_S = 5.0
_IDLE_S = 1.0


class Zygote:
    """The control loop: spawn and end requests in, spawned and ended reports out."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._settings = json.loads(control.recv(CONTROL_CAP))
        self._device = Device(self._settings["device"])
        self._folder = str(self._settings["folder"])
        self._readable = tuple(json.loads(Path(self._settings["readable"]).read_bytes()))
        self._workers: dict[int, int] = {}  # pid -> worker id
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def prepare(self) -> None:
        """Enter the sandbox, import what workers need, and say that workers can be had."""
        environment.adopt(self._settings["told"])
        report = sandbox.enter_namespaces(self._settings["hide"])
        kernel.set_dumpable(False)
        kernel.adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_parent_death)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the judge handles an interrupt
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        kernel.die_with_parent(signal.SIGTERM)
        missing = preload(self._device, machine=bool(self._settings["machine"]))
        gc.collect()
        gc.freeze()  # what is loaded now need not be walked again in every worker
        self._namespaces = report
        self._tell({"ready": report, "missing": missing})

    def serve(self) -> None:
        """Answer requests until the judge closes the control socket.

        Triton is hashed for a GPU after the first fork, which does it itself while the driver makes
        its context, or where none is asked for.
        """
        triton_waits = self._device.on_gpu
        while True:
            sources: list[Any] = [self._control, self._wake_read]
            idle_s = (0.0 if self._workers else _IDLE_S) if triton_waits else None
            ready, _, _ = select.select(sources, [], [], idle_s)
            if not ready:
                triton_waits = False
                hash_triton()
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                # Collect what ended; a worker that ended takes its whole tree with it
                ended = []
                while (found := _wait()) is not None:
                    pid, status = found
                    worker = self._workers.pop(pid, None)
                    if worker is not None:
                        ended.append((worker, status))
                        processes.kill_group(pid)
                if ended:
                    self._sweep()
                for worker, status in ended:
                    self._tell({"ended": worker, "status": status})
            if self._control in ready and not self._answer():
                return

    def _answer(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, CONTROL_CAP, 4)
        except ConnectionResetError:
            return False
        if not data:
            return False
        request = json.loads(data)
        if request["do"] == "spawn":
            self._spawn(request, fds)
        elif request["do"] == "load compiler":
            preload_compiler(self._device)
            gc.collect()
            gc.freeze()
        elif request["do"] == "end":
            for pid in [p for p, worker in self._workers.items() if worker == request["id"]]:
                table = processes.visible_processes()
                processes.kill_group(pid)
                for other in processes.descendants([pid], table):
                    processes.kill(other)
        for fd in fds:
            os.close(fd)
        return True

    def _spawn(self, request: dict[str, Any], fds: list[int]) -> None:
        pid = os.fork()
        if pid:
            self._workers[pid] = request["id"]
            self._tell({"spawned": request["id"], "pid": pid})
            return
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            from cuassay.sandbox.guest.process import child

            child.main(
                channel=fds[0],
                output=fds[1],
                zygote=os.getppid(),
                folder=request["folder"],
                cache=request["cache"],
                device=self._device,
                limits=Limits(**request["limits"]),
                confinement=child.Confinement(
                    readable=self._readable,
                    outside=self._folder,
                    judge=int(self._settings["judge"]),
                    required=bool(request["confined"]),
                    told=request["told"],
                ),
                namespaces=self._namespaces,
                mode=Mode(request["mode"]),
                queues=request["queues"],
            )
        finally:
            os._exit(70)

    def _sweep(self) -> None:
        """Kill every descendant that belongs to no live worker: daemons of ended ones.

        A daemon may fork faster than it is killed: while new ones come, the next round begins at
        once. What outruns this for `_SWEEP_S` is seen by the judge (`Nursery.is_as_new`).
        """
        own = os.getpid()
        killed: set[int] = set()
        end = time.monotonic() + _SWEEP_S
        while time.monotonic() < end:
            table = processes.below(own)
            kept = processes.descendants(self._workers, table) | {own}
            strangers = {pid for pid in set(table) - kept if table[pid].state != "Z"}
            groups = {table[pid].group for pid in kept if pid in table}
            for process in (table[pid] for pid in strangers):
                if process.group not in groups:
                    processes.kill_group(process.group)
                processes.kill(process.pid)
            while (found := _wait()) is not None:
                if found[0] in self._workers:
                    self._tell({"ended": self._workers.pop(found[0]), "status": found[1]})
            if not strangers:
                return
            if strangers <= killed:
                time.sleep(0.002)  # they are ending
            killed |= strangers

    def _tell(self, message: dict[str, Any]) -> None:
        # A judge that is gone is noticed by the main loop.
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())

    def _on_parent_death(self, *_: object) -> None:
        """The judge's starting thread ended; only the judge's own death matters."""
        if os.getppid() == self._settings["judge"]:
            return
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # the main loop then sees the end

    def close(self) -> None:
        """End every worker and remove the folder."""
        for pid in list(self._workers):
            processes.kill_group(pid)
        self._workers.clear()
        self._sweep()
        trees.remove(self._folder)


def _wait() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def main(descriptor: int) -> None:
    """Serve the judge on a descriptor until the judge closes it."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    zygote = Zygote(control)
    try:
        zygote.prepare()
        zygote.serve()
    finally:
        zygote.close()
