"""How much memory is left, as the judge sees it: no kernel's word decides that it ran out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.model.device import CPU, Device
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.model.problem import Problem
    from cuassay.model.scenario import Scenario

_GIB = 1 << 30
_TIMES = 8  # what a kernel may need, as a multiple of its inputs and outputs in 8-byte elements
_ELEMENT_BYTES = 8
_SHARED = 0.25
_MOST_TIMES = 2  # what is planned, or known to be needed, that a cap gives way to
_CONTEXT_BYTES = _GIB  # of this process, with its libraries


class Cap:
    """Holds this process's torch allocator to a share of a GPU while a trial runs.

    Beyond it torch first gives back what it keeps, so that what is planned is what is taken.
    `limit_bytes` None lifts the cap of a trial before.
    """

    def __init__(self, device: Device, limit_bytes: int | None) -> None:
        self._device, self._limit, self._planned = device, limit_bytes, limit_bytes
        self._known = limit_bytes or 0  # what was planned, or what a case is known to need
        self.active = limit_bytes is not None and device.on_gpu
        if device.on_gpu:
            self._set()

    def widen(self) -> bool:
        """Allow a quarter more: the plan was wrong; return whether that is within twice of it.

        torch keeps what it is allowed to take, and trials beside this one have their own plans.
        """
        if self._limit is None or not self.active or self._limit >= _MOST_TIMES * self._known:
            return False
        self._limit = min(self._limit + self._limit // 4, _MOST_TIMES * self._known)
        self._set()
        return True

    def allow(self, needed_bytes: int) -> None:
        """Allow at least so much: a case that has no smaller one needs it."""
        if self._limit is not None and self.active and needed_bytes > self._limit:
            self._limit = self._known = needed_bytes
            self._set()

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Allow everything meanwhile, and afterwards what was needed and a quarter more."""
        before = self._limit
        if before is None or not self.active:
            yield
            return
        torch.cuda.reset_peak_memory_stats(self._device)
        self._limit = None
        self._set()
        try:
            yield
        finally:
            needed = torch.cuda.max_memory_allocated(self._device)
            self._limit = max(before, needed + needed // 4)
            self._known = max(self._known, self._limit)
            self._set()

    def give_back(self) -> None:
        """Let go of what torch keeps for later, where the plan had to give way and others need it.

        They do where the GPU has less left than this process may take. To take gigabytes from the
        driver again costs as long as what is done with them.
        """
        if self._limit != self._planned and available_bytes(self._device) < (self._limit or 0):
            torch.cuda.empty_cache()

    def _set(self) -> None:
        total = torch.cuda.mem_get_info(self._device)[1]
        share = 1.0 if self._limit is None else min(1.0, self._limit / total)
        self.active = share < 1.0
        index = torch.device(self._device).index
        torch.cuda.set_per_process_memory_fraction(
            share, torch.cuda.current_device() if index is None else index
        )


def host_plan_gib(profile: Profile) -> float:
    """Return how much of the host's memory a trial on the CPU plans with, in GiB.

    A quarter of what the machine or its container has, at most 8 GiB, at `quick`; half of it
    otherwise. What is free at the moment does not count: a trial's cases hang on its seed alone.
    """
    total = total_bytes(CPU)
    return min(8.0, total / _GIB / 4) if profile is Profile.QUICK else total / _GIB / 2


def total_bytes(device: Device) -> int:
    """Return the bytes of memory that a device has; on `cpu` those of the machine or container."""
    if device.on_gpu:
        return int(torch.cuda.mem_get_info(device)[1])
    with open("/proc/meminfo", encoding="ascii") as file:
        total = int(dict(line.split(":", 1) for line in file)["MemTotal"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no control groups, or no limit in them
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return total


def available_bytes(device: Device) -> int:
    """Return the bytes that a new process could take now on `device` (cpu, cuda, cuda:N)."""
    if device.on_gpu:
        return int(torch.cuda.mem_get_info(device)[0])
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["MemAvailable"].split()[0]) * 1024


def shortage(device: Device, scenario: Scenario, problem: Problem) -> str:
    """Return in words how little memory is left for a scenario; empty where there is enough.

    Enough is 1 GiB and eight times the inputs and outputs of the scenario's cases. A GPU of
    which other processes hold a quarter counts as short: what is free there now need not have
    been free a moment ago.
    """
    if device.on_gpu:
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.memory_reserved(device) + _CONTEXT_BYTES
        shared = max(0.0, (total - free - own) / total)
        if shared >= _SHARED:
            return (
                f"out of memory, and other processes hold {shared:.0%} of this GPU: run it again "
                "alone"
            )
    elements = sum(elements_of(problem, case.axes) for case in scenario.cases)
    wanted = _GIB + _TIMES * _ELEMENT_BYTES * elements
    left = available_bytes(device)
    if left >= wanted:
        return ""
    return (
        f"out of memory, and only {left / _GIB:.1f} GiB are free on this machine: run it again "
        "alone, or with smaller workloads"
    )
