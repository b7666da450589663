"""Starts a rank's process: a fork without a GPU, with one a new interpreter, since CUDA forbids.

What starts on a GPU builds the candidate for itself, from the cache of the process that asks.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from cuassay.errors import MissingToolError
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.sandbox.guest.ranks.member import Place, run

# NVLink multicast needs a fabric manager that may not be there, and hides who writes where.
_NCCL = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
}


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
        call: Callable[..., object] = load(
            self.candidate, problem, device=device, folder=self.folder
        ).call
        return call


def start(
    channel: Connection,
    asked: Connection,
    place: Place,
    function: Callable[..., object],
    *,
    problem: Problem,
    recipe: Recipe,
    theirs: list[Connection],
) -> int:
    """Start a rank and return its process. `theirs` are ends of pipes that it must not keep.

    Raises MissingToolError where there are fewer GPUs than ranks.
    """
    if not place.device.on_gpu:
        process = os.fork()
        if not process:
            for other in theirs:
                other.close()
            run(channel, asked, place, lambda: function, problem)
        return process
    gpus = torch.cuda.device_count()
    if place.world > gpus:
        raise MissingToolError(f"{place.world} ranks need as many GPUs, this machine shows {gpus}")
    return start_anew(channel, asked)


def start_anew(channel: Connection, asked: Connection) -> int:
    """Start an interpreter that waits for its place, problem and recipe; return its process."""
    ends = (channel.fileno(), asked.fileno())
    for end in ends:  # nothing else of this process goes along
        os.set_inheritable(end, True)
    told = [sys.executable, "-P", "-m", __name__, *map(str, ends)]
    return os.posix_spawn(told[0], told, os.environ | _NCCL)


def main() -> None:
    """Be the rank that the other side of the pipe describes; never returns."""
    channel, asked = (Connection(int(number)) for number in sys.argv[1:])
    place, problem, recipe = channel.recv()
    if place.device.on_gpu:
        place = replace(place, device=Device(f"cuda:{place.rank}"))
        torch.cuda.set_device(place.rank)
    run(channel, asked, place, lambda: recipe.build(problem, place.device), problem)


if __name__ == "__main__":
    main()
