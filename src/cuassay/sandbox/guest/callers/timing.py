"""Calls in a row, for the judge's clock: the worker counts and waits, it measures nothing."""

from __future__ import annotations

import torch

from cuassay.model.scenario import Poison
from cuassay.model.steps import Time
from cuassay.sandbox.guest.callers.streams import copies, settle
from cuassay.sandbox.guest.interface import Host, Made

_FLUSH_BYTES = {"cpu": 1 << 25, "cuda": 1 << 28}  # several times the last-level cache


def time_calls(host: Host, step: Time) -> Made:
    """Call `step.count` times, each on a cold cache with `flush`; the last result is kept."""
    outputs = host.destinations(step.slot, Poison.NAN)
    size = _FLUSH_BYTES["cpu" if host.device == "cpu" else "cuda"] if step.flush else 0
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
