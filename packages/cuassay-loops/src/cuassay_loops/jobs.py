"""The judge's side of the loops' verbs (train, blame, infer): load, run, report as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from cuassay import build
from cuassay.errors import CannotJudgeError
from cuassay.judge.environment import choose_device, environment
from cuassay.model import serial
from cuassay.model.events import Event
from cuassay.model.jobs import LoopJob
from cuassay.sandbox.host.nursery import Nursery
from cuassay_loops import run as loops


def run_loop(job: LoopJob, emit: Callable[[Event], None], nursery: Nursery | None) -> str:
    """Run a loop's job and return its report as JSON text.

    Raises UsageError for what the user can mend, CannotJudgeError where nothing can be judged.
    """
    started = time.perf_counter()
    device = choose_device(job.device)
    if not device.on_gpu:
        torch.set_num_threads(1)  # operators are small, and the kernel's process needs a core
    shared = nursery if nursery and nursery.device == device else None
    try:
        report = loops.run(job, emit, device=device, nursery=shared)
    except torch.OutOfMemoryError as error:
        raise CannotJudgeError(
            f"out of memory on {device}: {str(error).splitlines()[0][:200]}; choose a smaller "
            "--preset, or free the device; finished cells are kept"
        ) from None
    surroundings = environment(device, build.toolchain(device))
    duration_s = time.perf_counter() - started
    return serial.dumps(replace(report, environment=surroundings, duration_s=duration_s))
