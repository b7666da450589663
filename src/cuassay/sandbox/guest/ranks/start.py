"""Starts a rank's process: without a GPU a fork of the worker, on one a fork of its starter.

A process that has used CUDA cannot be forked, and one that is confined cannot open a GPU for its
children: /proc/self is then another's. So the worker forks a starter before both. What that
starts confines itself first, and then learns what it is to do.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from cuassay.errors import MissingToolError
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.guest.process.bytecode import keep_bytecode
from cuassay.sandbox.guest.raised import raised
from cuassay.sandbox.guest.ranks.member import Place, run
from cuassay.sandbox.guest.ranks.messages import Ends

# NVLink multicast needs a fabric manager that may not be there, and hides who writes where.
_SETTINGS: Mapping[str, str] = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1",  # where ranks share a GPU
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
}
_DIGITS = 12  # of a process number


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the function of a rank is built: `builder` names who does it, as module:function."""

    candidate: Candidate
    builder: str
    folder: Path

    def build(self, problem: Problem, device: Device) -> Callable[..., object]:
        """Return the function of a rank. Raises BuildError and MissingToolError."""
        module, _, name = self.builder.partition(":")
        load = getattr(importlib.import_module(module), name)
        keep_bytecode(self.folder)
        call: Callable[..., object] = load(
            self.candidate, problem, device=device, folder=self.folder
        ).call
        return call


def open_starter(confine: Callable[[], object]) -> socket.socket:
    """Fork the process that starts ranks on GPUs; each calls `confine` before all else.

    For a process that has no threads, and has not used CUDA. Returns the way to it.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork():
        there.close()
        return here
    here.close()
    kernel.die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries what it started
    while True:
        _, ends, _, _ = socket.recv_fds(there, 1, 2)
        if len(ends) != 2:
            os._exit(0)
        process = os.fork()
        if not process:
            there.close()
            _be_told(ends, confine)
        for end in ends:
            os.close(end)
        there.sendall(str(process).rjust(_DIGITS).encode())


def _be_told(ends: Sequence[int], confine: Callable[[], object]) -> None:
    """Be the rank that the other side of the pipe describes; never returns."""
    channel, asked = (Connection(end) for end in ends)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel.die_with_parent(signal.SIGKILL)
        confine()
        os.environ.update(_SETTINGS)
        place, problem, recipe = channel.recv()
    except BaseException as error:  # else it would go on as the process that it is a fork of
        channel.send(Ends(raised(0, error)))
        os._exit(1)

    def build() -> Callable[..., object]:
        if place.device.on_gpu:
            torch.cuda.set_device(place.device)
        return recipe.build(problem, place.device)  # type: ignore[no-any-return]

    run(channel, asked, place, build, problem)


def start_by(starter: socket.socket, channel: Connection, asked: Connection) -> int:
    """Let the starter start a rank, which waits for what it is to be; return its process."""
    socket.send_fds(starter, [b"1"], [channel.fileno(), asked.fileno()])
    told = starter.recv(_DIGITS, socket.MSG_WAITALL)
    return int(told)


def start(
    channel: Connection,
    asked: Connection,
    place: Place,
    function: Callable[..., object],
    *,
    problem: Problem,
    starter: socket.socket | None,
    theirs: Sequence[Connection],
) -> int:
    """Start a rank and return its process. `theirs` are ends of pipes that it must not keep.

    Raises MissingToolError where there is no starter for ranks on a GPU.
    """
    if not place.device.on_gpu:
        process = os.fork()
        if not process:
            for other in theirs:
                other.close()
            run(channel, asked, place, lambda: function, problem)
        return process
    if starter is None:
        raise MissingToolError(
            "ranks on GPUs were not asked for when this process began; start it for a problem with "
            "`ranks`"
        )
    return start_by(starter, channel, asked)
