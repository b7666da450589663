"""Calls in a row, for the judge's clock or for what they leave behind in the process."""

from __future__ import annotations

import dataclasses
import gc
import os
import time
from collections.abc import Iterator, Sequence
from operator import attrgetter, gt

import torch

from cuassay.model.reports import Holding, Holdings
from cuassay.model.scenario import Poison
from cuassay.model.steps import CallOften, Time
from cuassay.sandbox.guest.callers.streams import copies, settle
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.processes import holding

_FEW = 8
_COUNTS = attrgetter("threads", "processes", "files", "device_bytes")
_FLUSH_BYTES = {"cpu": 1 << 25, "cuda": 1 << 28}  # several times the last-level cache


def time_calls(host: Host, step: Time) -> Made:
    """Call `step.count` times, each on a cold cache with `flush`; the last result is kept."""
    outputs = host.destinations(step.slot, Poison.NAN)
    size = _FLUSH_BYTES[host.device.kind] if step.flush else 0
    buffer = torch.zeros(size, dtype=torch.uint8, device=host.device)
    held: list[tuple[str, object]] = []
    settle(host)
    for number in range(step.count):
        if step.flush:
            buffer.fill_(number & 0x7F)
        if not step.idle:
            held = host.invoke(step.slot, outputs)
    settle(host)
    if step.result and held:
        host.hold(step.result, step.slot, copies(held))
        settle(host)
    return Made()


def spans(step: CallOften, taken_s: Sequence[float]) -> Iterator[tuple[int, bool]]:
    """Yield how many calls to make, and whether to look then at what the process holds.

    The caller adds to `taken_s` what the calls of each span took, without the look. A look searches
    the whole process for garbage, which takes 0.1 s: quick calls are looked at as few times as
    tell what grows from what is built once.
    """
    long_s = step.budget_s / 4
    yield 2, False  # what a first call builds
    begins = taken_s[-1] > long_s
    if begins:
        yield 0, True
    yield 2, False
    if taken_s[-1] > long_s:
        yield 0, True
        yield 2, True
        if not begins:
            yield 2, True
        if taken_s[-1] > long_s:
            return
    yield _FEW, False
    yield _FEW, False
    a_call_s = sum(taken_s[-2:]) / (2 * _FEW)
    many = max(_FEW, min(step.most, int(step.budget_s / 3 / max(a_call_s, 1e-9))))
    yield many, True  # what was free in the heap is used up
    yield many, True
    yield many, True


def call_often(host: Host, step: CallOften) -> Made:
    """Execute a CallOften; each call gets outputs of its own where it is given any."""
    found: list[Holding] = []
    calls, taken_s = 0, list[float]()
    for count, looks in spans(step, taken_s):
        started = time.monotonic()
        for _ in range(count):
            host.invoke(step.slot, host.destinations(step.slot, Poison.NAN))
        settle(host)
        taken_s.append(time.monotonic() - started)
        calls += count
        if not looks:
            continue
        if not step.looks:
            found.clear()
        elif found:
            gc.collect(1)
        seen = _held(host, calls)
        # A search of all objects takes 0.1 s, nearly all of them torch's. Only where more is held
        # than at the last look can garbage be among the old ones.
        if step.looks and (not found or any(map(gt, _COUNTS(seen), _COUNTS(found[-1])))):
            gc.collect()
            seen = _held(host, calls)
        found.append(seen)
    if step.result:
        held = host.invoke(step.slot, host.destinations(step.slot, Poison.NAN))
        settle(host)
        host.hold(step.result, step.slot, held)
    return Made(report=Holdings(found=tuple(found)))


def _held(host: Host, calls: int) -> Holding:
    """Return what this process holds; its memory is also what cuassay keeps of each launch."""
    on_device = torch.cuda.memory_allocated() if host.device.on_gpu else 0
    seen = holding(os.getpid(), calls=calls, device_bytes=on_device)
    return dataclasses.replace(seen, host_bytes=0)
